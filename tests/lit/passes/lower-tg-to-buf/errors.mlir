// RUN: tg-opt %s --split-input-file --print-diagnostics -p lower-tg-to-buf | filecheck %s

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

// -----

// CHECK: tg.scatter_add sorts 2147483648 indices, more than positions of 32 bits can count
func.func @f(%x: tensor<2147483648xi8>, %i: tensor<2147483648xi64>) -> tensor<3xi8> {
  %0 = tg.scatter_add %x, %i axis = 0 extent = 3 : tensor<2147483648xi8>, tensor<2147483648xi64>
  func.return %0 : tensor<3xi8>
}

// -----

// CHECK: lower-tg-to-buf: functions at level tg take and return tensors, @f has i64
func.func @f(%x: tensor<2xf32>, %i: i64) -> tensor<2xf32> {
  func.return %x : tensor<2xf32>
}
