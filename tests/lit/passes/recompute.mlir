// RUN: tg-opt %s -p recompute | filecheck %s
// RUN: tg-opt %s -p 'grad,simplify,recompute' | filecheck %s --check-prefix GRAD

// The gradient of w reads sin, cos and exp of a product: only the product is kept, and sin and exp are recomputed.
func.func @loss(%x: tensor<8x4xf32> {tg.name = "x", tg.role = "input"}, %w: tensor<4x8xf32> {tg.name = "w", tg.role = "parameter"}) -> (tensor<f32> {tg.name = "loss", tg.role = "output"}) {
  %z = tg.dot_general %x, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<8x4xf32>, tensor<4x8xf32>
  %e = tg.exp %z : tensor<8x8xf32>
  %s = tg.sin %z : tensor<8x8xf32>
  %p = tg.mul %e, %s : tensor<8x8xf32>, tensor<8x8xf32>
  %t = tg.sum %p axes = [0, 1] : tensor<8x8xf32>
  func.return %t : tensor<f32>
}
// Without gradients nothing changes.
// CHECK: tg.dot_general
// CHECK-NEXT: tg.exp
// CHECK-NEXT: tg.sin
// CHECK-NEXT: tg.mul
// CHECK-NEXT: tg.sum
// CHECK-NEXT: func.return

// GRAD: %z = tg.dot_general
// GRAD: tg.sum
// GRAD: tg.cos %z
// GRAD: %[[E:.*]] = tg.exp %z
// GRAD: %[[S:.*]] = tg.sin %z
// GRAD: tg.mul %[[S]], %[[E]]
// GRAD: tg.dot_general
