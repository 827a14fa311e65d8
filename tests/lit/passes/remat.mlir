// RUN: tg-opt %s -p 'remat{segments=2}' | filecheck %s
// RUN: tg-opt %s -p 'remat{segments=1}' | filecheck %s --check-prefix WHOLE
// RUN: tg-opt %s -p 'remat{segments=2},grad,inline-calls{recompute=false},simplify' | filecheck %s --check-prefix GRAD

// The segment ends where a single value of 4 bytes crosses, although the segments are unequal. The constant is copied.
func.func @loss(%x: tensor<8xf32>) -> tensor<f32> {
  %two = tg.constant value = dense<2.0> : tensor<8xf32>
  %0 = tg.mul %x, %two : tensor<8xf32>, tensor<8xf32>
  %1 = tg.exp %0 : tensor<8xf32>
  %2 = tg.mul %1, %two : tensor<8xf32>, tensor<8xf32>
  %3 = tg.sum %2 axes = [0] : tensor<8xf32>
  %4 = tg.broadcast %3 shape = [8] dims = [] : tensor<f32>
  %5 = tg.sin %4 : tensor<8xf32>
  %6 = tg.mul %5, %two : tensor<8xf32>, tensor<8xf32>
  %7 = tg.sum %6 axes = [0] : tensor<8xf32>
  func.return %7 : tensor<f32>
}
// CHECK: func.func @loss
// CHECK: %0 = tg.call @segment_1(%x) recompute : (tensor<8xf32>) -> (tensor<f32>) {
// CHECK-NEXT: ^bb0
// CHECK-NEXT: tg.constant
// CHECK-NEXT: tg.mul
// CHECK-NEXT: tg.exp
// CHECK-NEXT: tg.mul
// CHECK-NEXT: tg.sum
// CHECK-NEXT: tg.return
// CHECK-NEXT: }
// CHECK-NEXT: tg.broadcast %0
// CHECK-NEXT: tg.sin
// CHECK-NOT: tg.call
// WHOLE-NOT: tg.call
// GRAD: tg.call @segment_1(%x) recompute
// GRAD: tg.sin
// GRAD: tg.call @segment_1.backward(%x, %{{.*}}) recompute : (tensor<8xf32>, tensor<f32>) -> (tensor<8xf32>)
// GRAD: tg.exp
// GRAD: func.return
