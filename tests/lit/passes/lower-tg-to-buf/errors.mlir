// RUN: tg-opt %s --split-input-file --verify-diagnostics -p lower-tg-to-buf | filecheck %s

// CHECK: lower-tg-to-buf expects tg ops, got arith.constant
func.func @f() {
  %0 = arith.constant 1 : i32
  func.return
}

// -----

// CHECK: @f must have one block that ends in func.return
func.func @f(%x: tensor<f32>) -> tensor<f32> {
  cf.br ^bb0
^bb0:
  func.return %x : tensor<f32>
}
