// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse' | filecheck %s

// A softmax is one kernel: two reductions over each row, and the pointwise ops that read their results.
func.func @softmax(%x: tensor<64x32xf32>) -> tensor<64x32xf32> {
  %max = tg.max %x axes = [1] : tensor<64x32xf32>
  %0 = tg.broadcast %max shape = [64, 32] dims = [0] : tensor<64xf32>
  %1 = tg.sub %x, %0 : tensor<64x32xf32>, tensor<64x32xf32>
  %2 = tg.exp %1 : tensor<64x32xf32>
  %sum = tg.sum %2 axes = [1] : tensor<64x32xf32>
  %3 = tg.broadcast %sum shape = [64, 32] dims = [0] : tensor<64xf32>
  %4 = tg.div %2, %3 : tensor<64x32xf32>, tensor<64x32xf32>
  func.return %4 : tensor<64x32xf32>
}
// CHECK-LABEL: func.func @softmax(
// CHECK: buf.kernel grid = [64] ins(%x : memref<64x32xf32>) outs(%0 : memref<64x32xf32>) {
// CHECK: %3 = memref.alloca() : memref<64xf32>
// CHECK: %4 = memref.alloca() : memref<64xf32>
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%1 : memref<64x32xf32>) outs(%3 : memref<64xf32>) {
// CHECK: %7 = arith.maximumf %6, %5 : f32
// CHECK: linalg.yield %7 : f32
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%1, %3 : memref<64x32xf32>, memref<64xf32>) outs(%4 : memref<64xf32>) {
// CHECK: %11 = arith.subf %8, %9 : f32
// CHECK: %12 = math.exp %11 : f32
// CHECK: %13 = arith.addf %10, %12 : f32
// CHECK: linalg.yield %13 : f32
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%4, %1, %3 : memref<64xf32>, memref<64x32xf32>, memref<64xf32>) outs(%2 : memref<64x32xf32>) {
// CHECK: %18 = arith.subf %15, %16 : f32
// CHECK: %19 = math.exp %18 : f32
// CHECK: %20 = arith.divf %19, %14 : f32
// CHECK: linalg.yield %20 : f32
// CHECK-NOT: buf.kernel
// CHECK: func.return

// Not fused if there is a single row: one workgroup would do all the work that many can share.
func.func @one_row(%x: tensor<100000xf32>) -> tensor<100000xf32> {
  %sum = tg.sum %x axes = [0] : tensor<100000xf32>
  %0 = tg.broadcast %sum shape = [100000] dims = [] : tensor<f32>
  %1 = tg.div %x, %0 : tensor<100000xf32>, tensor<100000xf32>
  func.return %1 : tensor<100000xf32>
}
// CHECK-LABEL: func.func @one_row(
// CHECK: %sum = memref.alloc() : memref<f32>
// CHECK: buf.kernel grid = [] ins(%x : memref<100000xf32>) outs(%sum : memref<f32>) {
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>], iterator_types = ["reduction"]} ins(%1 : memref<100000xf32>) outs(%2 : memref<f32>) {
// CHECK: %5 = arith.addf %4, %3 : f32
// CHECK: linalg.yield %5 : f32
// CHECK: buf.kernel grid = [100000] ins(%x, %sum : memref<100000xf32>, memref<f32>) outs(%0 : memref<100000xf32>) {
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%1, %2 : memref<100000xf32>, memref<f32>) outs(%3 : memref<100000xf32>) {
// CHECK: %7 = arith.divf %4, %5 : f32
// CHECK: linalg.yield %7 : f32
// CHECK-NOT: buf.kernel
// CHECK: func.return
