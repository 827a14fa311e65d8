// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu' | filecheck %s

// The epilogue runs over the columns of a row, which are contiguous. 49 are too few for a loop of several vectors, so they are masked.
func.func @small_image(%x: tensor<1x160x7x7xf32>, %w: tensor<96x160x1x1xf32>) -> tensor<1x96x7x7xf32> {
  %0 = tg.conv %x, %w stride = [1, 1] low = [0, 0] high = [0, 0] lhs_dilation = [1, 1] rhs_dilation = [1, 1] groups = 1 : tensor<1x160x7x7xf32>, tensor<96x160x1x1xf32>
  %1 = tg.tanh %0 : tensor<1x96x7x7xf32>
  func.return %1 : tensor<1x96x7x7xf32>
}
// CHECK:      cpu.kernel @packed0 access = ["read", "read", "read_write"] {
// CHECK:        scf.for %206 = %9 to %13 step %8 {
// CHECK-NEXT:     %207 = arith.subi %206, %9 : index
// CHECK-NEXT:     %208 = arith.addi %202, %207 : index
// CHECK-NEXT:     %209 = arith.addi %198, %206 : index
// CHECK-NEXT:     %210 = memref.load %7[%209] : memref<312xf32>
// CHECK-NEXT:     %211 = math.tanh %210 : f32
// CHECK-NEXT:     %212 = arith.addi %205, %208 : index
// CHECK-NEXT:     memref.store %211, %2[%212] : memref<4704xf32>
// CHECK-NEXT:   } {cpu.parallel, cpu.masked}
