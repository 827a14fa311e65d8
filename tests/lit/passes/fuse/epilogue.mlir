// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{only=inline,epilogue}' | filecheck %s

// Bias and activation are the epilogue of the contraction: they read its sum from a register.
func.func @layer(%x: tensor<4x3xf32>, %w: tensor<3x5xf32>, %b: tensor<5xf32>) -> tensor<4x5xf32> {
  %0 = tg.dot_general %x, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<4x3xf32>, tensor<3x5xf32>
  %1 = tg.broadcast %b shape = [4, 5] dims = [1] : tensor<5xf32>
  %2 = tg.add %0, %1 : tensor<4x5xf32>, tensor<4x5xf32>
  %3 = tg.relu %2 : tensor<4x5xf32>
  func.return %3 : tensor<4x5xf32>
}
// CHECK-LABEL: func.func @layer(
// CHECK: buf.kernel grid = [4, 5] ins(%x, %w, %b : memref<4x3xf32>, memref<3x5xf32>, memref<5xf32>) outs(%0 : memref<4x5xf32>) {
// CHECK: %5 = memref.alloca() : memref<4x5xf32>
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%1, %2 : memref<4x3xf32>, memref<3x5xf32>) outs(%5 : memref<4x5xf32>) {
// CHECK: %9 = arith.mulf %6, %7 : f32
// CHECK: %10 = arith.addf %8, %9 : f32
// CHECK: linalg.yield %10 : f32
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%5, %3 : memref<4x5xf32>, memref<5xf32>) outs(%4 : memref<4x5xf32>) {
// CHECK: %14 = arith.addf %11, %12 : f32
// CHECK: %15 = arith.constant 0.000000e+00 : f32
// CHECK: %16 = arith.cmpf ole, %14, %15 : f32
// CHECK: %17 = arith.select %16, %15, %14 : f32
// CHECK: linalg.yield %17 : f32
// CHECK-NOT: buf.kernel
// CHECK: func.return

// A result with other uses is stored as well.
func.func @read_by_others(%x: tensor<4x3xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = tg.sum %x axes = [1] : tensor<4x3xf32>
  %1 = tg.exp %0 : tensor<4xf32>
  func.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @read_by_others(
// CHECK: buf.kernel grid = [4] ins(%x : memref<4x3xf32>) outs(%0, %1 : memref<4xf32>, memref<4xf32>) {
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%2 : memref<4x3xf32>) outs(%3 : memref<4xf32>) {
// CHECK: %7 = arith.addf %6, %5 : f32
// CHECK: linalg.yield %7 : f32
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%3 : memref<4xf32>) outs(%4 : memref<4xf32>) {
// CHECK: %10 = math.exp %8 : f32
// CHECK: linalg.yield %10 : f32
// CHECK-NOT: buf.kernel
// CHECK: func.return

// A second reduction over the same rows runs after the first, in the same kernel.
func.func @two_reductions(%x: tensor<4x3xf32>) -> tensor<4xf32> {
  %0 = tg.max %x axes = [1] : tensor<4x3xf32>
  %1 = tg.broadcast %0 shape = [4, 3] dims = [0] : tensor<4xf32>
  %2 = tg.sub %x, %1 : tensor<4x3xf32>, tensor<4x3xf32>
  %3 = tg.sum %2 axes = [1] : tensor<4x3xf32>
  func.return %3 : tensor<4xf32>
}
// CHECK-LABEL: func.func @two_reductions(
// CHECK: buf.kernel grid = [4] ins(%x : memref<4x3xf32>) outs(%0 : memref<4xf32>) {
// CHECK: %3 = memref.alloca() : memref<4xf32>
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%1 : memref<4x3xf32>) outs(%3 : memref<4xf32>) {
// CHECK: %6 = arith.maximumf %5, %4 : f32
// CHECK: linalg.yield %6 : f32
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%1, %3 : memref<4x3xf32>, memref<4xf32>) outs(%2 : memref<4xf32>) {
// CHECK: %10 = arith.subf %7, %8 : f32
// CHECK: %11 = arith.addf %9, %10 : f32
// CHECK: linalg.yield %11 : f32
// CHECK-NOT: buf.kernel
// CHECK: func.return

// Not fused: the second kernel reads the result at a grid point other than its own.
func.func @another_point(%x: tensor<4x3xf32>) -> tensor<4xf32> {
  %0 = tg.sum %x axes = [1] : tensor<4x3xf32>
  %1 = tg.reverse %0 axes = [0] : tensor<4xf32>
  %2 = tg.neg %1 : tensor<4xf32>
  func.return %2 : tensor<4xf32>
}
// CHECK-LABEL: func.func @another_point(
// CHECK: %1 = memref.alloc() : memref<4xf32>
// CHECK: buf.kernel grid = [4] ins(%x : memref<4x3xf32>) outs(%1 : memref<4xf32>) {
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%2 : memref<4x3xf32>) outs(%3 : memref<4xf32>) {
// CHECK: %6 = arith.addf %5, %4 : f32
// CHECK: linalg.yield %6 : f32
// CHECK: buf.kernel grid = [4] ins(%1 : memref<4xf32>) outs(%0 : memref<4xf32>) {
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0) -> (((d0 * -1) + 3))>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%2 : memref<4xf32>) outs(%3 : memref<4xf32>) {
// CHECK: %6 = arith.negf %4 : f32
// CHECK: linalg.yield %6 : f32
// CHECK-NOT: buf.kernel
// CHECK: func.return

// Not fused: the kernel of the total must run in between. It needs the sums of all rows, and each quotient needs it.
func.func @cycle(%x: tensor<4x3xf32>) -> tensor<4xf32> {
  %0 = tg.sum %x axes = [1] : tensor<4x3xf32>
  %1 = tg.sum %0 axes = [0] : tensor<4xf32>
  %2 = tg.broadcast %1 shape = [4] dims = [] : tensor<f32>
  %3 = tg.div %0, %2 : tensor<4xf32>, tensor<4xf32>
  func.return %3 : tensor<4xf32>
}
// CHECK-LABEL: func.func @cycle(
// CHECK: %1 = memref.alloc() : memref<4xf32>
// CHECK: %2 = memref.alloc() : memref<f32>
// CHECK: buf.kernel grid = [4] ins(%x : memref<4x3xf32>) outs(%1 : memref<4xf32>) {
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%3 : memref<4x3xf32>) outs(%4 : memref<4xf32>) {
// CHECK: %7 = arith.addf %6, %5 : f32
// CHECK: linalg.yield %7 : f32
// CHECK: buf.kernel grid = [] ins(%1 : memref<4xf32>) outs(%2 : memref<f32>) {
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>], iterator_types = ["reduction"]} ins(%3 : memref<4xf32>) outs(%4 : memref<f32>) {
// CHECK: %7 = arith.addf %6, %5 : f32
// CHECK: linalg.yield %7 : f32
// CHECK: buf.kernel grid = [4] ins(%1, %2 : memref<4xf32>, memref<f32>) outs(%0 : memref<4xf32>) {
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%3, %4 : memref<4xf32>, memref<f32>) outs(%5 : memref<4xf32>) {
// CHECK: %9 = arith.divf %6, %7 : f32
// CHECK: linalg.yield %9 : f32
// CHECK-NOT: buf.kernel
// CHECK: func.return

// Not fused: a reduction can't be the epilogue of a contraction.
func.func @sum_of_products(%x: tensor<4x3xf32>, %w: tensor<3x5xf32>) -> tensor<4xf32> {
  %0 = tg.dot_general %x, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<4x3xf32>, tensor<3x5xf32>
  %1 = tg.sum %0 axes = [1] : tensor<4x5xf32>
  func.return %1 : tensor<4xf32>
}
// CHECK-LABEL: func.func @sum_of_products(
// CHECK: %1 = memref.alloc() : memref<4x5xf32>
// CHECK: buf.kernel grid = [4, 5] ins(%x, %w : memref<4x3xf32>, memref<3x5xf32>) outs(%1 : memref<4x5xf32>) {
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%2, %3 : memref<4x3xf32>, memref<3x5xf32>) outs(%4 : memref<4x5xf32>) {
// CHECK: %8 = arith.mulf %5, %6 : f32
// CHECK: %9 = arith.addf %7, %8 : f32
// CHECK: linalg.yield %9 : f32
// CHECK: buf.kernel grid = [4] ins(%1 : memref<4x5xf32>) outs(%0 : memref<4xf32>) {
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%2 : memref<4x5xf32>) outs(%3 : memref<4xf32>) {
// CHECK: %6 = arith.addf %5, %4 : f32
// CHECK: linalg.yield %6 : f32
// CHECK-NOT: buf.kernel
// CHECK: func.return

// A transposed convolution writes its results in phases, over two loops for each axis. Bias and activation run over the
// same loops.
func.func @phases(%x: tensor<2x3x4xf32>, %w: tensor<4x3x4xf32>, %b: tensor<4xf32>) -> tensor<2x4x8xf32> {
  %0 = tg.conv %x, %w stride = [1] low = [2] high = [2] lhs_dilation = [2] rhs_dilation = [1] groups = 1 : tensor<2x3x4xf32>, tensor<4x3x4xf32>
  %1 = tg.broadcast %b shape = [2, 4, 8] dims = [1] : tensor<4xf32>
  %2 = tg.add %0, %1 : tensor<2x4x8xf32>, tensor<2x4x8xf32>
  %3 = tg.relu %2 : tensor<2x4x8xf32>
  func.return %3 : tensor<2x4x8xf32>
}
// CHECK-LABEL: func.func @phases(
// CHECK: buf.kernel grid = [2, 2, 4, 4] ins(%x, %w, %b : memref<2x3x4xf32>, memref<4x3x4xf32>, memref<4xf32>) outs(%0 : memref<2x4x8xf32>) {
// CHECK: %5 = memref.alloca() : memref<2x2x4x4xf32>
// CHECK: iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]}
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d2)>, affine_map<(d0, d1, d2, d3) -> (d1, d2, ((d3 * 2) + d0))>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%5, %3 : memref<2x2x4x4xf32>, memref<4xf32>) outs(%4 : memref<2x4x8xf32>) {
// CHECK-NOT: buf.kernel
// CHECK: func.return

// The last block of phases is cut off, so the results lie apart from what is read.
func.func @rest(%x: tensor<2x3x4xf32>, %w: tensor<4x3x4xf32>) -> tensor<2x4x7xf32> {
  %0 = tg.conv %x, %w stride = [1] low = [2] high = [1] lhs_dilation = [2] rhs_dilation = [1] groups = 1 : tensor<2x3x4xf32>, tensor<4x3x4xf32>
  %1 = tg.relu %0 : tensor<2x4x7xf32>
  func.return %1 : tensor<2x4x7xf32>
}
// CHECK-LABEL: func.func @rest(
// CHECK: buf.kernel grid = [2, 2, 4, 4] ins(%x, %w : memref<2x3x4xf32>, memref<4x3x4xf32>) outs(%1 : memref<2x4x8xf32>) {
// CHECK: buf.kernel grid = [2, 4, 7] ins(%1 : memref<2x4x8xf32>) outs(%0 : memref<2x4x7xf32>) {

// What reads results as an array of another shape runs over the same loops, and stores them there.
func.func @reshaped(%x: tensor<4x6x5xf32>, %b: tensor<24xf32>) -> tensor<24xf32> {
  %0 = tg.sum %x axes = [2] : tensor<4x6x5xf32>
  %1 = tg.reshape %0 shape = [24] : tensor<4x6xf32>
  %2 = tg.add %1, %b : tensor<24xf32>, tensor<24xf32>
  func.return %2 : tensor<24xf32>
}
// CHECK-LABEL: func.func @reshaped(
// CHECK: buf.kernel grid = [4, 6] ins(%x, %b : memref<4x6x5xf32>, memref<24xf32>) outs(%0 : memref<24xf32>) {
// CHECK: iterator_types = ["parallel", "parallel", "reduction"]}
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (((d0 * 6) + d1))>, affine_map<(d0, d1) -> (((d0 * 6) + d1))>], iterator_types = ["parallel", "parallel"]}
// CHECK-NOT: buf.kernel
// CHECK: func.return

