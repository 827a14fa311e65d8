// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu' | filecheck %s

// Neighbouring positions are contiguous in an image: columns of windows are packed in runs, guarded at the borders. An
// iteration's columns, of all register blocks, are packed before the next one's: so images are read line by line. Vectors
// have windows of several images, since each has few.
func.func @windows(%x: tensor<16x2x3x4xf32>, %w: tensor<64x2x3x3xf32>) -> tensor<16x64x3x4xf32> {
  %0 = tg.conv %x, %w stride = [1, 1] low = [1, 1] high = [1, 1] lhs_dilation = [1, 1] rhs_dilation = [1, 1] groups = 1 : tensor<16x2x3x4xf32>, tensor<64x2x3x3xf32>
  func.return %0 : tensor<16x64x3x4xf32>
}
// CHECK:      cpu.kernel @packed0 access = ["read", "read", "read_write"] {
// CHECK-NEXT: ^bb0(%0: memref<384xf32>, %1: memref<1152xf32>, %2: memref<12288xf32>, %3: index, %4: index):
// CHECK:        scf.for %{{[0-9]+}} = %3 to %4 step %[[ONE:[0-9]+]] {
// CHECK-NEXT:     scf.for {{.*}} {
// CHECK:          } {cpu.parallel}
// CHECK-NEXT:     scf.for %[[STEP:[0-9]+]] = %[[ZERO:[0-9]+]] to %[[STEPS:[0-9]+]] step %[[ONE]] {
// CHECK-NEXT:       %{{[0-9]+}} = arith.addi %[[ZERO]], %[[STEP]] : index
// CHECK:            memref.store %{{[0-9]+}}, %[[CHANNEL:[0-9]+]][%[[STEP]]] : memref<18xi32>
// CHECK:            memref.store %{{[0-9]+}}, %[[DOWN:[0-9]+]][%[[STEP]]] : memref<18xi32>
// CHECK:            memref.store %{{[0-9]+}}, %[[ACROSS:[0-9]+]][%[[STEP]]] : memref<18xi32>
// CHECK-NEXT:     } {cpu.parallel}
// CHECK-NEXT:     scf.for %[[AT:[0-9]+]] = %[[ZERO]] to %[[STEPS]] step %[[ONE]] {
// CHECK-NEXT:       %[[START:[0-9]+]] = arith.muli %[[AT]], %[[WIDTH:[0-9]+]] : index
// CHECK-NEXT:       scf.for %[[NUMBER:[0-9]+]] = %[[ZERO]] to %{{[0-9]+}} step %[[ONE]] {
// CHECK-NEXT:         %[[FIRST:[0-9]+]] = arith.muli %[[NUMBER]], %[[WIDTH]] : index
// CHECK-NEXT:         %[[PANEL:[0-9]+]] = arith.muli %[[FIRST]], %[[STEPS]] : index
// CHECK-NEXT:         %[[CORNER:[0-9]+]] = arith.addi %[[PANEL]], %[[START]] : index
// CHECK-NEXT:         memref.load %[[CHANNEL]][%[[AT]]] {cpu.below = 2 : i32} : memref<18xi32>
// CHECK:              memref.load %[[DOWN]][%[[AT]]] {cpu.below = 3 : i32} : memref<18xi32>
// CHECK:              memref.load %[[ACROSS]][%[[AT]]] {cpu.below = 3 : i32} : memref<18xi32>
// CHECK:              scf.for %{{[0-9]+}} = {{.*}} {
// CHECK:                scf.for %[[PLACE:[0-9]+]] = {{.*}} {
// CHECK:                  %[[IN_ROWS:[0-9]+]] = arith.cmpi ult
// CHECK:                  %[[IN_ROW:[0-9]+]] = arith.cmpi ult
// CHECK-NEXT:             %[[INSIDE:[0-9]+]] = arith.andi %[[IN_ROWS]], %[[IN_ROW]] : i1
// CHECK:                  %{{[0-9]+}} = scf.if %[[INSIDE]] -> (f32) {
// CHECK-NEXT:               %[[ELEMENT:[0-9]+]] = memref.load %0[%{{[0-9]+}}] : memref<384xf32>
// CHECK-NEXT:               scf.yield %[[ELEMENT]] : f32
// CHECK-NEXT:             } else {
// CHECK:                  %[[VALUE:[0-9]+]] = arith.select %[[INSIDE]]
// CHECK-NEXT:             %[[TO:[0-9]+]] = arith.addi %[[CORNER]], %[[PLACE]] : index
// CHECK-NEXT:             memref.store %[[VALUE]], %[[PACKED:[0-9]+]][%[[TO]]] : memref<3456xf32>
// CHECK-NEXT:           } {cpu.parallel}
// CHECK:          vector.load %[[PACKED]]
// CHECK:          vector.fma
// CHECK:        buf.dispatch @packed0 workgroups = [1, 1, 1]
