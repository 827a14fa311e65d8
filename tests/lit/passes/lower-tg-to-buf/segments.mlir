// RUN: tg-opt %s -p 'lower-tg-to-buf{target="{\"max_storage_buffer_binding_size\": 32, \"max_storage_buffers_per_shader_stage\": 6, \"min_storage_buffer_offset_alignment\": 4}"}' | filecheck %s

// A row of 80 bytes and two orders of it take nine bindings, more than six: segments of 32 bytes, padded with keys that
// sort last, are sorted on their own and gathered in order. The rank of an element is the number of elements, over all
// segments, that precede it; each position of the result then searches the segments for the element of its rank.
func.func @long(%x: tensor<2x20xf32>) -> tensor<2x20xi32> {
  %0 = tg.argsort %x descending = 0 : tensor<2x20xf32>
  func.return %0 : tensor<2x20xi32>
}
// CHECK-LABEL: func.func @long(
// CHECK: buf.kernel grid = [2, 3, 8] ins(%x : memref<2x20xf32>) outs(%1 : memref<2x3x8xf32>) {
// CHECK: arith.constant 0x7fc00000 : f32
// CHECK: scf.if
// CHECK: buf.kernel grid = [2, 3, 8] ins(%1 : memref<2x3x8xf32>) outs(%2 : memref<2x3x8xi32>) {
// CHECK: iterator_types = ["parallel", "parallel", "parallel", "reduction"]
// CHECK: buf.kernel grid = [2, 3, 8] ins(%2 : memref<2x3x8xi32>) outs(%3 : memref<2x3x8xi32>) {
// CHECK: buf.kernel grid = [2, 3, 8] ins(%3, %1 : memref<2x3x8xi32>, memref<2x3x8xf32>) outs(%4 : memref<2x3x8xf32>) {
// CHECK: buf.kernel grid = [2, 3, 8] ins(%1, %3, %4 : memref<2x3x8xf32>, memref<2x3x8xi32>, memref<2x3x8xf32>) outs(%5 : memref<2x3x8xi32>) {
// CHECK: iterator_types = ["parallel", "parallel", "parallel", "reduction"]
// CHECK: %[[MINE:.*]] = linalg.index 1 : index
// CHECK: %[[OTHER:.*]] = linalg.index 3 : index
// CHECK: arith.cmpi eq, %[[OTHER]], %[[MINE]] : index
// CHECK-NOT: scf.if
// CHECK: arith.cmpi ult, %[[OTHER]], %[[MINE]] : index
// CHECK: buf.kernel grid = [2, 20] ins(%5, %3 : memref<2x3x8xi32>, memref<2x3x8xi32>) outs(%0 : memref<2x20xi32>) {
// CHECK: iterator_types = ["parallel", "parallel", "reduction"]
// CHECK: func.return

// In descending order, the padding is the smallest integer.
func.func @falling(%x: tensor<20xi32>) -> tensor<20xi32> {
  %0 = tg.argsort %x descending = 1 : tensor<20xi32>
  func.return %0 : tensor<20xi32>
}
// CHECK-LABEL: func.func @falling(
// CHECK: buf.kernel grid = [3, 8] ins(%x : memref<20xi32>) outs(%1 : memref<3x8xi32>) {
// CHECK: arith.constant -2147483648 : i32

// Rows that one kernel can bind are not split into segments, but transposed so that each is contiguous.
func.func @columns(%x: tensor<8x10xf32>) -> tensor<10x8xi32> {
  %0 = tg.transpose %x permutation = [1, 0] : tensor<8x10xf32>
  %1 = tg.argsort %0 descending = 0 : tensor<10x8xf32>
  func.return %1 : tensor<10x8xi32>
}
// CHECK-LABEL: func.func @columns(
// CHECK: buf.kernel grid = [10, 8] ins(%x : memref<8x10xf32>) outs(%1 : memref<10x8xf32>) {
// CHECK: buf.kernel grid = [10, 8] ins(%1 : memref<10x8xf32>) outs(%2 : memref<10x8xi32>) {
// CHECK: buf.kernel grid = [10, 8] ins(%2 : memref<10x8xi32>) outs(%0 : memref<10x8xi32>) {
// CHECK-NOT: buf.kernel

// A scatter doesn't merge the segments: each row of the result sums its updates over all segments. A kernel binds
// updates, 16 bytes per index, together with indices, so a segment has four.
func.func @scattered(%u: tensor<60x4xi32>, %i: tensor<60xi32>) -> tensor<300x4xi32> {
  %0 = tg.scatter_add %u, %i axis = 0 extent = 300 : tensor<60x4xi32>, tensor<60xi32>
  func.return %0 : tensor<300x4xi32>
}
// CHECK-LABEL: func.func @scattered(
// CHECK: buf.kernel grid = [15, 4] ins(%3, %1 : memref<15x4xi32>, memref<15x4xi32>) outs(%[[KEYS:.*]] : memref<15x4xi32>) {
// CHECK: buf.kernel grid = [15, 301] ins(%[[KEYS]] : memref<15x4xi32>) outs(%[[STARTS:.*]] : memref<15x301xi32>) {
// CHECK: buf.kernel grid = [300, 4] ins(%u, %3, %[[STARTS]] : memref<60x4xi32>, memref<15x4xi32>, memref<15x301xi32>) outs(%0 : memref<300x4xi32>) {
// CHECK: iterator_types = ["parallel", "parallel", "reduction"]
// CHECK: scf.for
// CHECK: func.return
