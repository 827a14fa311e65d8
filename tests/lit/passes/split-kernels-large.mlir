// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse,split-kernels{target="{\"max_storage_buffers_per_shader_stage\": 3, \"max_storage_buffer_binding_size\": 24, \"min_storage_buffer_offset_alignment\": 4}"}' | filecheck %s

// A result of 96 bytes takes four bindings. A part that writes one of them reads at most two of the inputs, so the
// kernel is not split: `cut-grids` divides it.
func.func @large(%a: tensor<6xf32>, %b: tensor<6xf32>, %c: tensor<12xf32>) -> tensor<24xf32> {
  %0 = tg.concat %a, %b, %c axis = 0 : tensor<6xf32>, tensor<6xf32>, tensor<12xf32>
  func.return %0 : tensor<24xf32>
}
// CHECK-LABEL: func.func @large(
// CHECK: buf.kernel grid = [24] ins(%a, %b, %c : memref<6xf32>, memref<6xf32>, memref<12xf32>) outs(%0 : memref<24xf32>) {
// CHECK-NOT: buf.kernel
