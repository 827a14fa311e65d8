// RUN: tg-opt %s -p stablehlo-to-tg | filecheck %s

// The order of a polygamma function is a property here, so it has to be a constant, however it is repeated.

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  // CHECK: %0 = tg.lgamma %{{.*}} : tensor<2xf32>
  %0 = chlo.lgamma %x : tensor<2xf32> -> tensor<2xf32>
  // CHECK-NEXT: %1 = tg.polygamma %0 order = 0 : tensor<2xf32>
  %1 = chlo.digamma %0 : tensor<2xf32> -> tensor<2xf32>
  %2 = stablehlo.constant dense<2> : tensor<i32>
  %3 = stablehlo.convert %2 : (tensor<i32>) -> tensor<f32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [] : (tensor<f32>) -> tensor<2xf32>
  // CHECK: %[[LAST:.*]] = tg.polygamma %1 order = 2 : tensor<2xf32>
  %5 = chlo.polygamma %4, %1 : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  // CHECK-NEXT: func.return %[[LAST]]
  return %5 : tensor<2xf32>
}
