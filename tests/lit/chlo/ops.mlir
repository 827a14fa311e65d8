// RUN: tg-opt %s | filecheck %s
// RUN: TG_ROUNDTRIP

// CHECK-LABEL: func.func @functions
func.func @functions(%x: tensor<2xf32>) {
  // CHECK: chlo.acos %x : tensor<2xf32> -> tensor<2xf32>
  %0 = chlo.acos %x : tensor<2xf32> -> tensor<2xf32>
  // CHECK: chlo.acosh %x : tensor<2xf32> -> tensor<2xf32>
  %1 = chlo.acosh %x : tensor<2xf32> -> tensor<2xf32>
  // CHECK: chlo.asin %x : tensor<2xf32> -> tensor<2xf32>
  %2 = chlo.asin %x : tensor<2xf32> -> tensor<2xf32>
  // CHECK: chlo.asinh %x : tensor<2xf32> -> tensor<2xf32>
  %3 = chlo.asinh %x : tensor<2xf32> -> tensor<2xf32>
  // CHECK: chlo.atan %x : tensor<2xf32> -> tensor<2xf32>
  %4 = chlo.atan %x : tensor<2xf32> -> tensor<2xf32>
  // CHECK: chlo.atanh %x : tensor<2xf32> -> tensor<2xf32>
  %5 = chlo.atanh %x : tensor<2xf32> -> tensor<2xf32>
  // CHECK: chlo.cosh %x : tensor<2xf32> -> tensor<2xf32>
  %6 = chlo.cosh %x : tensor<2xf32> -> tensor<2xf32>
  // CHECK: chlo.digamma %x : tensor<2xf32> -> tensor<2xf32>
  %7 = chlo.digamma %x : tensor<2xf32> -> tensor<2xf32>
  // CHECK: chlo.erf %x : tensor<2xf32> -> tensor<2xf32>
  %8 = chlo.erf %x : tensor<2xf32> -> tensor<2xf32>
  // CHECK: chlo.erf_inv %x : tensor<2xf32> -> tensor<2xf32>
  %9 = chlo.erf_inv %x : tensor<2xf32> -> tensor<2xf32>
  // CHECK: chlo.erfc %x : tensor<2xf32> -> tensor<2xf32>
  %10 = chlo.erfc %x : tensor<2xf32> -> tensor<2xf32>
  // CHECK: chlo.lgamma %x : tensor<2xf32> -> tensor<2xf32>
  %11 = chlo.lgamma %x : tensor<2xf32> -> tensor<2xf32>
  // CHECK: chlo.sinh %x : tensor<2xf32> -> tensor<2xf32>
  %12 = chlo.sinh %x : tensor<2xf32> -> tensor<2xf32>
  // CHECK: chlo.square %x : tensor<2xf32> -> tensor<2xf32>
  %13 = chlo.square %x : tensor<2xf32> -> tensor<2xf32>
  // CHECK: chlo.tan %x : tensor<2xf32> -> tensor<2xf32>
  %14 = chlo.tan %x : tensor<2xf32> -> tensor<2xf32>
  // CHECK: chlo.next_after %x, %x : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  %15 = chlo.next_after %x, %x : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  // CHECK: chlo.polygamma %x, %x : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  %16 = chlo.polygamma %x, %x : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  // CHECK: chlo.zeta %x, %x : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  %17 = chlo.zeta %x, %x : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  return
}
