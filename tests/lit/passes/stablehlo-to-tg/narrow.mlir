// RUN: tg-opt %s -p 'stablehlo-to-tg{narrow=true}' | filecheck %s
// RUN: tg-opt %s -p stablehlo-to-tg | filecheck %s --check-prefix WIDE

// CHECK-LABEL: func.func @f
// CHECK-SAME: (%x: tensor<2xi32>
// CHECK: tg.constant value = dense<7> : tensor<2xi32>
// WIDE: tg.constant value = dense<7> : tensor<2xi64>
func.func @f(%x: tensor<2xi64>) -> tensor<2xi64> {
  %0 = stablehlo.constant dense<7> : tensor<2xi64>
  %1 = stablehlo.add %x, %0 : tensor<2xi64>
  return %1 : tensor<2xi64>
}
