// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{target=cpu}' | filecheck %s
// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse' | filecheck %s --check-prefix GPU

// Each result needs the whole row. On a CPU, computing it 640 times takes longer than a dispatch of its own; for 8 results
// it doesn't, nor on a GPU, whose invocations compute theirs at the same time.
func.func @many(%x: tensor<1x96xf32>, %w: tensor<640x96xf32>) -> tensor<1x640xf32> {
  %0 = tg.add %x, %x : tensor<1x96xf32>, tensor<1x96xf32>
  %1 = tg.relu %0 : tensor<1x96xf32>
  %2 = tg.transpose %w permutation = [1, 0] : tensor<640x96xf32>
  %3 = tg.dot_general %1, %2 lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<1x96xf32>, tensor<96x640xf32>
  func.return %3 : tensor<1x640xf32>
}
// CHECK-LABEL: func.func @many(
// CHECK: buf.kernel grid = [96] ins(%x : memref<1x96xf32>) outs(%1 : memref<1x96xf32>) {
// CHECK: buf.kernel grid = [640] ins(%1, %w : memref<1x96xf32>, memref<640x96xf32>) outs(%0 : memref<1x640xf32>) {
// CHECK-NOT: buf.kernel
// GPU-LABEL: func.func @many(
// GPU: buf.kernel grid = [640] ins(%w, %x : memref<640x96xf32>, memref<1x96xf32>) outs(%0 : memref<1x640xf32>) {
// GPU-NOT: buf.kernel
// GPU: func.func @few(

// CHECK: func.func @few(
func.func @few(%x: tensor<1x96xf32>, %w: tensor<8x96xf32>) -> tensor<1x8xf32> {
  %0 = tg.add %x, %x : tensor<1x96xf32>, tensor<1x96xf32>
  %1 = tg.relu %0 : tensor<1x96xf32>
  %2 = tg.transpose %w permutation = [1, 0] : tensor<8x96xf32>
  %3 = tg.dot_general %1, %2 lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<1x96xf32>, tensor<96x8xf32>
  func.return %3 : tensor<1x8xf32>
}
// CHECK: buf.kernel grid = [8] ins(%w, %x : memref<8x96xf32>, memref<1x96xf32>) outs(%0 : memref<1x8xf32>) {
// CHECK-NOT: buf.kernel
