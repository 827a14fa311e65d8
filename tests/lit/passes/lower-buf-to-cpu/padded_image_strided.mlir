// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu' | filecheck %s

// With a stride of two, the elements of a line at even and at odd places are kept apart: both parts are shuffled out of
// the same two vectors. The first window begins before the line; the lines above and below the image are zeros.
func.func @strided(%x: tensor<2x4x9x16xf32>, %w: tensor<8x1x3x3xf32>) -> tensor<2x8x5x8xf32> {
  %0 = tg.conv %x, %w stride = [2, 2] low = [1, 1] high = [1, 1] lhs_dilation = [1, 1] rhs_dilation = [1, 1] groups = 4 : tensor<2x4x9x16xf32>, tensor<8x1x3x3xf32>
  func.return %0 : tensor<2x8x5x8xf32>
}
// CHECK:      scf.if %{{[0-9]+}} {
// CHECK-NEXT:   %[[ZERO:[0-9]+]] = vector.broadcast %{{[0-9]+}} : f32 to vector<1xf32>
// CHECK-NEXT:   vector.store %[[ZERO]], %[[COPY:[0-9]+]][%[[ODD:[0-9]+]]] : memref<352xf32>, vector<1xf32>
// CHECK-NEXT:   %[[FIRST:[0-9]+]] = arith.addi %[[ODD]], %[[ONE:[0-9]+]] : index
// CHECK-NEXT:   %[[LOW:[0-9]+]] = vector.load %0[%[[LINE:[0-9]+]]] : memref<1152xf32>, vector<8xf32>
// CHECK-NEXT:   %[[NEXT:[0-9]+]] = arith.addi %[[LINE]], %[[EIGHT:[0-9]+]] : index
// CHECK-NEXT:   %[[HIGH:[0-9]+]] = vector.load %0[%[[NEXT]]] : memref<1152xf32>, vector<8xf32>
// CHECK-NEXT:   %[[ODDS:[0-9]+]] = vector.shuffle %[[LOW]], %[[HIGH]] [1, 3, 5, 7, 9, 11, 13, 15] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:   vector.store %[[ODDS]], %[[COPY]][%[[FIRST]]] : memref<352xf32>, vector<8xf32>
// CHECK-NEXT:   %[[A:[0-9]+]] = vector.load %0[%[[LINE]]] : memref<1152xf32>, vector<8xf32>
// CHECK-NEXT:   %[[B:[0-9]+]] = vector.load %0[%[[NEXT]]] : memref<1152xf32>, vector<8xf32>
// CHECK-NEXT:   %[[EVENS:[0-9]+]] = vector.shuffle %[[A]], %[[B]] [0, 2, 4, 6, 8, 10, 12, 14] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:   vector.store %[[EVENS]], %[[COPY]][%[[EVEN:[0-9]+]]] : memref<352xf32>, vector<8xf32>
// CHECK-NEXT:   %[[LAST:[0-9]+]] = arith.addi %[[EVEN]], %[[EIGHT]] : index
// CHECK-NEXT:   vector.store %[[ZERO]], %[[COPY]][%[[LAST]]] : memref<352xf32>, vector<1xf32>
// CHECK-NEXT: } else {
// CHECK-NEXT:   vector.store %[[ZEROS:[0-9]+]], %[[COPY]][%[[ODD]]] : memref<352xf32>, vector<8xf32>
// CHECK-NEXT:   arith.addi
// CHECK-NEXT:   vector.store %[[ZEROS]], %[[COPY]]
// CHECK-NEXT:   vector.store %[[ZEROS]], %[[COPY]][%[[EVEN]]] : memref<352xf32>, vector<8xf32>
// CHECK-NEXT:   arith.addi
// CHECK-NEXT:   vector.store %[[ZEROS]], %[[COPY]]
// CHECK-NEXT: }
