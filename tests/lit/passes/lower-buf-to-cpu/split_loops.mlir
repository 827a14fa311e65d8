// RUN: tg-opt %s --split-input-file -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu' | filecheck %s

// A concatenation along rows: each part has a loop of its own.
func.func @parts(%x: tensor<8x40xf32>, %y: tensor<8x30xf32>, %z: tensor<8x50xf32>) -> tensor<8x120xf32> {
  %0 = tg.concat %x, %y, %z axis = 1 : tensor<8x40xf32>, tensor<8x30xf32>, tensor<8x50xf32>
  func.return %0 : tensor<8x120xf32>
}
// CHECK-LABEL: cpu.kernel
// CHECK-DAG:     %[[ZERO:[0-9]+]] = arith.constant 0 : index
// CHECK-DAG:     %[[ALL:[0-9]+]] = arith.constant 120 : index
// CHECK-DAG:     %[[ONE:[0-9]+]] = arith.constant 40 : index
// CHECK-DAG:     %[[TWO:[0-9]+]] = arith.constant 70 : index
// CHECK-NOT:     scf.if
// CHECK:         scf.for %{{[0-9]+}} = %[[ZERO]] to %[[ONE]]
// CHECK:           memref.load %0[
// CHECK:         } {cpu.parallel}
// CHECK-NOT:     scf.if
// CHECK:         scf.for %{{[0-9]+}} = %[[ONE]] to %[[TWO]]
// CHECK:           memref.load %1[
// CHECK:         } {cpu.parallel}
// CHECK-NOT:     scf.if
// CHECK:         scf.for %{{[0-9]+}} = %[[TWO]] to %[[ALL]]
// CHECK:           memref.load %2[
// CHECK:         } {cpu.parallel}
// CHECK-NOT:     scf.if
// CHECK-LABEL: func.func

// -----

// A padded row: nothing is loaded before and behind it.
func.func @padded(%x: tensor<100xf32>) -> tensor<110xf32> {
  %zero = tg.constant value = dense<0.0> : tensor<f32>
  %0 = tg.pad %x, %zero low = [3] high = [7] interior = [0] : tensor<100xf32>, tensor<f32>
  func.return %0 : tensor<110xf32>
}
// CHECK-LABEL: cpu.kernel
// CHECK-DAG:     %[[ZERO:[0-9]+]] = arith.constant 0 : index
// CHECK-DAG:     %[[ALL:[0-9]+]] = arith.constant 110 : index
// CHECK-DAG:     %[[FIRST:[0-9]+]] = arith.constant 3 : index
// CHECK-DAG:     %[[LAST:[0-9]+]] = arith.constant 103 : index
// CHECK:         scf.for %{{[0-9]+}} = %[[ZERO]] to %[[FIRST]]
// CHECK-NOT:       memref.load
// CHECK:         scf.for %{{[0-9]+}} = %[[FIRST]] to %[[LAST]]
// CHECK:           memref.load
// CHECK:         scf.for %{{[0-9]+}} = %[[LAST]] to %[[ALL]]
// CHECK-NOT:       memref.load
// CHECK-LABEL: func.func

// -----

// A block begins and ends at run time, and so do the parts of it.
func.func @blocks(%x: tensor<20000xf32>, %y: tensor<30000xf32>) -> tensor<50000xf32> {
  %0 = tg.concat %x, %y axis = 0 : tensor<20000xf32>, tensor<30000xf32>
  func.return %0 : tensor<50000xf32>
}
// CHECK-LABEL: cpu.kernel
// CHECK-DAG:     %[[BOUND:[0-9]+]] = arith.constant 20000 : index
// CHECK:         %[[MOST:[0-9]+]] = arith.minui %[[BOUND]], %[[HIGH:[0-9]+]] : index
// CHECK-NEXT:    %[[MIDDLE:[0-9]+]] = arith.maxui %[[MOST]], %[[LOW:[0-9]+]] : index
// CHECK:         scf.for %{{[0-9]+}} = %[[LOW]] to %[[MIDDLE]]
// CHECK:           memref.load %0[
// CHECK:         scf.for %{{[0-9]+}} = %[[MIDDLE]] to %[[HIGH]]
// CHECK:           memref.load %1[
// CHECK-LABEL: func.func

// -----

// A short row has one loop, of few vectors.
func.func @short(%x: tensor<8x10xf32>, %y: tensor<8x10xf32>) -> tensor<8x20xf32> {
  %0 = tg.concat %x, %y axis = 1 : tensor<8x10xf32>, tensor<8x10xf32>
  func.return %0 : tensor<8x20xf32>
}
// CHECK-LABEL: cpu.kernel
// CHECK:         scf.if
// CHECK-LABEL: func.func
