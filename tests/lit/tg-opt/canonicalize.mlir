// Upstream's `canonicalize` folds ops of `tg` by their own rules.
// RUN: tg-opt %s -p canonicalize | filecheck %s

func.func @folded() -> tensor<2xf32> {
  %0 = tg.constant value = dense<1.000000e+00> : tensor<2xf32>
  %1 = tg.add %0, %0 : tensor<2xf32>, tensor<2xf32>
  func.return %1 : tensor<2xf32>
}
// CHECK-LABEL: func.func @folded(
// CHECK-NEXT:   %0 = tg.constant value = dense<2.000000e+00> : tensor<2xf32>
// CHECK-NEXT:   func.return %0 : tensor<2xf32>
