// RUN: tg-opt %s --split-input-file -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu' | filecheck %s

// A concatenation along channels asks once for each image; its rows and columns, places of loads only, are one loop.
func.func @channels(%x: tensor<2x3x4x5xf32>, %y: tensor<2x4x4x5xf32>) -> tensor<2x7x4x5xf32> {
  %0 = tg.concat %x, %y axis = 1 : tensor<2x3x4x5xf32>, tensor<2x4x4x5xf32>
  func.return %0 : tensor<2x7x4x5xf32>
}
// CHECK-LABEL: cpu.kernel
// CHECK:      %[[POINTS:[0-9]+]] = arith.constant 20 : index
// CHECK:      scf.for %[[IMAGE:[0-9]+]] =
// CHECK:        %[[IS_FIRST:[0-9]+]] = arith.cmpi ult
// CHECK:        scf.if %[[IS_FIRST]] {
// CHECK:          scf.for %{{[0-9]+}} = %{{[0-9]+}} to %[[POINTS]]
// CHECK-NOT:        scf.if
// CHECK:            memref.load %0[
// CHECK:          } {cpu.parallel}
// CHECK-NEXT:   } else {
// CHECK:          scf.for %{{[0-9]+}} = %{{[0-9]+}} to %[[POINTS]]
// CHECK-NOT:        scf.if
// CHECK:            memref.load %1[
// CHECK:          } {cpu.parallel}
// CHECK-NEXT:   }

// -----

// Of three parts, the second condition is asked where the first does not hold.
func.func @three(%x: tensor<3x20xf32>, %y: tensor<4x20xf32>, %z: tensor<5x20xf32>) -> tensor<12x20xf32> {
  %0 = tg.concat %x, %y, %z axis = 0 : tensor<3x20xf32>, tensor<4x20xf32>, tensor<5x20xf32>
  func.return %0 : tensor<12x20xf32>
}
// CHECK-LABEL: cpu.kernel
// CHECK:       scf.if
// CHECK:         scf.for
// CHECK:           memref.load %0[
// CHECK:       } else {
// CHECK:         scf.if
// CHECK:           scf.for
// CHECK:             memref.load %1[
// CHECK:         } else {
// CHECK:           scf.for
// CHECK-NOT:         scf.if
// CHECK:             memref.load %2[

// -----

// Along the last axis, each point has a condition of its own: a long loop is split, see split_loops.mlir.
func.func @last(%x: tensor<6x10xf32>, %y: tensor<6x15xf32>) -> tensor<6x25xf32> {
  %0 = tg.concat %x, %y axis = 1 : tensor<6x10xf32>, tensor<6x15xf32>
  func.return %0 : tensor<6x25xf32>
}
// CHECK-LABEL: cpu.kernel
// CHECK:       scf.for
// CHECK-NOT:     scf.if
// CHECK:         scf.for
// CHECK:           scf.if

// -----

// Two conditions would make four loops, and so on: both stay.
func.func @several(%x: tensor<3x20xf32>, %y: tensor<4x20xf32>, %z: tensor<5x20xf32>, %w: tensor<2x20xf32>) -> tensor<7x20xf32> {
  %0 = tg.concat %x, %y axis = 0 : tensor<3x20xf32>, tensor<4x20xf32>
  %1 = tg.concat %z, %w axis = 0 : tensor<5x20xf32>, tensor<2x20xf32>
  %2 = tg.mul %0, %1 : tensor<7x20xf32>, tensor<7x20xf32>
  func.return %2 : tensor<7x20xf32>
}
// CHECK-LABEL: cpu.kernel
// CHECK:       scf.for
// CHECK-NOT:     scf.if
// CHECK:         scf.for
// CHECK:           scf.if
// CHECK:           scf.if

// -----

// A loop that carries a sum stays one.
func.func @summed(%x: tensor<3x40xf32>, %y: tensor<4x40xf32>, %z: tensor<7x40xf32>) -> tensor<7xf32> {
  %0 = tg.concat %x, %y axis = 0 : tensor<3x40xf32>, tensor<4x40xf32>
  %1 = tg.mul %0, %z : tensor<7x40xf32>, tensor<7x40xf32>
  %2 = tg.sum %1 axes = [1] : tensor<7x40xf32>
  func.return %2 : tensor<7xf32>
}
// CHECK-LABEL: cpu.kernel
// CHECK:       scf.for
// CHECK:         scf.for {{.*}} iter_args
// CHECK:           scf.if
