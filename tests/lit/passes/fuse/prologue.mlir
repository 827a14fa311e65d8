// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{only=inline,epilogue,prologue,row target=lavapipe}' | filecheck %s --check-prefix=CPU
// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{only=inline,epilogue,prologue,row}' | filecheck %s --check-prefix=GPU

// A product with few columns needs each element of its left operand for a single block of results: the operand becomes
// a prologue, computed from two loads. The epilogue remains.
func.func @few_columns(%x: tensor<256x512xf32>, %y: tensor<256x512xf32>, %w: tensor<512x16xf32>) -> tensor<256x16xf32> {
  %0 = tg.abs %x : tensor<256x512xf32>
  %1 = tg.mul %0, %y : tensor<256x512xf32>, tensor<256x512xf32>
  %2 = tg.dot_general %1, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<256x512xf32>, tensor<512x16xf32>
  %3 = tg.neg %2 : tensor<256x16xf32>
  func.return %3 : tensor<256x16xf32>
}
// CPU-LABEL: func.func @few_columns(
// CPU: buf.kernel grid = [256, 16] ins(%w, %y, %x : memref<512x16xf32>, memref<256x512xf32>, memref<256x512xf32>) outs(%0 : memref<256x16xf32>) {
// CPU: linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%1, %2, %3 : memref<512x16xf32>, memref<256x512xf32>, memref<256x512xf32>) outs(%5 : memref<256x16xf32>) {
// CPU: %10 = math.absf %8 : f32
// CPU: %11 = arith.mulf %10, %7 : f32
// CPU: %12 = arith.mulf %11, %6 : f32
// CPU: %13 = arith.addf %9, %12 : f32
// CPU: linalg.yield %13 : f32
// CPU: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%5 : memref<256x16xf32>) outs(%4 : memref<256x16xf32>) {
// CPU: %16 = arith.negf %14 : f32
// CPU: linalg.yield %16 : f32
// CPU-NOT: buf.kernel
// CPU: func.return
// GPU-LABEL: func.func @few_columns(
// GPU: buf.kernel grid = [256, 16] ins(%w, %y, %x : memref<512x16xf32>, memref<256x512xf32>, memref<256x512xf32>) outs(%0 : memref<256x16xf32>) {
// GPU-NOT: buf.kernel
// GPU: func.return

// With many columns the operand would be recomputed for each block, from two loads instead of one. It is a prologue on
// a GPU, which loads both once for a whole workgroup.
func.func @many_columns(%x: tensor<512x512xf32>, %y: tensor<512x512xf32>, %w: tensor<512x512xf32>) -> tensor<512x512xf32> {
  %0 = tg.mul %x, %y : tensor<512x512xf32>, tensor<512x512xf32>
  %1 = tg.dot_general %0, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<512x512xf32>, tensor<512x512xf32>
  func.return %1 : tensor<512x512xf32>
}
// CPU-LABEL: func.func @many_columns(
// CPU: buf.kernel grid = [512, 512] ins(%x, %y : memref<512x512xf32>, memref<512x512xf32>) outs(%1 : memref<512x512xf32>) {
// CPU: buf.kernel grid = [512, 512] ins(%1, %w : memref<512x512xf32>, memref<512x512xf32>) outs(%0 : memref<512x512xf32>) {
// CPU-NOT: buf.kernel
// CPU: func.return
// GPU-LABEL: func.func @many_columns(
// GPU: buf.kernel grid = [512, 512] ins(%w, %x, %y : memref<512x512xf32>, memref<512x512xf32>, memref<512x512xf32>) outs(%0 : memref<512x512xf32>) {
// GPU-NOT: buf.kernel
// GPU: func.return

// An expensive operand is stored, on CPU and GPU.
func.func @dear(%x: tensor<512x512xf32>, %w: tensor<512x512xf32>) -> tensor<512x512xf32> {
  %0 = tg.tanh %x : tensor<512x512xf32>
  %1 = tg.tanh %0 : tensor<512x512xf32>
  %2 = tg.dot_general %1, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<512x512xf32>, tensor<512x512xf32>
  func.return %2 : tensor<512x512xf32>
}
// CPU-LABEL: func.func @dear(
// CPU: buf.kernel grid = [512, 512] ins(%x : memref<512x512xf32>) outs(%1 : memref<512x512xf32>) {
// CPU: buf.kernel grid = [512, 512] ins(%1, %w : memref<512x512xf32>, memref<512x512xf32>) outs(%0 : memref<512x512xf32>) {
// CPU-NOT: buf.kernel
// CPU: func.return
// GPU-LABEL: func.func @dear(
// GPU: buf.kernel grid = [512, 512] ins(%x : memref<512x512xf32>) outs(%1 : memref<512x512xf32>) {
// GPU: buf.kernel grid = [512, 512] ins(%1, %w : memref<512x512xf32>, memref<512x512xf32>) outs(%0 : memref<512x512xf32>) {
// GPU-NOT: buf.kernel
// GPU: func.return

