// RUN: tg-opt %s -p lower-tg-to-buf,fuse,schedule,plan-memory,lower-buf-to-wgsl --split-input-file | filecheck %s

// A single kernel serves all iterations: it reads the iteration index from a binding with a moving offset.
func.func @loop(%w: tensor<4xf32>, %x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0, %1 = tg.scan () carry (%w) over (%x) length = 8 reverse : (tensor<4xf32>, tensor<8x4xf32>) -> (tensor<4xf32>, tensor<8x4xf32>) {
  ^bb0(%b: tensor<4xf32>, %c: tensor<4xf32>):
    %2 = tg.mul %b, %c : tensor<4xf32>, tensor<4xf32>
    tg.return %2, %2 : tensor<4xf32>, tensor<4xf32>
  }
  func.return %1 : tensor<8x4xf32>
}
// CHECK:       wgsl.kernel @thread1 workgroup_size = [64, 1, 1] access = ["read_write", "read", "read_write", "read"] {
// CHECK-NEXT:  ^bb0(%0: memref<4xf32>, %1: memref<32xf32>, %2: memref<32xf32>, %3: memref<1xi32>):
// CHECK-NEXT:    %4 = arith.constant 0 : index
// CHECK-NEXT:    %5 = memref.load %3[%4] : memref<1xi32>
// CHECK-NEXT:    %6 = arith.index_cast %5 : i32 to index
// CHECK-LABEL: func.func @loop()
// CHECK:         buf.repeat count = 8 {
// CHECK:           buf.dispatch @thread1 workgroups = [1, 1, 1] attributes {{{.*}}} (%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : memref<4xf32>, memref<32xf32>, memref<32xf32>, memref<1xi32>

// -----

// Indirect dispatches: a kernel writes the workgroup counts of both branches, and zeros for the one not taken.
func.func @branch(%p: tensor<i1>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %1 = tg.cond %p (%w) : (tensor<4xf32>) -> (tensor<4xf32>) {
  ^bb0(%a: tensor<4xf32>):
    %2 = tg.exp %a : tensor<4xf32>
    tg.return %2 : tensor<4xf32>
  } else {
  ^bb0(%a: tensor<4xf32>):
    tg.return %a : tensor<4xf32>
  }
  func.return %1 : tensor<4xf32>
}
// CHECK:       wgsl.kernel @choice0 workgroup_size = [1, 1, 1] access = ["read", "read_write"] {
// CHECK:         %[[P:.*]] = memref.load %0[%{{.*}}] : memref<1xi1>
// CHECK:         arith.select %[[P]], %{{.*}}, %{{.*}} : i32
// CHECK:         %[[NOT:.*]] = arith.xori %[[P]], %{{.*}} : i1
// CHECK:         arith.select %[[NOT]], %{{.*}}, %{{.*}} : i32
// CHECK-LABEL: func.func @branch()
// CHECK:         buf.dispatch @choice0 workgroups = [1, 1, 1] attributes {{{.*}}} (%p, %[[TABLE:.*]]) : memref<i1>, memref<6xi32>
// CHECK-NEXT:    buf.dispatch @thread1 workgroups = [1, 1, 1] indirect(%{{.*}} : memref<3xi32>)
// CHECK-NEXT:    buf.dispatch @thread0 workgroups = [1, 1, 1] indirect(%{{.*}} : memref<3xi32>)
