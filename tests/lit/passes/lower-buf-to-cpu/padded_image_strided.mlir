// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu' | filecheck %s

// With a stride of two, the elements of a line at even and at odd places are kept apart: both parts are shuffled out of
// the same two vectors. The first window begins before the line; the lines above and below the image are zeros.
func.func @strided(%x: tensor<2x4x9x16xf32>, %w: tensor<8x1x3x3xf32>) -> tensor<2x8x5x8xf32> {
  %0 = tg.conv %x, %w stride = [2, 2] low = [1, 1] high = [1, 1] lhs_dilation = [1, 1] rhs_dilation = [1, 1] groups = 4 : tensor<2x4x9x16xf32>, tensor<8x1x3x3xf32>
  func.return %0 : tensor<2x8x5x8xf32>
}
// CHECK:      scf.if %105 {
// CHECK-NEXT:   %109 = vector.broadcast %49 : f32 to vector<1xf32>
// CHECK-NEXT:   vector.store %109, %9[%100] : memref<352xf32>, vector<1xf32>
// CHECK-NEXT:   %110 = arith.addi %100, %10 : index
// CHECK-NEXT:   %111 = vector.load %0[%108] : memref<1152xf32>, vector<8xf32>
// CHECK-NEXT:   %112 = arith.addi %108, %53 : index
// CHECK-NEXT:   %113 = vector.load %0[%112] : memref<1152xf32>, vector<8xf32>
// CHECK-NEXT:   %114 = vector.shuffle %111, %113 [1, 3, 5, 7, 9, 11, 13, 15] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:   vector.store %114, %9[%110] : memref<352xf32>, vector<8xf32>
// CHECK-NEXT:   %115 = vector.load %0[%108] : memref<1152xf32>, vector<8xf32>
// CHECK-NEXT:   %116 = vector.load %0[%112] : memref<1152xf32>, vector<8xf32>
// CHECK-NEXT:   %117 = vector.shuffle %115, %116 [0, 2, 4, 6, 8, 10, 12, 14] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:   vector.store %117, %9[%101] : memref<352xf32>, vector<8xf32>
// CHECK-NEXT:   %118 = arith.addi %101, %53 : index
// CHECK-NEXT:   vector.store %109, %9[%118] : memref<352xf32>, vector<1xf32>
// CHECK-NEXT: } else {
// CHECK-NEXT:   vector.store %50, %9[%100] : memref<352xf32>, vector<8xf32>
// CHECK-NEXT:   %119 = arith.addi %100, %10 : index
// CHECK-NEXT:   vector.store %50, %9[%119] : memref<352xf32>, vector<8xf32>
// CHECK-NEXT:   vector.store %50, %9[%101] : memref<352xf32>, vector<8xf32>
// CHECK-NEXT:   %120 = arith.addi %101, %10 : index
// CHECK-NEXT:   vector.store %50, %9[%120] : memref<352xf32>, vector<8xf32>
// CHECK-NEXT: }