// Both products compute the operand as a prologue, and nothing else reads it: it is never stored.
func.func @two_products(%x: tensor<256x512xf32>, %w: tensor<512x16xf32>, %g: tensor<256x16xf32>) -> (tensor<256x16xf32>, tensor<512x16xf32>) {
  %0 = tg.abs %x : tensor<256x512xf32>
  %1 = tg.dot_general %0, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<256x512xf32>, tensor<512x16xf32>
  %2 = tg.dot_general %0, %g lhs_batch = [] rhs_batch = [] lhs_contracting = [0] rhs_contracting = [0] : tensor<256x512xf32>, tensor<256x16xf32>
  func.return %1, %2 : tensor<256x16xf32>, tensor<512x16xf32>
}
// CPU-LABEL: func.func @two_products(
// CPU: buf.kernel grid = [256, 16] ins(%w, %x : memref<512x16xf32>, memref<256x512xf32>) outs(%0 : memref<256x16xf32>) {
// CPU: buf.kernel grid = [512, 16] ins(%g, %x : memref<256x16xf32>, memref<256x512xf32>) outs(%1 : memref<512x16xf32>) {
// CPU-NOT: buf.kernel
// CPU: func.return
// GPU-LABEL: func.func @two_products(
// GPU: buf.kernel grid = [256, 16] ins(%w, %x : memref<512x16xf32>, memref<256x512xf32>) outs(%0 : memref<256x16xf32>) {
// GPU: buf.kernel grid = [512, 16] ins(%g, %x : memref<256x16xf32>, memref<256x512xf32>) outs(%1 : memref<512x16xf32>) {
// GPU-NOT: buf.kernel
// GPU: func.return

// An operand that is also a result is stored, and the contraction reads it.
func.func @result(%x: tensor<256x512xf32>, %w: tensor<512x16xf32>) -> (tensor<256x512xf32>, tensor<256x16xf32>) {
  %0 = tg.abs %x : tensor<256x512xf32>
  %1 = tg.dot_general %0, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<256x512xf32>, tensor<512x16xf32>
  func.return %0, %1 : tensor<256x512xf32>, tensor<256x16xf32>
}
// CPU-LABEL: func.func @result(
// CPU: buf.kernel grid = [256, 512] ins(%x : memref<256x512xf32>) outs(%0 : memref<256x512xf32>) {
// CPU: buf.kernel grid = [256, 16] ins(%0, %w : memref<256x512xf32>, memref<512x16xf32>) outs(%1 : memref<256x16xf32>) {
// CPU-NOT: buf.kernel
// CPU: func.return
// GPU-LABEL: func.func @result(
// GPU: buf.kernel grid = [256, 512] ins(%x : memref<256x512xf32>) outs(%0 : memref<256x512xf32>) {
// GPU: buf.kernel grid = [256, 16] ins(%0, %w : memref<256x512xf32>, memref<512x16xf32>) outs(%1 : memref<256x16xf32>) {
// GPU-NOT: buf.kernel
// GPU: func.return

// A kernel that can be the epilogue of one contraction does not become the prologue of another.
func.func @behind_a_sum(%x: tensor<64x64xf32>, %v: tensor<64x64xf32>, %w: tensor<64x16xf32>) -> tensor<64x16xf32> {
  %0 = tg.dot_general %x, %v lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<64x64xf32>, tensor<64x64xf32>
  %1 = tg.abs %0 : tensor<64x64xf32>
  %2 = tg.dot_general %1, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<64x64xf32>, tensor<64x16xf32>
  func.return %2 : tensor<64x16xf32>
}
// CPU-LABEL: func.func @behind_a_sum(
// CPU: buf.kernel grid = [64, 64] ins(%x, %v : memref<64x64xf32>, memref<64x64xf32>) outs(%1 : memref<64x64xf32>) {
// CPU: buf.kernel grid = [64, 16] ins(%1, %w : memref<64x64xf32>, memref<64x16xf32>) outs(%0 : memref<64x16xf32>) {
// CPU-NOT: buf.kernel
// CPU: func.return
// GPU-LABEL: func.func @behind_a_sum(
// GPU: buf.kernel grid = [64, 64] ins(%x, %v : memref<64x64xf32>, memref<64x64xf32>) outs(%1 : memref<64x64xf32>) {
// GPU: buf.kernel grid = [64, 16] ins(%1, %w : memref<64x64xf32>, memref<64x16xf32>) outs(%0 : memref<64x16xf32>) {
// GPU-NOT: buf.kernel
// GPU: func.return

