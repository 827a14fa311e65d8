// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{only=recompute}' | filecheck %s

// Two kernels read the exponential, along different axes: recomputing it in both moves fewer bytes than storing it.
func.func @one_operand(%x: tensor<4x3xf32>) -> (tensor<3xf32>, tensor<4xf32>) {
  %0 = tg.exp %x : tensor<4x3xf32>
  %1 = tg.sum %0 axes = [0] : tensor<4x3xf32>
  %2 = tg.sum %0 axes = [1] : tensor<4x3xf32>
  func.return %1, %2 : tensor<3xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @one_operand(
// CHECK: buf.kernel grid = [3] ins(%x : memref<4x3xf32>) outs(%0 : memref<3xf32>) {
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%2 : memref<4x3xf32>) outs(%3 : memref<3xf32>) {
// CHECK: %6 = math.exp %4 : f32
// CHECK: %7 = arith.addf %5, %6 : f32
// CHECK: linalg.yield %7 : f32
// CHECK: buf.kernel grid = [4] ins(%x : memref<4x3xf32>) outs(%1 : memref<4xf32>) {
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%2 : memref<4x3xf32>) outs(%3 : memref<4xf32>) {
// CHECK: %6 = math.exp %4 : f32
// CHECK: %7 = arith.addf %5, %6 : f32
// CHECK: linalg.yield %7 : f32
// CHECK-NOT: buf.kernel
// CHECK: func.return

// Not recomputed: five operands read twice are ten; read once, with a result stored and read twice, they are eight.
func.func @many_operands(%a: tensor<4x3xf32>, %b: tensor<4x3xf32>, %c: tensor<4x3xi1>, %d: tensor<4x3xf32>, %e: tensor<4x3xf32>) -> (tensor<3xf32>, tensor<4xf32>) {
  %0 = tg.add %a, %b : tensor<4x3xf32>, tensor<4x3xf32>
  %1 = tg.select %c, %d, %e : tensor<4x3xi1>, tensor<4x3xf32>, tensor<4x3xf32>
  %2 = tg.mul %0, %1 : tensor<4x3xf32>, tensor<4x3xf32>
  %3 = tg.sum %2 axes = [0] : tensor<4x3xf32>
  %4 = tg.sum %2 axes = [1] : tensor<4x3xf32>
  func.return %3, %4 : tensor<3xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @many_operands(
// CHECK: %2 = memref.alloc() : memref<4x3xf32>
// CHECK: buf.kernel grid = [4, 3] ins(%a, %b, %c, %d, %e : memref<4x3xf32>, memref<4x3xf32>, memref<4x3xi1>, memref<4x3xf32>, memref<4x3xf32>) outs(%2 : memref<4x3xf32>) {
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%3, %4, %5, %6, %7 : memref<4x3xf32>, memref<4x3xf32>, memref<4x3xi1>, memref<4x3xf32>, memref<4x3xf32>) outs(%8 : memref<4x3xf32>) {
// CHECK: %15 = arith.select %11, %12, %13 : f32
// CHECK: %16 = arith.addf %9, %10 : f32
// CHECK: %17 = arith.mulf %16, %15 : f32
// CHECK: linalg.yield %17 : f32
// CHECK: buf.kernel grid = [3] ins(%2 : memref<4x3xf32>) outs(%0 : memref<3xf32>) {
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%3 : memref<4x3xf32>) outs(%4 : memref<3xf32>) {
// CHECK: %7 = arith.addf %6, %5 : f32
// CHECK: linalg.yield %7 : f32
// CHECK: buf.kernel grid = [4] ins(%2 : memref<4x3xf32>) outs(%1 : memref<4xf32>) {
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%3 : memref<4x3xf32>) outs(%4 : memref<4xf32>) {
// CHECK: %7 = arith.addf %6, %5 : f32
// CHECK: linalg.yield %7 : f32
// CHECK-NOT: buf.kernel
// CHECK: func.return
