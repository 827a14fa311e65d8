// RUN: tg-opt %s --split-input-file -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu' | filecheck %s

// The phases of a transposed convolution whose window is no multiple of the stride have different numbers of taps. The
// tables list only the iterations with a product, and their number ends all loops over iterations.
func.func @uneven(%x: tensor<2x4x16xf32>, %w: tensor<16x4x3xf32>) -> tensor<2x16x32xf32> {
  %y = tg.conv %x, %w stride = [1] low = [1] high = [2] lhs_dilation = [2] rhs_dilation = [1] groups = 1 : tensor<2x4x16xf32>, tensor<16x4x3xf32>
  func.return %y : tensor<2x16x32xf32>
}
// CHECK:      cpu.kernel @packed0 access = ["read", "read", "read_write"] {
// CHECK:      scf.for %32 = %3 to %4 step %10 {
// CHECK:        %34 = scf.for %35 = %11 to %14 step %10 iter_args(%36 = %11) -> (index) {
// CHECK-NEXT:     %37 = arith.addi %11, %35 : index
// CHECK-NEXT:     %38 = arith.divui %37, %15 : index
// CHECK-NEXT:     %39 = arith.index_cast %38 : index to i32
// CHECK-NEXT:     memref.store %39, %6[%36] : memref<8xi32>
// CHECK-NEXT:     %40 = arith.remui %37, %15 : index
// CHECK-NEXT:     %41 = arith.index_cast %40 : index to i32
// CHECK-NEXT:     memref.store %41, %5[%36] : memref<8xi32>
// CHECK-NEXT:     %42 = arith.muli %40, %15 : index
// CHECK-NEXT:     %43 = arith.subi %42, %33 : index
// CHECK-NEXT:     %44 = arith.addi %43, %10 : index
// CHECK-NEXT:     %45 = arith.cmpi ult, %44, %16 : index
// CHECK-NEXT:     %46 = arith.addi %36, %10 : index
// CHECK-NEXT:     %47 = arith.select %45, %46, %36 : index
// CHECK:        scf.for %{{.*}} = %11 to %34 step %10
// CHECK:        scf.for %{{.*}} = %11 to %34 step %10
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
