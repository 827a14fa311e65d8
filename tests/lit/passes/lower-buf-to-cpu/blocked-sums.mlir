// RUN: tg-opt %s --split-input-file -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu' | filecheck %s

// Sums in memory, one for each column: 250 rows are added to a part, which is added to the total.
func.func @columns(%x: tensor<1000x8xf32>) -> tensor<8xf32> {
  %0 = tg.sum %x axes = [0] : tensor<1000x8xf32>
  func.return %0 : tensor<8xf32>
}
// CHECK:      cpu.kernel @loops0
// CHECK:        %[[PART:.*]] = memref.alloca() : memref<8xf32>
// CHECK-NEXT:   %[[TOTAL:.*]] = memref.alloca() : memref<8xf32>
// CHECK-DAG:    %[[ONE:.*]] = arith.constant 1 : index
// CHECK-DAG:    %[[ZERO:.*]] = arith.constant 0 : index
// CHECK-DAG:    %[[ROWS:.*]] = arith.constant 1000 : index
// CHECK-DAG:    %[[WIDTH:.*]] = arith.constant 250 : index
// CHECK:          memref.store %{{.*}}, %[[TOTAL]]
// CHECK:        scf.for %[[BLOCK:.*]] = %[[ZERO]] to %[[ROWS]] step %[[WIDTH]] {
// CHECK-NEXT:     %[[END:.*]] = arith.addi %[[BLOCK]], %[[WIDTH]] : index
// CHECK:            memref.store %{{.*}}, %[[PART]]
// CHECK:          scf.for %{{.*}} = %[[BLOCK]] to %[[END]] step %[[ONE]] {
// CHECK:              %[[NEXT:.*]] = arith.addf %{{.*}}, %{{.*}} fastmath<reassoc> : f32
// CHECK-NEXT:         memref.store %[[NEXT]], %[[PART]]
// CHECK:            %[[SUM:.*]] = arith.addf %{{.*}}, %{{.*}} fastmath<reassoc> : f32
// CHECK-NEXT:       memref.store %[[SUM]], %[[TOTAL]]

// -----

// A sum in a register: blocks are longer, as a vector's lanes share the terms. The last
// block is shorter.
func.func @row(%x: tensor<2x8209xf32>) -> tensor<2xf32> {
  %0 = tg.sum %x axes = [1] : tensor<2x8209xf32>
  func.return %0 : tensor<2xf32>
}
// CHECK:      cpu.kernel @loops0
// CHECK:          %[[TOTAL:.*]] = scf.for %[[BLOCK:.*]] = %{{.*}} to %{{.*}} step %[[WIDTH:.*]] iter_args(%[[HELD:.*]] = %[[ZERO:.*]]) -> (f32) {
// CHECK-NEXT:       %[[LEFT:.*]] = arith.subi %{{.*}}, %[[BLOCK]] : index
// CHECK-NEXT:       %[[COUNT:.*]] = arith.minui %[[LEFT]], %[[WIDTH]] : index
// CHECK-NEXT:       %[[END:.*]] = arith.addi %[[BLOCK]], %[[COUNT]] : index
// CHECK-NEXT:       %[[PART:.*]] = scf.for %{{.*}} = %[[BLOCK]] to %[[END]] step %{{.*}} iter_args(%{{.*}} = %[[ZERO]]) -> (f32) {
// CHECK:              arith.addf %{{.*}}, %{{.*}} fastmath<reassoc> : f32
// CHECK:            %[[SUM:.*]] = arith.addf %[[HELD]], %[[PART]] : f32
// CHECK-NEXT:       scf.yield %[[SUM]] : f32

// -----

// Short sums, maxima and products are not cut; products keep their order.
func.func @whole(%x: tensor<200x8xf32>, %y: tensor<2x8209xf32>) -> (tensor<8xf32>, tensor<2xf32>, tensor<2xf32>) {
  %0 = tg.sum %x axes = [0] : tensor<200x8xf32>
  %1 = tg.max %y axes = [1] : tensor<2x8209xf32>
  %2 = tg.prod %y axes = [1] : tensor<2x8209xf32>
  func.return %0, %1, %2 : tensor<8xf32>, tensor<2xf32>, tensor<2xf32>
}
// CHECK:      cpu.kernel @loops0
// CHECK-NOT:    buf.most_trips
// CHECK:          arith.mulf %{{.*}}, %{{.*}} : f32
// CHECK:      func.func @whole

// -----

// A product of matrices over 9 ranges of the reduction: each range's sums begin at zero.
func.func @product(%a: tensor<16x9216xf32>, %b: tensor<9216x16xf32>) -> tensor<16x16xf32> {
  %0 = tg.dot_general %a, %b lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<16x9216xf32>, tensor<9216x16xf32>
  func.return %0 : tensor<16x16xf32>
}
// CHECK:      cpu.kernel @packed0
// CHECK:        %[[SUMS:.*]] = memref.alloca()
// CHECK:        vector.broadcast %{{.*}} : f32 to vector<{{[0-9]+}}xf32>
// CHECK:            %[[LAST:.*]] = arith.cmpi eq, %{{.*}}, %{{.*}} : index
// CHECK-NEXT:       %[[FIRST:.*]] = arith.cmpi ult, %{{.*}}, %{{.*}} : index
// CHECK:            vector.fma
// CHECK:            scf.if %[[FIRST]]
// CHECK:              vector.load %[[SUMS]]
// CHECK:              arith.addf %{{.*}}, %{{.*}} : vector<{{[0-9]+}}xf32>
// CHECK:            scf.if %[[LAST]] {
// CHECK:              vector.store %{{.*}}, %2
// CHECK:            } else {
// CHECK:              vector.store %{{.*}}, %[[SUMS]]
