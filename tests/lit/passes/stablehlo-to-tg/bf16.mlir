// RUN: tg-opt %s -p stablehlo-to-tg | filecheck %s

// CHECK-LABEL: func.func @main
// CHECK-SAME: tensor<2xbf16>
func.func public @main(%x: tensor<2xbf16>) -> tensor<2xf32> {
  // CHECK: tg.constant value = dense<1.000000e+00> : tensor<2xbf16>
  %one = stablehlo.constant dense<1.0> : tensor<2xbf16>
  // CHECK: tg.add %x, %{{.*}} : tensor<2xbf16>, tensor<2xbf16>
  %0 = stablehlo.add %x, %one : tensor<2xbf16>
  // CHECK: tg.cast %{{.*}} to = f32 : tensor<2xbf16>
  %1 = stablehlo.convert %0 : (tensor<2xbf16>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
