// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse,split-kernels{target="{\"max_storage_buffers_per_shader_stage\": 3, \"max_storage_buffer_binding_size\": 24}"}' | filecheck %s
// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse,split-kernels' | filecheck %s --check-prefix ENOUGH

// Conditions select which of three operands to read. The first kernel reads two of them, and yields zeros in place of
// the third; the second kernel reads the third, and the result of the first kernel in place of the other two.
func.func @join(%a: tensor<2xf32>, %b: tensor<2xf32>, %c: tensor<2xf32>) -> tensor<6xf32> {
  %0 = tg.concat %a, %b, %c axis = 0 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
  func.return %0 : tensor<6xf32>
}
// CHECK-LABEL: func.func @join(
// CHECK-NEXT: %1 = memref.alloc() : memref<6xf32>
// CHECK-NEXT: buf.kernel grid = [6] ins(%a, %b : memref<2xf32>, memref<2xf32>) outs(%1 : memref<6xf32>) {
// CHECK: memref.load
// CHECK: memref.load
// CHECK: %17 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT: scf.yield %17 : f32
// CHECK: buf.kernel grid = [6] ins(%1, %c : memref<6xf32>, memref<2xf32>) outs(%0 : memref<6xf32>) {
// CHECK: ins(%2 : memref<6xf32>) outs(%4 : memref<6xf32>) {
// CHECK-NEXT: ^bb0(%5: f32, %6: f32):
// CHECK: scf.yield %5 : f32
// CHECK: scf.yield %5 : f32
// CHECK: %16 = memref.load %3[%15] : memref<2xf32>
// CHECK: func.return
// ENOUGH-LABEL: func.func @join(
// ENOUGH: buf.kernel grid = [6] ins(%a, %b, %c :
// ENOUGH-NOT: buf.kernel

// A kernel of several stages is split after the exponential, whose result is stored anyway.
func.func @stages(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = tg.sum %x axes = [1] : tensor<2x3xf32>
  %1 = tg.exp %0 : tensor<2xf32>
  %2 = tg.max %y axes = [1] : tensor<2x3xf32>
  %3 = tg.mul %1, %2 : tensor<2xf32>, tensor<2xf32>
  func.return %1, %3 : tensor<2xf32>, tensor<2xf32>
}
// CHECK-LABEL: func.func @stages(
// CHECK: buf.kernel grid = [2] ins(%x : memref<2x3xf32>) outs(%0 : memref<2xf32>) {
// CHECK: math.exp
// CHECK: buf.kernel grid = [2] ins(%y, %0 : memref<2x3xf32>, memref<2xf32>) outs(%1 : memref<2xf32>) {
// ENOUGH-LABEL: func.func @stages(
// ENOUGH: buf.kernel grid = [2] ins(%x, %y : memref<2x3xf32>, memref<2x3xf32>) outs(%0, %1 :
