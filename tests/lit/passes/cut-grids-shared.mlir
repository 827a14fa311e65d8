// RUN: tg-opt %s -p 'lower-tg-to-buf,schedule,share-dispatches,plan-memory' | filecheck %s --check-prefix BEFORE
// RUN: tg-opt %s -p 'lower-tg-to-buf,schedule,share-dispatches,plan-memory,cut-grids{target="{\"max_storage_buffer_binding_size\": 600, \"max_storage_buffers_per_shader_stage\": 4}"}' | filecheck %s

// Each of the two sums needs three bindings; together they need six, but there are four: their dispatch is dissolved.
func.func @apart(%x: tensor<18x16xf32>, %y: tensor<18x16xf32>) -> (tensor<18xf32>, tensor<18xf32>) {
  %0 = tg.sum %x axes = [1] : tensor<18x16xf32>
  %1 = tg.sum %y axes = [1] : tensor<18x16xf32>
  func.return %0, %1 : tensor<18xf32>, tensor<18xf32>
}
// BEFORE-LABEL: func.func @apart(
// BEFORE: buf.kernel grid = [18] {{.*}} dispatch = 0
// BEFORE: buf.kernel grid = [18] {{.*}} dispatch = 0
// CHECK-LABEL: func.func @apart(
// CHECK-NOT: dispatch =
// CHECK: buf.kernel grid = [18] ins(%x : memref<18x16xf32>)
// CHECK-NOT: dispatch =
// CHECK: buf.kernel grid = [18] ins(%y : memref<18x16xf32>)
// CHECK-NOT: dispatch =
// CHECK-NOT: buf.kernel
