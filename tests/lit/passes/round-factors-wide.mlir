// RUN: tg-opt %s -p 'lower-tg-to-buf,round-factors' | filecheck %s

// Doubles stay as they are.
func.func @wide(%x: tensor<64x96xf64>, %w: tensor<96x64xf64>) -> tensor<64x64xf64> {
  %0 = tg.dot_general %x, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<64x96xf64>, tensor<96x64xf64>
  func.return %0 : tensor<64x64xf64>
}
// CHECK-LABEL: func.func @wide(
// CHECK-NOT: bf16
// CHECK: func.return
