// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{target=lavapipe},split-reductions{target=lavapipe}' | filecheck %s
// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse,split-reductions{parts=2}' | filecheck %s --check-prefix FORCED
// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse,split-reductions' | filecheck %s --check-prefix GPU

// The gradient of a convolution's weights: few results, each a sum over all positions of all images. The first kernel
// sums ranges of the images; the second adds these sums and runs the epilogue.
func.func @weights(%x: tensor<1x64x30x30xf32>, %g: tensor<16x64x28x28xf32>) -> tensor<1x16x3x3xf32> {
  %y = tg.conv %x, %g stride = [1, 1] low = [0, 0] high = [0, 0] lhs_dilation = [1, 1] rhs_dilation = [1, 1] groups = 1 : tensor<1x64x30x30xf32>, tensor<16x64x28x28xf32>
  %z = tg.neg %y : tensor<1x16x3x3xf32>
  func.return %z : tensor<1x16x3x3xf32>
}
// CHECK-LABEL: func.func @weights(
// CHECK-NEXT: %0 = memref.alloc() : memref<8x16x3x3xf32>
// CHECK-NEXT: buf.kernel grid = [8, 16, 3, 3] ins(%x, %g : memref<1x64x30x30xf32>, memref<16x64x28x28xf32>) outs(%0 : memref<8x16x3x3xf32>) {
// CHECK: indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (0, ((d0 * 8) + d4), (d2 + d5), (d3 + d6))>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d1, ((d0 * 8) + d4), d5, d6)>
// CHECK: buf.kernel grid = [16, 3, 3] ins(%0 : memref<8x16x3x3xf32>) outs(%z : memref<1x16x3x3xf32>) {
// CHECK: indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d3, d0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>]
// CHECK: %6 = arith.addf %5, %4 : f32
// CHECK: %9 = arith.negf %7 : f32

// One kernel: there are enough results to keep the device busy. FORCED splits it anyway.
func.func @product(%a: tensor<128x256xf32>, %b: tensor<256x128xf32>) -> tensor<128x128xf32> {
  %y = tg.dot_general %a, %b lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<128x256xf32>, tensor<256x128xf32>
  func.return %y : tensor<128x128xf32>
}
// CHECK-LABEL: func.func @product(
// CHECK: buf.kernel grid = [128, 128]
// CHECK-NOT: buf.kernel
// CHECK: func.return
// FORCED-LABEL: func.func @product(
// FORCED: buf.kernel grid = [2, 128, 128] ins(%a, %b : memref<128x256xf32>, memref<256x128xf32>) outs(%0 : memref<2x128x128xf32>) {
// FORCED: buf.kernel grid = [128, 128] ins(%0 : memref<2x128x128xf32>) outs(%y : memref<128x128xf32>) {

// A full reduction: the first kernel computes maxima of ranges, the second the maximum of those.
func.func @largest(%x: tensor<1048576xf32>) -> tensor<f32> {
  %y = tg.max %x axes = [0] : tensor<1048576xf32>
  func.return %y : tensor<f32>
}
// CHECK-LABEL: func.func @largest(
// CHECK: buf.kernel grid = [8] ins(%x : memref<1048576xf32>) outs(%0 : memref<8xf32>) {
// CHECK: arith.maximumf
// CHECK: buf.kernel grid = [] ins(%0 : memref<8xf32>) outs(%y : memref<f32>) {
// CHECK: arith.maximumf

// On a GPU, 16 workgroups leave most multiprocessors idle, so eight take the parts of each sum; 128 are enough, and products
// and sums that take less time than a dispatch are not split.
func.func @deep(%a: tensor<32x65536xf32>, %b: tensor<65536x64xf32>) -> tensor<32x64xf32> {
  %y = tg.dot_general %a, %b lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<32x65536xf32>, tensor<65536x64xf32>
  func.return %y : tensor<32x64xf32>
}
// GPU-LABEL: func.func @deep(
// GPU: buf.kernel grid = [8, 32, 64]
// GPU: buf.kernel grid = [32, 64]
func.func @square(%a: tensor<512x512xf32>, %b: tensor<512x512xf32>) -> tensor<512x512xf32> {
  %y = tg.dot_general %a, %b lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<512x512xf32>, tensor<512x512xf32>
  func.return %y : tensor<512x512xf32>
}
// GPU-LABEL: func.func @square(
// GPU: buf.kernel grid = [512, 512]
// GPU-NOT: buf.kernel
// GPU: func.return
func.func @narrow(%a: tensor<2048x1024xf32>, %b: tensor<1024x16xf32>) -> tensor<2048x16xf32> {
  %y = tg.dot_general %a, %b lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<2048x1024xf32>, tensor<1024x16xf32>
  func.return %y : tensor<2048x16xf32>
}
// GPU-LABEL: func.func @narrow(
// GPU: buf.kernel grid = [2048, 16]
// GPU-NOT: buf.kernel
// GPU: func.return
func.func @large(%a: tensor<1024x1024xf32>, %b: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
  %y = tg.dot_general %a, %b lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<1024x1024xf32>, tensor<1024x1024xf32>
  func.return %y : tensor<1024x1024xf32>
}
// GPU-LABEL: func.func @large(
// GPU: buf.kernel grid = [1024, 1024]
// GPU-NOT: buf.kernel
// GPU: func.return
func.func @small(%a: tensor<128x128xf32>, %b: tensor<128x128xf32>, %x: tensor<65536xf32>) -> (tensor<128x128xf32>, tensor<f32>) {
  %y = tg.dot_general %a, %b lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<128x128xf32>, tensor<128x128xf32>
  %s = tg.sum %x axes = [0] : tensor<65536xf32>
  func.return %y, %s : tensor<128x128xf32>, tensor<f32>
}
// GPU-LABEL: func.func @small(
// GPU-DAG: buf.kernel grid = [128, 128]
// GPU-DAG: buf.kernel grid = []
// GPU-NOT: buf.kernel
// GPU: func.return
