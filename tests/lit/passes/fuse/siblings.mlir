// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{only=siblings}' | filecheck %s

// Pointwise kernels over the same grid are fused, whatever they read.
func.func @pointwise(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = tg.exp %x : tensor<4xf32>
  %1 = tg.neg %y : tensor<4xf32>
  func.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @pointwise(
// CHECK: buf.kernel grid = [4] ins(%x, %y : memref<4xf32>, memref<4xf32>) outs(%0, %1 : memref<4xf32>, memref<4xf32>) {
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%2 : memref<4xf32>) outs(%4 : memref<4xf32>) {
// CHECK: %8 = math.exp %6 : f32
// CHECK: linalg.yield %8 : f32
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%3 : memref<4xf32>) outs(%5 : memref<4xf32>) {
// CHECK: %11 = arith.negf %9 : f32
// CHECK: linalg.yield %11 : f32
// CHECK-NOT: buf.kernel
// CHECK: func.return

// Reductions that share an operand are fused.
func.func @reductions(%x: tensor<4x3xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = tg.sum %x axes = [1] : tensor<4x3xf32>
  %1 = tg.max %x axes = [1] : tensor<4x3xf32>
  func.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @reductions(
// CHECK: buf.kernel grid = [4] ins(%x : memref<4x3xf32>) outs(%0, %1 : memref<4xf32>, memref<4xf32>) {
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%2 : memref<4x3xf32>) outs(%3 : memref<4xf32>) {
// CHECK: %7 = arith.addf %6, %5 : f32
// CHECK: linalg.yield %7 : f32
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%2 : memref<4x3xf32>) outs(%4 : memref<4xf32>) {
// CHECK: %10 = arith.maximumf %9, %8 : f32
// CHECK: linalg.yield %10 : f32
// CHECK-NOT: buf.kernel
// CHECK: func.return

// Reductions that share no operand are fused if they are small.
func.func @small_reductions(%x: tensor<4x3xf32>, %y: tensor<4x3xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = tg.sum %x axes = [1] : tensor<4x3xf32>
  %1 = tg.sum %y axes = [1] : tensor<4x3xf32>
  func.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @small_reductions(
// CHECK: buf.kernel grid = [4] ins(%x, %y : memref<4x3xf32>, memref<4x3xf32>) outs(%0, %1 : memref<4xf32>, memref<4xf32>) {
// CHECK-NOT: buf.kernel
// CHECK: func.return

// Large reductions that share no operand are not fused: each keeps the device busy alone.
func.func @large_reductions(%x: tensor<4x100000xf32>, %y: tensor<4x100000xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = tg.sum %x axes = [1] : tensor<4x100000xf32>
  %1 = tg.sum %y axes = [1] : tensor<4x100000xf32>
  func.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @large_reductions(
// CHECK: buf.kernel grid = [4] ins(%x : memref<4x100000xf32>) outs(%0 : memref<4xf32>) {
// CHECK: buf.kernel grid = [4] ins(%y : memref<4x100000xf32>) outs(%1 : memref<4xf32>) {
// CHECK-NOT: buf.kernel
// CHECK: func.return

// Kernels over different grids are not fused.
func.func @different_grids(%x: tensor<4xf32>, %y: tensor<5xf32>) -> (tensor<4xf32>, tensor<5xf32>) {
  %0 = tg.exp %x : tensor<4xf32>
  %1 = tg.neg %y : tensor<5xf32>
  func.return %0, %1 : tensor<4xf32>, tensor<5xf32>
}
// CHECK-LABEL: func.func @different_grids(
// CHECK: buf.kernel grid = [4] ins(%x : memref<4xf32>) outs(%0 : memref<4xf32>) {
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%2 : memref<4xf32>) outs(%3 : memref<4xf32>) {
// CHECK: %6 = math.exp %4 : f32
// CHECK: linalg.yield %6 : f32
// CHECK: buf.kernel grid = [5] ins(%y : memref<5xf32>) outs(%1 : memref<5xf32>) {
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%2 : memref<5xf32>) outs(%3 : memref<5xf32>) {
// CHECK: %6 = arith.negf %4 : f32
// CHECK: linalg.yield %6 : f32
// CHECK-NOT: buf.kernel
// CHECK: func.return

// Not fused: the second kernel depends on the first, if only through a third.
func.func @dependent(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = tg.exp %x : tensor<4xf32>
  %1 = tg.sum %0 axes = [0] : tensor<4xf32>
  %2 = tg.broadcast %1 shape = [4] dims = [] : tensor<f32>
  %3 = tg.neg %2 : tensor<4xf32>
  func.return %0, %3 : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @dependent(
// CHECK: %2 = memref.alloc() : memref<f32>
// CHECK: buf.kernel grid = [4] ins(%x : memref<4xf32>) outs(%0 : memref<4xf32>) {
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%3 : memref<4xf32>) outs(%4 : memref<4xf32>) {
// CHECK: %7 = math.exp %5 : f32
// CHECK: linalg.yield %7 : f32
// CHECK: buf.kernel grid = [] ins(%0 : memref<4xf32>) outs(%2 : memref<f32>) {
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>], iterator_types = ["reduction"]} ins(%3 : memref<4xf32>) outs(%4 : memref<f32>) {
// CHECK: %7 = arith.addf %6, %5 : f32
// CHECK: linalg.yield %7 : f32
// CHECK: buf.kernel grid = [4] ins(%2 : memref<f32>) outs(%1 : memref<4xf32>) {
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0) -> ()>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%3 : memref<f32>) outs(%4 : memref<4xf32>) {
// CHECK: %7 = arith.negf %5 : f32
// CHECK: linalg.yield %7 : f32
// CHECK-NOT: buf.kernel
// CHECK: func.return

// Contractions are not fused.
func.func @contractions(%a: tensor<4x3xf32>, %b: tensor<3x5xf32>, %c: tensor<3x5xf32>) -> (tensor<4x5xf32>, tensor<4x5xf32>) {
  %0 = tg.dot_general %a, %b lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<4x3xf32>, tensor<3x5xf32>
  %1 = tg.dot_general %a, %c lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<4x3xf32>, tensor<3x5xf32>
  func.return %0, %1 : tensor<4x5xf32>, tensor<4x5xf32>
}
// CHECK-LABEL: func.func @contractions(
// CHECK: buf.kernel grid = [4, 5] ins(%a, %b : memref<4x3xf32>, memref<3x5xf32>) outs(%0 : memref<4x5xf32>) {
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%2, %3 : memref<4x3xf32>, memref<3x5xf32>) outs(%4 : memref<4x5xf32>) {
// CHECK: %8 = arith.mulf %5, %6 : f32
// CHECK: %9 = arith.addf %7, %8 : f32
// CHECK: linalg.yield %9 : f32
// CHECK: buf.kernel grid = [4, 5] ins(%a, %c : memref<4x3xf32>, memref<3x5xf32>) outs(%1 : memref<4x5xf32>) {
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%2, %3 : memref<4x3xf32>, memref<3x5xf32>) outs(%4 : memref<4x5xf32>) {
// CHECK: %8 = arith.mulf %5, %6 : f32
// CHECK: %9 = arith.addf %7, %8 : f32
// CHECK: linalg.yield %9 : f32
// CHECK-NOT: buf.kernel
// CHECK: func.return
