// RUN: tg-opt %s --split-input-file -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu' | filecheck %s

// The phases of a transposed convolution whose window is no multiple of the stride have different numbers of taps. The
// tables list only the iterations with a product, and their number ends all loops over iterations.
func.func @uneven(%x: tensor<2x4x2x8xf32>, %w: tensor<16x4x1x3xf32>) -> tensor<2x16x2x16xf32> {
  %y = tg.conv %x, %w stride = [1, 1] low = [0, 1] high = [0, 2] lhs_dilation = [1, 2] rhs_dilation = [1, 1] groups = 1 : tensor<2x4x2x8xf32>, tensor<16x4x1x3xf32>
  func.return %y : tensor<2x16x2x16xf32>
}
// CHECK:      cpu.kernel @packed0 access = ["read", "read", "read_write"] {
// CHECK:      scf.for %{{[0-9]+}} = %3 to %4 step %[[ONE:[0-9]+]] {
// CHECK:        %[[COUNT:[0-9]+]] = scf.for %[[AT:[0-9]+]] = %[[ZERO:[0-9]+]] to %{{[0-9]+}} step %[[ONE]] iter_args(%[[KEPT:[0-9]+]] = %[[ZERO]]) -> (index) {
// CHECK-NEXT:     %[[STEP:[0-9]+]] = arith.addi %[[ZERO]], %[[AT]] : index
// CHECK-NEXT:     %{{[0-9]+}} = arith.divui %[[STEP]], %[[TWO:[0-9]+]] : index
// CHECK-NEXT:     arith.index_cast
// CHECK-NEXT:     memref.store %{{[0-9]+}}, %6[%[[KEPT]]] : memref<8xi32>
// CHECK-NEXT:     %[[TAP:[0-9]+]] = arith.remui %[[STEP]], %[[TWO]] : index
// CHECK-NEXT:     arith.index_cast
// CHECK-NEXT:     memref.store %{{[0-9]+}}, %5[%[[KEPT]]] : memref<8xi32>
// CHECK-NEXT:     arith.muli %[[TAP]], %[[TWO]] : index
// CHECK-NEXT:     arith.subi
// CHECK-NEXT:     arith.addi
// CHECK-NEXT:     %[[HAS:[0-9]+]] = arith.cmpi ult
// CHECK-NEXT:     %[[NEXT:[0-9]+]] = arith.addi %[[KEPT]], %[[ONE]] : index
// CHECK-NEXT:     arith.select %[[HAS]], %[[NEXT]], %[[KEPT]] : index
// CHECK:        scf.for %{{.*}} = %[[ZERO]] to %[[COUNT]] step %[[ONE]]
// CHECK:        scf.for %{{.*}} = %[[ZERO]] to %[[COUNT]] step %[[ONE]]
// CHECK:        scf.for %{{.*}} = %[[ZERO]] to %[[COUNT]] step %[[ONE]]
// CHECK:        vector.fma

// -----

// If the image is copied with its padding, whole windows are; the table of offsets has those of the iterations with a
// product.
func.func @depthwise(%x: tensor<2x4x16xf32>, %w: tensor<4x1x3xf32>) -> tensor<2x4x32xf32> {
  %y = tg.conv %x, %w stride = [1] low = [1] high = [2] lhs_dilation = [2] rhs_dilation = [1] groups = 4 : tensor<2x4x16xf32>, tensor<4x1x3xf32>
  func.return %y : tensor<2x4x32xf32>
}
// CHECK:      cpu.kernel @packed0 access = ["read", "read", "read_write"] {
// CHECK:        %38 = scf.for %39 = %11 to %14 step %10 iter_args(%40 = %11) -> (index) {
// CHECK:        scf.for %55 = %11 to %17 step %10 {
// CHECK:          vector.store
// CHECK:        scf.for %64 = %11 to %38 step %10 {
// CHECK-NEXT:     %65 = memref.load %5[%64] {cpu.below = 2 : i32} : memref<2xi32>
// CHECK-NEXT:     %66 = arith.index_cast %65 : i32 to index
// CHECK-NEXT:     %67 = arith.remui %66, %10 : index
// CHECK-NEXT:     %68 = arith.addi %24, %67 : index
// CHECK-NEXT:     %69 = arith.muli %68, %19 : index
// CHECK-NEXT:     %70 = arith.addi %69, %66 : index
// CHECK-NEXT:     %71 = arith.index_cast %70 : index to i32
// CHECK-NEXT:     memref.store %71, %7[%64] : memref<2xi32>
// CHECK:        scf.for %{{.*}} = %11 to %38 step %10
// CHECK:        vector.fma
