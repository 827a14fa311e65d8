// RUN: tg-opt %s --split-input-file -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu' | filecheck %s

// A channel's images are contiguous, each: their rows and columns are one loop. The images of a channel are apart.
func.func @images(%x: tensor<4x3x8x8xf32>) -> tensor<3xf32> {
  %0 = tg.sum %x axes = [0, 2, 3] : tensor<4x3x8x8xf32>
  func.return %0 : tensor<3xf32>
}
// CHECK-LABEL: cpu.kernel
// CHECK:       %[[IMAGES:[0-9]+]] = arith.constant 4 : index
// CHECK:       %[[POINTS:[0-9]+]] = arith.constant 64 : index
// CHECK:       %[[STRIDE:[0-9]+]] = arith.constant 192 : index
// CHECK:       scf.for
// CHECK-NEXT:    muli %{{[0-9]+}}, %[[POINTS]]
// CHECK-NEXT:    scf.for %[[IMAGE:[0-9]+]] = %{{[0-9]+}} to %[[IMAGES]]
// CHECK-NEXT:      %[[OFFSET:[0-9]+]] = arith.muli %[[IMAGE]], %[[STRIDE]]
// CHECK-NEXT:      %[[START:[0-9]+]] = arith.addi %{{[0-9]+}}, %[[OFFSET]]
// CHECK-NEXT:      scf.for %[[POINT:[0-9]+]] = %{{[0-9]+}} to %[[POINTS]]
// CHECK-NEXT:        %[[PLACE:[0-9]+]] = arith.addi %[[START]], %[[POINT]]
// CHECK-NEXT:        memref.load %0[%[[PLACE]]]

// -----

// One of the operands is transposed: the loops walk the other as one, but not that.
func.func @transposed(%x: tensor<3x8x8xf32>, %y: tensor<8x8x3xf32>) -> tensor<3xf32> {
  %0 = tg.transpose %y permutation = [2, 1, 0] : tensor<8x8x3xf32>
  %1 = tg.mul %x, %0 : tensor<3x8x8xf32>, tensor<3x8x8xf32>
  %2 = tg.sum %1 axes = [1, 2] : tensor<3x8x8xf32>
  func.return %2 : tensor<3xf32>
}
// CHECK-LABEL: cpu.kernel
// CHECK:       %[[EXTENT:[0-9]+]] = arith.constant 8 : index
// CHECK:       scf.for
// CHECK:         scf.for %{{[0-9]+}} = %{{[0-9]+}} to %[[EXTENT]]
// CHECK:           scf.for %{{[0-9]+}} = %{{[0-9]+}} to %[[EXTENT]]

// -----

// The body compares the indices of the loops, which a merged one would have to divide.
func.func @triangle(%x: tensor<3x8x8xf32>) -> tensor<3xf32> {
  %0 = tg.iota shape = [3, 8, 8] axis = 1 element = i32
  %1 = tg.iota shape = [3, 8, 8] axis = 2 element = i32
  %2 = tg.compare %0, %1 predicate = "lt" : tensor<3x8x8xi32>, tensor<3x8x8xi32>
  %3 = tg.constant value = dense<0.0> : tensor<3x8x8xf32>
  %4 = tg.select %2, %x, %3 : tensor<3x8x8xi1>, tensor<3x8x8xf32>, tensor<3x8x8xf32>
  %5 = tg.sum %4 axes = [1, 2] : tensor<3x8x8xf32>
  func.return %5 : tensor<3xf32>
}
// CHECK-LABEL: cpu.kernel
// CHECK:       %[[EXTENT:[0-9]+]] = arith.constant 8 : index
// CHECK:       scf.for
// CHECK:         scf.for %[[ROW:[0-9]+]] = %{{[0-9]+}} to %[[EXTENT]]
// CHECK:           scf.for %[[COLUMN:[0-9]+]] = %{{[0-9]+}} to %[[EXTENT]]
// CHECK-NOT:         divui
// CHECK:             arith.cmpi

// -----

// Points whose operands are all walked in one go are one loop over the whole grid.
func.func @sums(%x: tensor<4x3x8x8xf32>, %y: tensor<4x3x8x8xf32>) -> tensor<4x3x8x8xf32> {
  %0 = tg.add %x, %y : tensor<4x3x8x8xf32>, tensor<4x3x8x8xf32>
  func.return %0 : tensor<4x3x8x8xf32>
}
// CHECK-LABEL: cpu.kernel
// CHECK:       %[[ALL:[0-9]+]] = arith.constant 768 : index
// CHECK:       scf.for
// CHECK-NEXT:    scf.for %[[POINT:[0-9]+]] = %{{[0-9]+}} to %[[ALL]]
// CHECK-NEXT:      memref.load %0[%[[POINT]]]
// CHECK-NEXT:      memref.load %1[%[[POINT]]]

// -----

// A value for each channel: images are one loop each.
func.func @channels(%x: tensor<4x3x8x8xf32>, %b: tensor<3xf32>) -> tensor<4x3x8x8xf32> {
  %0 = tg.broadcast %b shape = [4, 3, 8, 8] dims = [1] : tensor<3xf32>
  %1 = tg.add %x, %0 : tensor<4x3x8x8xf32>, tensor<4x3x8x8xf32>
  func.return %1 : tensor<4x3x8x8xf32>
}
// CHECK-LABEL: cpu.kernel
// CHECK:       %[[POINTS:[0-9]+]] = arith.constant 64 : index
// CHECK:       %[[CHANNELS:[0-9]+]] = arith.constant 3 : index
// CHECK:       scf.for %[[IMAGE:[0-9]+]] =
// CHECK-NEXT:    %[[START:[0-9]+]] = arith.muli %[[IMAGE]], %[[POINTS]]
// CHECK-NEXT:    %[[CHANNEL:[0-9]+]] = arith.remui %[[IMAGE]], %[[CHANNELS]]
// CHECK-NEXT:    %[[ADDED:[0-9]+]] = memref.load %1[%[[CHANNEL]]]
// CHECK-NEXT:    scf.for %[[POINT:[0-9]+]] = %{{[0-9]+}} to %[[POINTS]]
// CHECK-NEXT:      %[[PLACE:[0-9]+]] = arith.addi %[[START]], %[[POINT]]
// CHECK-NEXT:      %[[VALUE:[0-9]+]] = memref.load %0[%[[PLACE]]]
// CHECK-NEXT:      arith.addf %[[VALUE]], %[[ADDED]]

// -----

// The index of the columns alone keeps them apart from the rows.
func.func @left(%x: tensor<3x8x8xf32>) -> tensor<3xf32> {
  %0 = tg.iota shape = [3, 8, 8] axis = 2 element = f32
  %1 = tg.mul %x, %0 : tensor<3x8x8xf32>, tensor<3x8x8xf32>
  %2 = tg.sum %1 axes = [1, 2] : tensor<3x8x8xf32>
  func.return %2 : tensor<3xf32>
}
// CHECK-LABEL: cpu.kernel
// CHECK:       scf.for
// CHECK:         scf.for
// CHECK:           scf.for