// Not if an operand's place takes a division then: that of the bias would be `d0 floordiv 8`, which vectors can't read.
func.func @divided(%x: tensor<24x5xf32>, %b: tensor<3xf32>) -> tensor<3x8xf32> {
  %0 = tg.sum %x axes = [1] : tensor<24x5xf32>
  %1 = tg.reshape %0 shape = [3, 8] : tensor<24xf32>
  %2 = tg.broadcast %b shape = [3, 8] dims = [0] : tensor<3xf32>
  %3 = tg.add %1, %2 : tensor<3x8xf32>, tensor<3x8xf32>
  func.return %3 : tensor<3x8xf32>
}
// CHECK-LABEL: func.func @divided(
// CHECK: buf.kernel grid = [24]
// CHECK: buf.kernel grid = [3, 8]
// CHECK: func.return

// Nor functions, which native code of rows would compute point by point.
func.func @logarithms(%x: tensor<4x6x5xf32>) -> tensor<24xf32> {
  %0 = tg.sum %x axes = [2] : tensor<4x6x5xf32>
  %1 = tg.reshape %0 shape = [24] : tensor<4x6xf32>
  %2 = tg.log %1 : tensor<24xf32>
  func.return %2 : tensor<24xf32>
}
// CHECK-LABEL: func.func @logarithms(
// CHECK: buf.kernel grid = [4, 6]
// CHECK: buf.kernel grid = [24]
// CHECK: func.return
