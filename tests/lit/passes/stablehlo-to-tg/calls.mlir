// RUN: tg-opt %s -p stablehlo-to-tg,canonicalize,cse | filecheck %s

module attributes {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32} {
  // CHECK-LABEL: func.func @main
  func.func public @main(%arg0: tensor<2xf32> loc("p['w']"), %arg1: tensor<2xf32> loc("x")) -> (tensor<2xf32> {jax.result_info = "result"}) {
    // CHECK: %{{.*}} = tg.sin %arg0 : tensor<2xf32>
    // CHECK-NEXT: %{{.*}} = tg.sin %{{.*}} : tensor<2xf32>
    // CHECK-NEXT: %{{.*}} = tg.sin %{{.*}} : tensor<2xf32>
    // CHECK-NEXT: func.return %{{.*}} : tensor<2xf32>
    %0 = call @twice(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
    %1 = stablehlo.composite "mine" %0 {decomposition = @once} : (tensor<2xf32>) -> tensor<2xf32>
    return %1 : tensor<2xf32>
  }
  func.func private @twice(%arg0: tensor<2xf32>) -> tensor<2xf32> {
    %0 = call @once(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
    %1 = call @once(%0) : (tensor<2xf32>) -> tensor<2xf32>
    return %1 : tensor<2xf32>
  }
  func.func private @once(%arg0: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.sine %arg0 : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
