// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu' | filecheck %s

// The last of 49 columns is copied to where its iterations are neighbours, and multiplied with vectors along the rows. The
// epilogue runs over one register block after another: of six rows and 16 columns, and the one column.
func.func @small_image(%x: tensor<1x160x7x7xf32>, %w: tensor<96x160x1x1xf32>) -> tensor<1x96x7x7xf32> {
  %0 = tg.conv %x, %w stride = [1, 1] low = [0, 0] high = [0, 0] lhs_dilation = [1, 1] rhs_dilation = [1, 1] groups = 1 : tensor<1x160x7x7xf32>, tensor<96x160x1x1xf32>
  %1 = tg.tanh %0 : tensor<1x96x7x7xf32>
  func.return %1 : tensor<1x96x7x7xf32>
}
// CHECK:      cpu.kernel @packed0 access = ["read", "read", "read_write"] {
// CHECK:        %[[SUMS:[0-9]+]] = memref.alloca() : memref<96xf32>
// CHECK:        %[[COLUMN:[0-9]+]] = memref.alloca() : memref<160xf32>
// CHECK:          %[[ELEMENT:[0-9]+]] = memref.load %0[%{{[0-9]+}}] : memref<7840xf32>
// CHECK-NEXT:     memref.store %[[ELEMENT]], %[[COLUMN]][%{{[0-9]+}}] : memref<160xf32>
// CHECK:          vector.load %0
// CHECK:          vector.store %{{[0-9]+}}, %[[SUMS]][%{{[0-9]+}}] : memref<96xf32>, vector<8xf32>
// CHECK:          scf.for %{{[0-9]+}} = %{{[0-9]+}} to %18 step %8 {
// CHECK:            scf.for %{{[0-9]+}} = %{{[0-9]+}} to %20 step %8 {
// CHECK:              %[[SUM:[0-9]+]] = memref.load %[[SUMS]][%{{[0-9]+}}] : memref<96xf32>
// CHECK-NEXT:         %[[RESULT:[0-9]+]] = math.tanh %[[SUM]] : f32
// CHECK-NEXT:         %[[AT:[0-9]+]] = arith.addi %{{[0-9]+}}, %{{[0-9]+}} : index
// CHECK-NEXT:         memref.store %[[RESULT]], %2[%[[AT]]] : memref<4704xf32>
// CHECK-NEXT:       } {cpu.parallel}
// CHECK:          vector.load %1[%{{[0-9]+}}] : memref<15360xf32>, vector<8xf32>
// CHECK:          %[[LINE:[0-9]+]] = vector.load %[[COLUMN]][%{{[0-9]+}}] : memref<160xf32>, vector<8xf32>
// CHECK-NEXT:     vector.fma %{{[0-9]+}}, %[[LINE]]
// CHECK:          vector.store %{{[0-9]+}}, %[[SUMS]][%{{[0-9]+}}] : memref<96xf32>, vector<1xf32>
// CHECK:          math.tanh
