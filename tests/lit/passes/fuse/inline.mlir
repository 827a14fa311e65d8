// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{only=inline}' | filecheck %s

// A chain of pointwise ops becomes one kernel, which loads each element once.
func.func @chain(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tg.neg %x : tensor<4xf32>
  %1 = tg.exp %0 : tensor<4xf32>
  %2 = tg.mul %1, %x : tensor<4xf32>, tensor<4xf32>
  func.return %2 : tensor<4xf32>
}
// CHECK-LABEL: func.func @chain(
// CHECK: buf.kernel grid = [4] ins(%x : memref<4xf32>) outs(%0 : memref<4xf32>) {
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%1 : memref<4xf32>) outs(%2 : memref<4xf32>) {
// CHECK: %5 = arith.negf %3 : f32
// CHECK: %6 = math.exp %5 : f32
// CHECK: %7 = arith.mulf %6, %3 : f32
// CHECK: linalg.yield %7 : f32
// CHECK-NOT: buf.kernel
// CHECK: func.return

// A producer is inlined through views: its index maps are composed with the consumer's.
func.func @through_views(%x: tensor<4x3xf32>) -> tensor<2x4xf32> {
  %0 = tg.exp %x : tensor<4x3xf32>
  %1 = tg.transpose %0 permutation = [1, 0] : tensor<4x3xf32>
  %2 = tg.slice %1 start = [1, 0] stop = [3, 4] step = [1, 1] : tensor<3x4xf32>
  %3 = tg.neg %2 : tensor<2x4xf32>
  func.return %3 : tensor<2x4xf32>
}
// CHECK-LABEL: func.func @through_views(
// CHECK: buf.kernel grid = [2, 4] ins(%x : memref<4x3xf32>) outs(%0 : memref<2x4xf32>) {
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, (d0 + 1))>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%1 : memref<4x3xf32>) outs(%2 : memref<2x4xf32>) {
// CHECK: %5 = math.exp %3 : f32
// CHECK: %6 = arith.negf %5 : f32
// CHECK: linalg.yield %6 : f32
// CHECK-NOT: buf.kernel
// CHECK: func.return

func.func @before_a_reduction(%x: tensor<4x3xf32>) -> tensor<4xf32> {
  %0 = tg.exp %x : tensor<4x3xf32>
  %1 = tg.sum %0 axes = [1] : tensor<4x3xf32>
  func.return %1 : tensor<4xf32>
}
// CHECK-LABEL: func.func @before_a_reduction(
// CHECK: buf.kernel grid = [4] ins(%x : memref<4x3xf32>) outs(%0 : memref<4xf32>) {
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%1 : memref<4x3xf32>) outs(%2 : memref<4xf32>) {
// CHECK: %5 = math.exp %3 : f32
// CHECK: %6 = arith.addf %4, %5 : f32
// CHECK: linalg.yield %6 : f32
// CHECK-NOT: buf.kernel
// CHECK: func.return

// A producer is inlined into a gather: its operand is loaded at the computed index.
func.func @into_a_gather(%x: tensor<65x8xf32>, %i: tensor<2xi32>) -> tensor<2x8xf32> {
  %0 = tg.neg %x : tensor<65x8xf32>
  %1 = tg.take %0, %i axis = 0 : tensor<65x8xf32>, tensor<2xi32>
  func.return %1 : tensor<2x8xf32>
}
// CHECK-LABEL: func.func @into_a_gather(
// CHECK: buf.kernel grid = [2, 8] ins(%i, %x : memref<2xi32>, memref<65x8xf32>) outs(%0 : memref<2x8xf32>) {
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%1 : memref<2xi32>) outs(%3 : memref<2x8xf32>) {
// CHECK: %6 = arith.constant 65 : i32
// CHECK: %7 = arith.cmpi ult, %4, %6 : i32
// CHECK: %8 = arith.constant 0x7fc00000 : f32
// CHECK: %9 = linalg.index 1 : index
// CHECK: %10 = scf.if %7 -> (f32) {
// CHECK: %11 = arith.index_cast %4 : i32 to index
// CHECK: %12 = memref.load %2[%11, %9] : memref<65x8xf32>
// CHECK: %13 = arith.negf %12 : f32
// CHECK: linalg.yield %10 : f32
// CHECK-NOT: buf.kernel
// CHECK: func.return

// Inlined although each element is read four times: it costs less to recompute than to load.
func.func @cheap_and_repeated(%x: tensor<3xf32>) -> tensor<4x3xf32> {
  %0 = tg.neg %x : tensor<3xf32>
  %1 = tg.broadcast %0 shape = [4, 3] dims = [1] : tensor<3xf32>
  %2 = tg.exp %1 : tensor<4x3xf32>
  func.return %2 : tensor<4x3xf32>
}
// CHECK-LABEL: func.func @cheap_and_repeated(
// CHECK: buf.kernel grid = [4, 3] ins(%x : memref<3xf32>) outs(%0 : memref<4x3xf32>) {
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%1 : memref<3xf32>) outs(%2 : memref<4x3xf32>) {
// CHECK: %5 = arith.negf %3 : f32
// CHECK: %6 = math.exp %5 : f32
// CHECK: linalg.yield %6 : f32
// CHECK-NOT: buf.kernel
// CHECK: func.return

// Not inlined: it is expensive and would be recomputed four times.
func.func @dear_and_repeated(%x: tensor<3xf32>) -> tensor<4x3xf32> {
  %0 = tg.exp %x : tensor<3xf32>
  %1 = tg.broadcast %0 shape = [4, 3] dims = [1] : tensor<3xf32>
  %2 = tg.neg %1 : tensor<4x3xf32>
  func.return %2 : tensor<4x3xf32>
}
// CHECK-LABEL: func.func @dear_and_repeated(
// CHECK: %1 = memref.alloc() : memref<3xf32>
// CHECK: buf.kernel grid = [3] ins(%x : memref<3xf32>) outs(%1 : memref<3xf32>) {
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%2 : memref<3xf32>) outs(%3 : memref<3xf32>) {
// CHECK: %6 = math.exp %4 : f32
// CHECK: linalg.yield %6 : f32
// CHECK: buf.kernel grid = [4, 3] ins(%1 : memref<3xf32>) outs(%0 : memref<4x3xf32>) {
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%2 : memref<3xf32>) outs(%3 : memref<4x3xf32>) {
// CHECK: %6 = arith.negf %4 : f32
// CHECK: linalg.yield %6 : f32
// CHECK-NOT: buf.kernel
// CHECK: func.return

// Not inlined: the result has another use, since the function returns it.
func.func @read_by_others(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = tg.exp %x : tensor<4xf32>
  %1 = tg.neg %0 : tensor<4xf32>
  func.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @read_by_others(
// CHECK: buf.kernel grid = [4] ins(%x : memref<4xf32>) outs(%0 : memref<4xf32>) {
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%2 : memref<4xf32>) outs(%3 : memref<4xf32>) {
// CHECK: %6 = math.exp %4 : f32
// CHECK: linalg.yield %6 : f32
// CHECK: buf.kernel grid = [4] ins(%0 : memref<4xf32>) outs(%1 : memref<4xf32>) {
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%2 : memref<4xf32>) outs(%3 : memref<4xf32>) {
// CHECK: %6 = arith.negf %4 : f32
// CHECK: linalg.yield %6 : f32
// CHECK-NOT: buf.kernel
// CHECK: func.return

// Not inlined into a contraction, which reads each element many times.
func.func @before_a_contraction(%a: tensor<4x3xf32>, %b: tensor<3x5xf32>) -> tensor<4x5xf32> {
  %0 = tg.neg %a : tensor<4x3xf32>
  %1 = tg.dot_general %0, %b lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<4x3xf32>, tensor<3x5xf32>
  func.return %1 : tensor<4x5xf32>
}
// CHECK-LABEL: func.func @before_a_contraction(
// CHECK: %1 = memref.alloc() : memref<4x3xf32>
// CHECK: buf.kernel grid = [4, 3] ins(%a : memref<4x3xf32>) outs(%1 : memref<4x3xf32>) {
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%2 : memref<4x3xf32>) outs(%3 : memref<4x3xf32>) {
// CHECK: %6 = arith.negf %4 : f32
// CHECK: linalg.yield %6 : f32
// CHECK: buf.kernel grid = [4, 5] ins(%1, %b : memref<4x3xf32>, memref<3x5xf32>) outs(%0 : memref<4x5xf32>) {
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%2, %3 : memref<4x3xf32>, memref<3x5xf32>) outs(%4 : memref<4x5xf32>) {
// CHECK: %8 = arith.mulf %5, %6 : f32
// CHECK: %9 = arith.addf %7, %8 : f32
// CHECK: linalg.yield %9 : f32
// CHECK-NOT: buf.kernel
// CHECK: func.return

// A reduction is not inlined: it has loops of its own.
func.func @reduction(%x: tensor<4x3xf32>) -> tensor<4xf32> {
  %0 = tg.sum %x axes = [1] : tensor<4x3xf32>
  %1 = tg.neg %0 : tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
// CHECK-LABEL: func.func @reduction(
// CHECK: %1 = memref.alloc() : memref<4xf32>
// CHECK: buf.kernel grid = [4] ins(%x : memref<4x3xf32>) outs(%1 : memref<4xf32>) {
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%2 : memref<4x3xf32>) outs(%3 : memref<4xf32>) {
// CHECK: %6 = arith.addf %5, %4 : f32
// CHECK: linalg.yield %6 : f32
// CHECK: buf.kernel grid = [4] ins(%1 : memref<4xf32>) outs(%0 : memref<4xf32>) {
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%2 : memref<4xf32>) outs(%3 : memref<4xf32>) {
// CHECK: %6 = arith.negf %4 : f32
// CHECK: linalg.yield %6 : f32
// CHECK-NOT: buf.kernel
// CHECK: func.return
