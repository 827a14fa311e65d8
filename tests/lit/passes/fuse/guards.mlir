// RUN: tg-opt %s -p lower-tg-to-buf,fuse --split-input-file | filecheck %s

// A slice of a concatenation reads only the part that it lies in. The other part is no longer an operand, and its sum
// is dead code.
func.func @last(%x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<1xf32> {
  %0 = tg.sum %x axes = [0] : tensor<3xf32>
  %1 = tg.broadcast %0 shape = [3] dims = [] : tensor<f32>
  %2 = tg.mul %1, %y : tensor<3xf32>, tensor<3xf32>
  %3 = tg.concat %2, %y axis = 0 : tensor<3xf32>, tensor<3xf32>
  %4 = tg.slice %3 start = [5] stop = [6] step = [1] : tensor<6xf32>
  %5 = tg.exp %4 : tensor<1xf32>
  func.return %5 : tensor<1xf32>
}
// CHECK-LABEL: func.func @last
// CHECK:         buf.kernel grid = [] ins(%{{.*}} : memref<3xf32>) outs(%{{.*}} : memref<1xf32>)
// CHECK-NOT:     scf.if
// CHECK-NOT:     buf.kernel

// -----

// A condition also folds if a range of indices implies it: rows 4 and 5 of the padded array lie in the padding.
func.func @tail(%x: tensor<3x8xf32>, %fill: tensor<f32>) -> tensor<2x8xf32> {
  %0 = tg.pad %x, %fill low = [1, 0] high = [2, 0] interior = [0, 0] : tensor<3x8xf32>, tensor<f32>
  %1 = tg.slice %0 start = [4, 0] stop = [6, 8] step = [1, 1] : tensor<6x8xf32>
  %2 = tg.exp %1 : tensor<2x8xf32>
  func.return %2 : tensor<2x8xf32>
}
// CHECK-LABEL: func.func @tail
// CHECK:         buf.kernel grid = [2, 8] ins(%{{.*}} : memref<f32>) outs(%{{.*}} : memref<2x8xf32>)
// CHECK-NOT:     scf.if

// -----

// Where padding asks whether an element exists, a channel's factor does: it is an operand. The other side's doesn't.
func.func @channels(%x: tensor<4x6xf32>, %s: tensor<4xf32>, %t: tensor<6xf32>, %fill: tensor<f32>) -> tensor<4x8xf32> {
  %0 = tg.broadcast %s shape = [4, 6] dims = [0] : tensor<4xf32>
  %1 = tg.mul %x, %0 : tensor<4x6xf32>, tensor<4x6xf32>
  %2 = tg.broadcast %t shape = [4, 6] dims = [1] : tensor<6xf32>
  %3 = tg.add %1, %2 : tensor<4x6xf32>, tensor<4x6xf32>
  %4 = tg.pad %3, %fill low = [0, 1] high = [0, 1] interior = [0, 0] : tensor<4x6xf32>, tensor<f32>
  func.return %4 : tensor<4x8xf32>
}
// CHECK-LABEL: func.func @channels
// CHECK:       ^bb0(%[[FILL:[0-9]+]]: memref<f32>, %[[S:[0-9]+]]: memref<4xf32>, %[[T:[0-9]+]]: memref<6xf32>, %[[X:[0-9]+]]: memref<4x6xf32>,
// CHECK-NEXT:    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> ()>, affine_map<(d0, d1) -> (d0)>, {{.*}} ins(%[[FILL]], %[[S]] :
// CHECK-NEXT:    ^bb0(%{{[0-9]+}}: f32, %[[FACTOR:[0-9]+]]: f32,
// CHECK:           scf.if
// CHECK-NEXT:        memref.load %[[T]]
// CHECK-NEXT:        %[[ELEMENT:[0-9]+]] = memref.load %[[X]]
// CHECK-NEXT:        arith.mulf %[[ELEMENT]], %[[FACTOR]]
