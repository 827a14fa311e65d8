// RUN: tg-opt %s --split-input-file -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu}' | filecheck %s

// Loads are contiguous along the reduction, here in a flattened index: one point after another.
func.func @rows(%x: tensor<16384xf32>) -> tensor<64xf32> {
  %0 = tg.reshape %x shape = [64, 256] : tensor<16384xf32>
  %1 = tg.sum %0 axes = [1] : tensor<64x256xf32>
  func.return %1 : tensor<64xf32>
}
// CHECK: buf.kernel grid = [64] ins(%x : memref<16384xf32>) outs(%0 : memref<64xf32>) schedule = #buf.schedule<loops, groups = [1, 1, 1], blocks = 256> {
// CHECK: affine_map<(d0, d1) -> (((d0 * 256) + d1))>

// -----

// Loads are contiguous along the grid: blocks of adjacent points, here all columns.
func.func @columns(%x: tensor<16384xf32>) -> tensor<256xf32> {
  %0 = tg.reshape %x shape = [64, 256] : tensor<16384xf32>
  %1 = tg.sum %0 axes = [0] : tensor<64x256xf32>
  func.return %1 : tensor<256xf32>
}
// CHECK: buf.kernel grid = [256] ins(%x : memref<16384xf32>) outs(%0 : memref<256xf32>) schedule = #buf.schedule<loops, groups = [1, 1, 1], block = 256, blocks = 4> {
// CHECK: affine_map<(d0, d1) -> (((d1 * 256) + d0))>

// -----

// Rows of 7 fill no vector, but the elements of an image are contiguous: one point after another.
func.func @images(%x: tensor<64x7x7xf32>) -> tensor<64xf32> {
  %0 = tg.sum %x axes = [1, 2] : tensor<64x7x7xf32>
  func.return %0 : tensor<64xf32>
}
// CHECK: buf.kernel grid = [64] ins(%x : memref<64x7x7xf32>) outs(%0 : memref<64xf32>) schedule = #buf.schedule<loops, groups = [1, 1, 1], blocks = 1337> {

// -----

// Rows of 7 alone: blocks of adjacent points.
func.func @short_rows(%x: tensor<64x7xf32>) -> tensor<64xf32> {
  %0 = tg.sum %x axes = [1] : tensor<64x7xf32>
  func.return %0 : tensor<64xf32>
}
// CHECK: buf.kernel grid = [64] ins(%x : memref<64x7xf32>) outs(%0 : memref<64xf32>) schedule = #buf.schedule<loops, groups = [1, 1, 1], block = 64, blocks = 146> {
