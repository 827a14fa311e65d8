// RUN: tg-opt %s --split-input-file -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu' | filecheck %s

// A row that is repeated: the inner loop reads neighbours, where one loop divided each index.
func.func @repeated(%x: tensor<96xf32>) -> tensor<288xf32> {
  %0 = tg.broadcast %x shape = [3, 96] dims = [1] : tensor<96xf32>
  %1 = tg.reshape %0 shape = [288] : tensor<3x96xf32>
  func.return %1 : tensor<288xf32>
}
// CHECK-LABEL: cpu.kernel
// CHECK-DAG:     %[[ZERO:[0-9]+]] = arith.constant 0 : index
// CHECK-DAG:     %[[TIMES:[0-9]+]] = arith.constant 3 : index
// CHECK-DAG:     %[[ROW:[0-9]+]] = arith.constant 96 : index
// CHECK-NOT:     arith.remui
// CHECK:         scf.for %[[TIME:[0-9]+]] = %[[ZERO]] to %[[TIMES]]
// CHECK-NEXT:      %[[START:[0-9]+]] = arith.muli %[[TIME]], %[[ROW]]
// CHECK-NEXT:      scf.for %[[AT:[0-9]+]] = %[[ZERO]] to %[[ROW]]
// CHECK-NEXT:        %[[TO:[0-9]+]] = arith.addi %[[START]], %[[AT]]
// CHECK-NEXT:        %{{[0-9]+}} = memref.load %0[%[[AT]]]
// CHECK-NEXT:        memref.store %{{[0-9]+}}, %1[%[[TO]]]
// CHECK:         } {cpu.parallel}
// CHECK-NEXT:    } {cpu.parallel}
// CHECK-LABEL: func.func

// -----

// A short period isn't made a loop, which would fill no vector.
func.func @short(%x: tensor<6xf32>) -> tensor<288xf32> {
  %0 = tg.broadcast %x shape = [48, 6] dims = [1] : tensor<6xf32>
  %1 = tg.reshape %0 shape = [288] : tensor<48x6xf32>
  func.return %1 : tensor<288xf32>
}
// CHECK-LABEL: cpu.kernel
// CHECK-COUNT-1: scf.for
// CHECK:         arith.remui
// CHECK-NOT:     scf.for
// CHECK-LABEL: func.func
