// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu' | filecheck %s

// With a stride of two, the elements of a line at even and at odd places are kept apart: both parts are shuffled out of
// the same two vectors. The first window begins before the line; the lines above and below the image are zeros.
func.func @strided(%x: tensor<2x4x9x16xf32>, %w: tensor<4x1x3x3xf32>) -> tensor<2x4x5x8xf32> {
  %0 = tg.conv %x, %w stride = [2, 2] low = [1, 1] high = [1, 1] lhs_dilation = [1, 1] rhs_dilation = [1, 1] groups = 4 : tensor<2x4x9x16xf32>, tensor<4x1x3x3xf32>
  func.return %0 : tensor<2x4x5x8xf32>
}
// CHECK:      scf.if %99 {
// CHECK-NEXT:   %103 = vector.broadcast %47 : f32 to vector<1xf32>
// CHECK-NEXT:   vector.store %103, %9[%94] : memref<368xf32>, vector<1xf32>
// CHECK-NEXT:   %104 = arith.addi %94, %10 : index
// CHECK-NEXT:   %105 = vector.load %0[%102] : memref<1152xf32>, vector<8xf32>
// CHECK-NEXT:   %106 = arith.addi %102, %53 : index
// CHECK-NEXT:   %107 = vector.load %0[%106] : memref<1152xf32>, vector<8xf32>
// CHECK-NEXT:   %108 = vector.shuffle %105, %107 [1, 3, 5, 7, 9, 11, 13, 15] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:   vector.store %108, %9[%104] : memref<368xf32>, vector<8xf32>
// CHECK-NEXT:   %109 = vector.load %0[%102] : memref<1152xf32>, vector<8xf32>
// CHECK-NEXT:   %110 = vector.load %0[%106] : memref<1152xf32>, vector<8xf32>
// CHECK-NEXT:   %111 = vector.shuffle %109, %110 [0, 2, 4, 6, 8, 10, 12, 14] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:   vector.store %111, %9[%95] : memref<368xf32>, vector<8xf32>
// CHECK-NEXT:   %112 = arith.addi %95, %53 : index
// CHECK-NEXT:   vector.store %103, %9[%112] : memref<368xf32>, vector<1xf32>
// CHECK-NEXT: } else {
// CHECK-NEXT:   vector.store %48, %9[%94] : memref<368xf32>, vector<8xf32>
// CHECK-NEXT:   %113 = arith.addi %94, %10 : index
// CHECK-NEXT:   vector.store %48, %9[%113] : memref<368xf32>, vector<8xf32>
// CHECK-NEXT:   vector.store %48, %9[%95] : memref<368xf32>, vector<8xf32>
// CHECK-NEXT:   %114 = arith.addi %95, %10 : index
// CHECK-NEXT:   vector.store %48, %9[%114] : memref<368xf32>, vector<8xf32>
// CHECK-NEXT: }
