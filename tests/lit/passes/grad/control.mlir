// RUN: tg-opt %s -p 'grad{wrt=0,1,2},simplify' --split-input-file | filecheck %s

// The loop also stacks what its derivative reads, the old carried values. The derivative is a loop in reverse order.
func.func @loop(%w: tensor<2xf32>, %h: tensor<2xf32>, %x: tensor<8x2xf32>) -> tensor<f32> {
  %last = tg.scan (%w) carry (%h) over (%x) length = 8 : (tensor<2xf32>, tensor<2xf32>, tensor<8x2xf32>) -> (tensor<2xf32>) {
  ^bb0(%w0: tensor<2xf32>, %h0: tensor<2xf32>, %x0: tensor<2xf32>):
    %0 = tg.mul %w0, %h0 : tensor<2xf32>, tensor<2xf32>
    %1 = tg.add %0, %x0 : tensor<2xf32>, tensor<2xf32>
    tg.return %1 : tensor<2xf32>
  }
  %2 = tg.sum %last axes = [0] : tensor<2xf32>
  func.return %2 : tensor<f32>
}
// CHECK-LABEL: func.func @loop(
// CHECK-NEXT:   %last, %0 = tg.scan (%w) carry (%h) over (%x) length = 8 : (tensor<2xf32>, tensor<2xf32>, tensor<8x2xf32>) -> (tensor<2xf32>, tensor<8x2xf32>) {
// CHECK-NEXT:   ^bb0(%w0: tensor<2xf32>, %h0: tensor<2xf32>, %x0: tensor<2xf32>):
// CHECK-NEXT:     %1 = tg.mul %w0, %h0 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:     %2 = tg.add %1, %x0 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:     tg.return %2, %h0 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   }
// CHECK:        tg.scan (%w) carry (%{{.*}}, %{{.*}}) over (%0) length = 8 reverse : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<8x2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<8x2xf32>) {
// CHECK-NEXT:   ^bb0(%[[W:.*]]: tensor<2xf32>, %[[G:.*]]: tensor<2xf32>, %[[SUM:.*]]: tensor<2xf32>, %[[H:.*]]: tensor<2xf32>):
// CHECK-NEXT:     %[[A:.*]] = tg.mul %[[G]], %[[H]] : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:     %[[B:.*]] = tg.mul %[[G]], %[[W]] : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:     %[[C:.*]] = tg.add %[[SUM]], %[[A]] : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:     tg.return %[[B]], %[[C]], %[[G]] : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>

// -----

// The derivative of a `cond` is a `cond` of the derivatives of its branches.
func.func @branch(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>) -> tensor<f32> {
  %p = tg.compare %a, %b predicate = "lt" : tensor<f32>, tensor<f32>
  %0 = tg.cond %p (%a, %b) : (tensor<f32>, tensor<f32>) -> (tensor<f32>) {
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = tg.mul %x, %y : tensor<f32>, tensor<f32>
    tg.return %1 : tensor<f32>
  } else {
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    tg.return %x : tensor<f32>
  }
  func.return %0 : tensor<f32>
}
// CHECK-LABEL: func.func @branch(
// CHECK:        %1, %2 = tg.cond %p (%a, %b) : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>) {
// CHECK-NEXT:   ^bb0(%x: tensor<f32>, %y: tensor<f32>):
// CHECK-NEXT:     tg.return %y, %x : tensor<f32>, tensor<f32>
// CHECK-NEXT:   } else {
