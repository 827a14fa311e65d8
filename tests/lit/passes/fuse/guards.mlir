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
