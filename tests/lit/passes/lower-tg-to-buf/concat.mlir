// RUN: tg-opt %s -p lower-tg-to-buf | filecheck %s

// The operand that has an element is searched for by halves.
func.func @f(%a: tensor<2xf32>, %b: tensor<3xf32>, %c: tensor<4xf32>, %d: tensor<5xf32>) -> tensor<14xf32> {
  %0 = tg.concat %a, %b, %c, %d axis = 0 : tensor<2xf32>, tensor<3xf32>, tensor<4xf32>, tensor<5xf32>
  func.return %0 : tensor<14xf32>
}

// CHECK:      [[INDEX:%.+]] = linalg.index 0 : index
// CHECK:      arith.constant 5 : index
// CHECK:      scf.if
// CHECK:        arith.constant 2 : index
// CHECK:        scf.if
// CHECK:          memref.load %1[
// CHECK:        } else {
// CHECK:          memref.load %2[
// CHECK:      } else {
// CHECK:        arith.constant 9 : index
// CHECK:        scf.if
// CHECK:          memref.load %3[
// CHECK:        } else {
// CHECK:          memref.load %4[
