// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{only=inline,recompute,epilogue,prologue target=cpu}' | filecheck %s

// In native code, a load at a computed index is a branch and a load for each element, not for each vector: an operand
// that two products read, and that is put together of parts, is computed once.
func.func @parts(%x: tensor<2048x96xf32>, %y: tensor<2048x96xf32>, %w: tensor<192x96xf32>, %g: tensor<2048x96xf32>) -> (tensor<2048x96xf32>, tensor<192x96xf32>) {
  %zero = tg.constant value = dense<0.000000e+00> : tensor<f32>
  %0 = tg.pad %x, %zero low = [0, 0] high = [0, 96] interior = [0, 0] : tensor<2048x96xf32>, tensor<f32>
  %1 = tg.pad %y, %zero low = [0, 96] high = [0, 0] interior = [0, 0] : tensor<2048x96xf32>, tensor<f32>
  %2 = tg.add %0, %1 : tensor<2048x192xf32>, tensor<2048x192xf32>
  %3 = tg.dot_general %2, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<2048x192xf32>, tensor<192x96xf32>
  %4 = tg.dot_general %2, %g lhs_batch = [] rhs_batch = [] lhs_contracting = [0] rhs_contracting = [0] : tensor<2048x192xf32>, tensor<2048x96xf32>
  func.return %3, %4 : tensor<2048x96xf32>, tensor<192x96xf32>
}
// CHECK-LABEL: func.func @parts(
// CHECK: buf.kernel grid = [2048, 192] ins(%y, %x : memref<2048x96xf32>, memref<2048x96xf32>) outs(%2 : memref<2048x192xf32>) {
// CHECK: buf.kernel grid = [2048, 96] ins(%2, %w : memref<2048x192xf32>, memref<192x96xf32>) outs(%0 : memref<2048x96xf32>) {
// CHECK: buf.kernel grid = [192, 96] ins(%2, %g : memref<2048x192xf32>, memref<2048x96xf32>) outs(%1 : memref<192x96xf32>) {
// CHECK-NOT: buf.kernel
// CHECK: func.return

// An operand of as many loads in vectors is a prologue of both.
func.func @vectors(%x: tensor<2048x192xf32>, %y: tensor<2048x192xf32>, %w: tensor<192x96xf32>, %g: tensor<2048x96xf32>) -> (tensor<2048x96xf32>, tensor<192x96xf32>) {
  %0 = tg.add %x, %y : tensor<2048x192xf32>, tensor<2048x192xf32>
  %1 = tg.dot_general %0, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<2048x192xf32>, tensor<192x96xf32>
  %2 = tg.dot_general %0, %g lhs_batch = [] rhs_batch = [] lhs_contracting = [0] rhs_contracting = [0] : tensor<2048x192xf32>, tensor<2048x96xf32>
  func.return %1, %2 : tensor<2048x96xf32>, tensor<192x96xf32>
}
// CHECK-LABEL: func.func @vectors(
// CHECK: buf.kernel grid = [2048, 96] ins(%w, %x, %y : memref<192x96xf32>, memref<2048x192xf32>, memref<2048x192xf32>) outs(%0 : memref<2048x96xf32>) {
// CHECK: buf.kernel grid = [192, 96] ins(%g, %x, %y : memref<2048x96xf32>, memref<2048x192xf32>, memref<2048x192xf32>) outs(%1 : memref<192x96xf32>) {
// CHECK-NOT: buf.kernel
// CHECK: func.return