// For few columns, a prologue normalizes the rows, and only their sums are stored; for many, the sum's kernel does.
func.func @rows(%x: tensor<256x512xf32>, %w: tensor<512x16xf32>) -> tensor<256x16xf32> {
  %0 = tg.sum %x axes = [1] : tensor<256x512xf32>
  %1 = tg.broadcast %0 shape = [256, 512] dims = [0] : tensor<256xf32>
  %2 = tg.sub %x, %1 : tensor<256x512xf32>, tensor<256x512xf32>
  %3 = tg.dot_general %2, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<256x512xf32>, tensor<512x16xf32>
  func.return %3 : tensor<256x16xf32>
}
// CPU-LABEL: func.func @rows(
// CPU: buf.kernel grid = [256] ins(%x : memref<256x512xf32>) outs(%1 : memref<256xf32>) {
// CPU: buf.kernel grid = [256, 16] ins(%w, %x, %1 : memref<512x16xf32>, memref<256x512xf32>, memref<256xf32>) outs(%0 : memref<256x16xf32>) {
// CPU-NOT: buf.kernel
// CPU: func.return
// GPU-LABEL: func.func @rows(
// GPU: buf.kernel grid = [256] ins(%x : memref<256x512xf32>) outs(%1 : memref<256xf32>) {
// GPU: buf.kernel grid = [256, 16] ins(%w, %x, %1 : memref<512x16xf32>, memref<256x512xf32>, memref<256xf32>) outs(%0 : memref<256x16xf32>) {
// GPU-NOT: buf.kernel
// GPU: func.return

func.func @rows_of_many_columns(%x: tensor<512x512xf32>, %w: tensor<512x2048xf32>) -> tensor<512x2048xf32> {
  %0 = tg.sum %x axes = [1] : tensor<512x512xf32>
  %1 = tg.broadcast %0 shape = [512, 512] dims = [0] : tensor<512xf32>
  %2 = tg.sub %x, %1 : tensor<512x512xf32>, tensor<512x512xf32>
  %3 = tg.dot_general %2, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<512x512xf32>, tensor<512x2048xf32>
  func.return %3 : tensor<512x2048xf32>
}
// CPU-LABEL: func.func @rows_of_many_columns(
// CPU: buf.kernel grid = [512] ins(%x : memref<512x512xf32>) outs(%1 : memref<512x512xf32>) {
// CPU: buf.kernel grid = [512, 2048] ins(%1, %w : memref<512x512xf32>, memref<512x2048xf32>) outs(%0 : memref<512x2048xf32>) {
// CPU-NOT: buf.kernel
// CPU: func.return
// GPU-LABEL: func.func @rows_of_many_columns(
// GPU: buf.kernel grid = [512] ins(%x : memref<512x512xf32>) outs(%1 : memref<512x512xf32>) {
// GPU: buf.kernel grid = [512, 2048] ins(%1, %w : memref<512x512xf32>, memref<512x2048xf32>) outs(%0 : memref<512x2048xf32>) {
// GPU-NOT: buf.kernel
// GPU: func.return

// The padding of an image is zero, not exp(0): the prologue selects zero where an index lies in it.
func.func @padded(%x: tensor<2x4x8x8xf32>, %w: tensor<4x4x3x3xf32>) -> tensor<2x4x8x8xf32> {
  %0 = tg.exp %x : tensor<2x4x8x8xf32>
  %1 = tg.conv %0, %w stride = [1, 1] low = [1, 1] high = [1, 1] lhs_dilation = [1, 1] rhs_dilation = [1, 1] groups = 1 : tensor<2x4x8x8xf32>, tensor<4x4x3x3xf32>
  func.return %1 : tensor<2x4x8x8xf32>
}
// CPU-LABEL: func.func @padded(
// CPU: buf.kernel grid = [2, 4, 8, 8] ins(%w, %x : memref<4x4x3x3xf32>, memref<2x4x8x8xf32>) outs(%0 : memref<2x4x8x8xf32>) {
// CPU: linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d1, d4, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d4, (((d2 + d5) + 7) mod 8), (((d3 + d6) + 7) mod 8))>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%1, %2 : memref<4x4x3x3xf32>, memref<2x4x8x8xf32>) outs(%3 : memref<2x4x8x8xf32>) {
// CPU: %7 = math.exp %5 : f32
// CPU: %22 = arith.select %20, %7, %21 : f32
// CPU: %23 = arith.mulf %22, %4 : f32
// CPU: %24 = arith.addf %6, %23 : f32
// CPU: linalg.yield %24 : f32
// CPU-NOT: buf.kernel
// CPU: func.return
// GPU-LABEL: func.func @padded(
// GPU: buf.kernel grid = [2, 4, 8, 8] ins(%w, %x : memref<4x4x3x3xf32>, memref<2x4x8x8xf32>) outs(%0 : memref<2x4x8x8xf32>) {
// GPU-NOT: buf.kernel
// GPU: func.return
