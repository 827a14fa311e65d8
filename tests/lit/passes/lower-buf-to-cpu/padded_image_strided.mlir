// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu' | filecheck %s

// With a stride of two, the elements of a line at even and at odd places are kept apart: both parts are shuffled out of
// the same two vectors. The first window begins before the line; the lines above and below the image are zeros.
func.func @strided(%x: tensor<2x4x9x16xf32>, %w: tensor<8x1x3x3xf32>) -> tensor<2x8x5x8xf32> {
  %0 = tg.conv %x, %w stride = [2, 2] low = [1, 1] high = [1, 1] lhs_dilation = [1, 1] rhs_dilation = [1, 1] groups = 4 : tensor<2x4x9x16xf32>, tensor<8x1x3x3xf32>
  func.return %0 : tensor<2x8x5x8xf32>
}
// CHECK:      scf.if %102 {
// CHECK-NEXT:   %106 = vector.broadcast %50 : f32 to vector<1xf32>
// CHECK-NEXT:   vector.store %106, %10[%97] : memref<352xf32>, vector<1xf32>
// CHECK-NEXT:   %107 = arith.addi %97, %11 : index
// CHECK-NEXT:   %108 = vector.load %0[%105] : memref<1152xf32>, vector<8xf32>
// CHECK-NEXT:   %109 = arith.addi %105, %40 : index
// CHECK-NEXT:   %110 = vector.load %0[%109] : memref<1152xf32>, vector<8xf32>
// CHECK-NEXT:   %111 = vector.shuffle %108, %110 [1, 3, 5, 7, 9, 11, 13, 15] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:   vector.store %111, %10[%107] : memref<352xf32>, vector<8xf32>
// CHECK-NEXT:   %112 = vector.load %0[%105] : memref<1152xf32>, vector<8xf32>
// CHECK-NEXT:   %113 = vector.load %0[%109] : memref<1152xf32>, vector<8xf32>
// CHECK-NEXT:   %114 = vector.shuffle %112, %113 [0, 2, 4, 6, 8, 10, 12, 14] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:   vector.store %114, %10[%98] : memref<352xf32>, vector<8xf32>
// CHECK-NEXT:   %115 = arith.addi %98, %40 : index
// CHECK-NEXT:   vector.store %106, %10[%115] : memref<352xf32>, vector<1xf32>
// CHECK-NEXT: } else {
// CHECK-NEXT:   vector.store %51, %10[%97] : memref<352xf32>, vector<8xf32>
// CHECK-NEXT:   %116 = arith.addi %97, %11 : index
// CHECK-NEXT:   vector.store %51, %10[%116] : memref<352xf32>, vector<8xf32>
// CHECK-NEXT:   vector.store %51, %10[%98] : memref<352xf32>, vector<8xf32>
// CHECK-NEXT:   %117 = arith.addi %98, %11 : index
// CHECK-NEXT:   vector.store %51, %10[%117] : memref<352xf32>, vector<8xf32>
// CHECK-NEXT: }
