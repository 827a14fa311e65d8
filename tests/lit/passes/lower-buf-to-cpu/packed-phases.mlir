// RUN: tg-opt %s --split-input-file -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu' | filecheck %s

// The phases of a transposed convolution whose window is no multiple of the stride have different numbers of taps. The
// tables list only the iterations with a product, and their number ends all loops over iterations.
func.func @uneven(%x: tensor<2x4x16xf32>, %w: tensor<4x4x3xf32>) -> tensor<2x4x32xf32> {
  %y = tg.conv %x, %w stride = [1] low = [1] high = [2] lhs_dilation = [2] rhs_dilation = [1] groups = 1 : tensor<2x4x16xf32>, tensor<4x4x3xf32>
  func.return %y : tensor<2x4x32xf32>
}
// CHECK:      cpu.kernel @packed0 access = ["read", "read", "read_write"] {
// CHECK:      scf.for %41 = %3 to %4 step %12 {
// CHECK:        %48 = scf.for %49 = %13 to %19 step %12 iter_args(%50 = %13) -> (index) {
// CHECK-NEXT:     %51 = arith.addi %13, %49 : index
// CHECK-NEXT:     %52 = arith.divui %51, %20 : index
// CHECK-NEXT:     %53 = arith.index_cast %52 : index to i32
// CHECK-NEXT:     memref.store %53, %6[%50] : memref<8xi32>
// CHECK-NEXT:     %54 = arith.remui %51, %20 : index
// CHECK-NEXT:     %55 = arith.index_cast %54 : index to i32
// CHECK-NEXT:     memref.store %55, %5[%50] : memref<8xi32>
// CHECK-NEXT:     %56 = arith.muli %54, %20 : index
// CHECK-NEXT:     %57 = arith.subi %56, %41 : index
// CHECK-NEXT:     %58 = arith.addi %57, %12 : index
// CHECK-NEXT:     %59 = arith.cmpi ult, %58, %21 : index
// CHECK-NEXT:     %60 = arith.addi %50, %12 : index
// CHECK-NEXT:     %61 = arith.select %59, %60, %50 : index
// CHECK:        scf.for %{{.*}} = %13 to %48 step %12
// CHECK:        scf.for %{{.*}} = %13 to %48 step %12
// CHECK:        scf.for %{{.*}} = %13 to %48 step %12
// CHECK:        vector.fma
