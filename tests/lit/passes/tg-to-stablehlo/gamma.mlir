// RUN: tg-opt %s -p tg-to-stablehlo | filecheck %s

// The polygamma functions are written out, as XLA's are wrong for negative numbers: near 0 -1/x, below 0 by reflection.

// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:.*]]: tensor<2xf32>
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  // CHECK-NEXT: %[[LOG:.*]] = chlo.lgamma %[[X]] : tensor<2xf32> -> tensor<2xf32>
  %0 = tg.lgamma %x : tensor<2xf32>
  // CHECK-NEXT: %[[SIZE:.*]] = stablehlo.abs %[[LOG]]
  // CHECK-NEXT: %[[ONE:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<2xf32>
  // CHECK-NEXT: %[[MOVED:.*]] = stablehlo.compare LT, %[[LOG]], %[[ONE]]
  // CHECK: stablehlo.floor %[[SIZE]]
  // CHECK: stablehlo.constant dense<-1.000000e+00>
  // CHECK-NEXT: stablehlo.divide %{{.*}}, %[[LOG]]
  // CHECK-NOT: gamma
  // CHECK: func.return
  %1 = tg.polygamma %0 order = 0 : tensor<2xf32>
  func.return %1 : tensor<2xf32>
}

// Numbers of 16 bits are computed in f32.

// CHECK-LABEL: func.func @half
// CHECK-SAME: (%[[X:.*]]: tensor<2xf16>
func.func @half(%x: tensor<2xf16>) -> tensor<2xf16> {
  // CHECK-NEXT: stablehlo.convert %[[X]] : (tensor<2xf16>) -> tensor<2xf32>
  // CHECK: %[[RESULT:.*]] = stablehlo.convert %{{.*}} : (tensor<2xf32>) -> tensor<2xf16>
  // CHECK-NEXT: func.return %[[RESULT]]
  %0 = tg.polygamma %x order = 1 : tensor<2xf16>
  func.return %0 : tensor<2xf16>
}
