// RUN: tg-opt %s -p lower-tg-to-buf,schedule,plan-memory,lower-buf-to-wgsl --split-input-file | filecheck %s

// The index is a constant that is out of range: the guard is folded, and nothing is loaded.
func.func @outside(%x: tensor<1xf32>) -> tensor<1xf32> {
  %0 = tg.constant value = dense<2> : tensor<1xi32>
  %1 = tg.take %x, %0 axis = 0 : tensor<1xf32>, tensor<1xi32>
  func.return %1 : tensor<1xf32>
}
// CHECK-LABEL: wgsl.kernel @thread0
// CHECK-NOT:     scf.if
// CHECK-NOT:     memref.load
// CHECK:         %[[NAN:.*]] = arith.constant 0x7fc00000 : f32
// CHECK:         memref.store %[[NAN]]

// -----

// The guard differs between the two invocations, so it is evaluated at run time.
func.func @inside(%x: tensor<1xf32>, %y: tensor<1xf32>) -> tensor<2xf32> {
  %0 = tg.concat %x, %y axis = 0 : tensor<1xf32>, tensor<1xf32>
  func.return %0 : tensor<2xf32>
}
// CHECK-LABEL: wgsl.kernel @thread0
// CHECK:         %[[HERE:.*]] = arith.cmpi ult
// CHECK:         scf.if %[[HERE]] -> (f32) {
// CHECK-NEXT:      memref.load %0
// CHECK:         } else {
// CHECK:           memref.load %1
