// RUN: tg-opt %s -p lower-tg-to-buf,fuse,schedule,plan-memory --split-input-file | filecheck %s

// The carried sum is updated in place; the carried product is double-buffered. Slices are views of whole sequences.
func.func @loop(%w: tensor<4x4xf32>, %x: tensor<7x4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<7x4xf32>) {
  %h = tg.constant value = dense<1.0> : tensor<4xf32>
  %0, %1, %2 = tg.scan (%w) carry (%h, %h) over (%x) length = 7 reverse : (tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<7x4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<7x4xf32>) {
  ^bb0(%a: tensor<4x4xf32>, %sum: tensor<4xf32>, %state: tensor<4xf32>, %row: tensor<4xf32>):
    %3 = tg.add %sum, %row : tensor<4xf32>, tensor<4xf32>
    %4 = tg.dot_general %state, %a lhs_batch = [] rhs_batch = [] lhs_contracting = [0] rhs_contracting = [0] : tensor<4xf32>, tensor<4x4xf32>
    tg.return %3, %4, %row : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  func.return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<7x4xf32>
}
// CHECK-LABEL: func.func @loop() attributes {buf.workspace_bytes = 528 : i64
// CHECK:         %6 = buf.arena "counters" role = "counter" : memref<1792xi8>
// CHECK:         buf.kernel grid = [4] outs(%8, %9 : memref<4xf32>, memref<4xf32>)
// CHECK:         buf.repeat count = 7 {
// CHECK-NEXT:    ^bb0(%14: index):
// CHECK-NEXT:      %15 = buf.row %7[%14] at affine_map<(d0) -> ((d0 * 64))> : memref<448xi32> to memref<1xi32>
// CHECK-NEXT:      %16 = buf.row %12[%14] at affine_map<(d0) -> (((d0 * -4) + 24))> : memref<28xf32> to memref<4xf32>
// CHECK-NEXT:      %17 = buf.row %11[%14] at affine_map<(d0) -> ((((d0 + 1) mod 2) * 64))> : memref<128xf32> to memref<4xf32>
// CHECK-NEXT:      %18 = buf.row %11[%14] at affine_map<(d0) -> (((d0 mod 2) * 64))> : memref<128xf32> to memref<4xf32>
// CHECK-NEXT:      %19 = buf.row %10[%14] at affine_map<(d0) -> (((d0 * -4) + 24))> : memref<28xf32> to memref<4xf32>
// CHECK-NEXT:      buf.kernel grid = [4] ins(%8, %19, %18, %w : {{.*}}) outs(%8, %17, %16 :
// CHECK:         buf.kernel grid = [4] ins(%8, %13 : memref<4xf32>, memref<4xf32>) outs(%2, %3 : memref<4xf32>, memref<4xf32>)

// -----

// The kernels of both branches are in the IR; both write to the same buffer.
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
// CHECK-LABEL: func.func @branch()
// CHECK:         buf.branch %p : memref<i1> {
// CHECK-NEXT:      buf.kernel grid = [4] ins(%w : memref<4xf32>) outs(%[[OUT:.*]] : memref<4xf32>) schedule
// CHECK:         } else {
// CHECK-NEXT:      buf.kernel grid = [4] ins(%w : memref<4xf32>) outs(%[[OUT]] : memref<4xf32>) schedule
