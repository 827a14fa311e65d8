// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu' | filecheck %s

// The trip count of the loop over updates is loaded from memory: it is interchanged with the loop over columns.
func.func @rows(%u: tensor<40x16xf32>, %i: tensor<40xi32>, %x: tensor<500x16xf32>) -> tensor<500x16xf32> {
  %0 = tg.scatter_add %u, %i axis = 0 extent = 500 : tensor<40x16xf32>, tensor<40xi32>
  %1 = tg.mul %0, %x : tensor<500x16xf32>, tensor<500x16xf32>
  func.return %1 : tensor<500x16xf32>
}
// CHECK:      cpu.kernel @loops3 access = ["read", "read", "read", "read", "read_write"] {
// CHECK-NEXT: ^bb0(%[[X:.*]]: memref<8000xf32>, %[[STARTS:.*]]: memref<501xi32>, %[[ORDER:.*]]: memref<40xi32>, %[[UPDATES:.*]]: memref<640xf32>, %[[OUT:.*]]: memref<8000xf32>, %{{.*}}: index, %{{.*}}: index):
// CHECK-NEXT:   %[[SUMS:.*]] = memref.alloca() : memref<16xf32>
// CHECK:        scf.for %[[ROW:.*]] = %{{.*}} to %{{.*}} step %{{.*}} {
// CHECK:          %{{.*}} = memref.load %[[STARTS]][%[[ROW]]] : memref<501xi32>
// CHECK-NEXT:     arith.addi %[[ROW]]
// CHECK-NEXT:     %{{.*}} = memref.load %[[STARTS]]
// CHECK-NEXT:     %[[LOW:.*]] = arith.index_cast
// CHECK-NEXT:     %[[HIGH:.*]] = arith.index_cast
// CHECK-NEXT:     scf.for %[[C0:.*]] = %{{.*}} to %{{.*}} step %{{.*}} {
// CHECK-NEXT:       memref.store %{{.*}}, %[[SUMS]][%[[C0]]] : memref<16xf32>
// CHECK-NEXT:     } {cpu.parallel}
// CHECK-NEXT:     scf.for %[[TERM:.*]] = %[[LOW]] to %[[HIGH]] step %{{.*}} {
// CHECK-NEXT:       scf.for %[[C1:.*]] = %{{.*}} to %{{.*}} step %{{.*}} {
// CHECK-NEXT:         %[[SUM:.*]] = memref.load %[[SUMS]][%[[C1]]] : memref<16xf32>
// CHECK-NEXT:         memref.load %[[ORDER]][%[[TERM]]] : memref<40xi32>
// CHECK:              %[[UPDATE:.*]] = memref.load %[[UPDATES]]
// CHECK-NEXT:         %[[NEXT:.*]] = arith.addf %[[SUM]], %[[UPDATE]] : f32
// CHECK-NEXT:         memref.store %[[NEXT]], %[[SUMS]][%[[C1]]] : memref<16xf32>
// CHECK-NEXT:       } {cpu.parallel}
// CHECK-NEXT:     }
// CHECK-NEXT:     scf.for %[[C2:.*]] = %{{.*}} to %{{.*}} step %{{.*}} {
// CHECK-NEXT:       %[[TOTAL:.*]] = memref.load %[[SUMS]][%[[C2]]] : memref<16xf32>
// CHECK:            arith.mulf %[[TOTAL]]
// CHECK-NEXT:       memref.store %{{.*}}, %[[OUT]]
// CHECK-NEXT:     } {cpu.parallel}
// CHECK-NEXT:   }
