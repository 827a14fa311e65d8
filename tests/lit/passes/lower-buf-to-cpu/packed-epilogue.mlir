// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu' | filecheck %s

// The epilogue runs over the columns of a row, which are contiguous. 49 are too few for a loop of several vectors, so they are masked.
func.func @small_image(%x: tensor<1x160x7x7xf32>, %w: tensor<96x160x1x1xf32>) -> tensor<1x96x7x7xf32> {
  %0 = tg.conv %x, %w stride = [1, 1] low = [0, 0] high = [0, 0] lhs_dilation = [1, 1] rhs_dilation = [1, 1] groups = 1 : tensor<1x160x7x7xf32>, tensor<96x160x1x1xf32>
  %1 = tg.tanh %0 : tensor<1x96x7x7xf32>
  func.return %1 : tensor<1x96x7x7xf32>
}
// CHECK:      cpu.kernel @packed0 access = ["read", "read", "read_write"] {
// CHECK:        scf.for %195 = %7 to %11 step %6 {
// CHECK-NEXT:     %196 = arith.subi %195, %7 : index
// CHECK-NEXT:     %197 = arith.addi %46, %196 : index
// CHECK-NEXT:     %198 = arith.addi %192, %195 : index
// CHECK-NEXT:     %199 = memref.load %5[%198] : memref<312xf32>
// CHECK-NEXT:     %200 = math.tanh %199 : f32
// CHECK-NEXT:     %201 = arith.addi %194, %197 : index
// CHECK-NEXT:     memref.store %200, %2[%201] : memref<4704xf32>
// CHECK-NEXT:   } {cpu.parallel, cpu.masked}
