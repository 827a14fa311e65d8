// RUN: tg-opt %s --split-input-file -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu' | filecheck %s

// The phases of a transposed convolution whose window is no multiple of the stride have different numbers of taps. The
// tables list only the iterations with a product, and their number ends all loops over iterations.
func.func @uneven(%x: tensor<2x4x16xf32>, %w: tensor<4x4x3xf32>) -> tensor<2x4x32xf32> {
  %y = tg.conv %x, %w stride = [1] low = [1] high = [2] lhs_dilation = [2] rhs_dilation = [1] groups = 1 : tensor<2x4x16xf32>, tensor<4x4x3xf32>
  func.return %y : tensor<2x4x32xf32>
}
// CHECK:      cpu.kernel @packed0 access = ["read", "read", "read_write"] {
// CHECK:      scf.for %33 = %3 to %4 step %10 {
// CHECK:        %35 = scf.for %36 = %11 to %16 step %10 iter_args(%37 = %11) -> (index) {
// CHECK-NEXT:     %38 = arith.addi %11, %36 : index
// CHECK-NEXT:     %39 = arith.divui %38, %17 : index
// CHECK-NEXT:     %40 = arith.index_cast %39 : index to i32
// CHECK-NEXT:     memref.store %40, %6[%37] : memref<8xi32>
// CHECK-NEXT:     %41 = arith.remui %38, %17 : index
// CHECK-NEXT:     %42 = arith.index_cast %41 : index to i32
// CHECK-NEXT:     memref.store %42, %5[%37] : memref<8xi32>
// CHECK-NEXT:     %43 = arith.muli %41, %17 : index
// CHECK-NEXT:     %44 = arith.subi %43, %34 : index
// CHECK-NEXT:     %45 = arith.addi %44, %10 : index
// CHECK-NEXT:     %46 = arith.cmpi ult, %45, %18 : index
// CHECK-NEXT:     %47 = arith.addi %37, %10 : index
// CHECK-NEXT:     %48 = arith.select %46, %47, %37 : index
// CHECK:        scf.for %{{.*}} = %11 to %35 step %10
// CHECK:        scf.for %{{.*}} = %11 to %35 step %10
// CHECK:        vector.fma
