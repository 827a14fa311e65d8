// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{only=inline,recompute},lower-precision{smallest=8}' | filecheck %s

// The maxima stay f32: they are compared for equality with sums that each kernel recomputes from the f16 product.
func.func @compared(%x: tensor<8x4xf32>, %w: tensor<4x8xf32>, %b: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = tg.dot_general %x, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<8x4xf32>, tensor<4x8xf32>
  %1 = tg.add %0, %b : tensor<8x8xf32>, tensor<8x8xf32>
  %2 = tg.max %1 axes = [0] : tensor<8x8xf32>
  %3 = tg.broadcast %2 shape = [8, 8] dims = [1] : tensor<8xf32>
  %4 = tg.compare %1, %3 predicate = "eq" : tensor<8x8xf32>, tensor<8x8xf32>
  %5 = tg.select %4, %1, %b : tensor<8x8xi1>, tensor<8x8xf32>, tensor<8x8xf32>
  %6 = tg.dot_general %5, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [0] rhs_contracting = [1] : tensor<8x8xf32>, tensor<4x8xf32>
  %7 = tg.dot_general %6, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<8x4xf32>, tensor<4x8xf32>
  func.return %7 : tensor<8x8xf32>
}
// CHECK-LABEL: func.func @compared(
// CHECK: buf.kernel grid = [8, 8] ins(%x, %w : {{.*}}) outs({{.*}} : memref<8x8xf16>)
// CHECK: buf.kernel grid = [8] ins({{.*}} : memref<8x8xf16>, memref<8x8xf32>) outs({{.*}} : memref<8xf32>)
// CHECK: arith.maximumf
// CHECK-NOT: arith.truncf
// CHECK: buf.kernel grid = [8, 8]
// CHECK: arith.cmpf oeq
// CHECK: func.return

// A maximum that is compared with the buffer from which it was selected is rounded along with it.
func.func @chosen(%x: tensor<8x4xf32>, %w: tensor<4x8xf32>, %b: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = tg.dot_general %x, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<8x4xf32>, tensor<4x8xf32>
  %1 = tg.max %0 axes = [0] : tensor<8x8xf32>
  %2 = tg.broadcast %1 shape = [8, 8] dims = [1] : tensor<8xf32>
  %3 = tg.compare %0, %2 predicate = "eq" : tensor<8x8xf32>, tensor<8x8xf32>
  %4 = tg.select %3, %0, %b : tensor<8x8xi1>, tensor<8x8xf32>, tensor<8x8xf32>
  func.return %4 : tensor<8x8xf32>
}
// CHECK-LABEL: func.func @chosen(
// CHECK: buf.kernel grid = [8, 8] ins(%x, %w : {{.*}}) outs({{.*}} : memref<8x8xf16>)
// CHECK: buf.kernel grid = [8] ins({{.*}} : memref<8x8xf16>) outs({{.*}} : memref<8xf16>)
// CHECK: func.return
