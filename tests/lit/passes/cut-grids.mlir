// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{target="{\"max_storage_buffer_binding_size\": 600, \"max_storage_buffers_per_shader_stage\": 4}"},schedule,plan-memory,cut-grids{target="{\"max_storage_buffer_binding_size\": 600, \"max_storage_buffers_per_shader_stage\": 4}"}' | filecheck %s
// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse,schedule,plan-memory,cut-grids' | filecheck %s --check-prefix ROOMY
// RUN: not tg-opt %s -p cut-grids 2>&1 | filecheck %s --check-prefix LEVEL

// LEVEL: cut-grids expects a module at level buf with a memory plan, this one is at level tg
// ROOMY-NOT: buf.value

// A binding holds nine rows of 64 bytes, but the next binding may only start after eight, at an aligned offset. Uncut,
// three buffers of ten rows would take six bindings, but there are four.
func.func @rows(%x: tensor<10x16xf32>, %y: tensor<10x16xf32>, %row: tensor<16xf32>) -> tensor<10x16xf32> {
  %0 = tg.broadcast %row shape = [10, 16] dims = [1] : tensor<16xf32>
  %1 = tg.mul %x, %0 : tensor<10x16xf32>, tensor<10x16xf32>
  %2 = tg.add %1, %y : tensor<10x16xf32>, tensor<10x16xf32>
  func.return %2 : tensor<10x16xf32>
}
// CHECK-LABEL: func.func @rows(
// CHECK: %x = buf.view %0[0] attributes {tg.name = "arg0", tg.role = "input", buf.value = 1 : i64}
// CHECK-NEXT: %1 = buf.view %0[512] attributes {buf.value = 1 : i64} : memref<1600xi8> to memref<2x16xf32>
// CHECK-NEXT: %2 = buf.view %0[0] attributes {buf.value = 1 : i64} : memref<1600xi8> to memref<8x16xf32>
// CHECK: buf.kernel grid = [8, 16] ins(%4, %2, %row : memref<8x16xf32>, memref<8x16xf32>, memref<16xf32>) outs(%8 : memref<8x16xf32>) schedule = #buf.schedule<thread, workgroup = [64, 1, 1], groups = [2, 1, 1]>
// CHECK: buf.kernel grid = [2, 16] ins(%3, %1, %row : memref<2x16xf32>, memref<2x16xf32>, memref<16xf32>) outs(%7 : memref<2x16xf32>) schedule = #buf.schedule<thread, workgroup = [64, 1, 1], groups = [1, 1, 1]>
// CHECK-NOT: buf.kernel

// The second part adds the row at which it starts to `linalg.index`.
func.func @positions(%x: tensor<10x16xf32>, %y: tensor<10x16xf32>) -> tensor<10x16xf32> {
  %0 = tg.iota shape = [10, 16] axis = 0 element = f32
  %1 = tg.mul %x, %0 : tensor<10x16xf32>, tensor<10x16xf32>
  %2 = tg.add %1, %y : tensor<10x16xf32>, tensor<10x16xf32>
  func.return %2 : tensor<10x16xf32>
}
// CHECK-LABEL: func.func @positions(
// CHECK: buf.kernel grid = [8, 16]
// CHECK: %15 = linalg.index 0 : index
// CHECK-NEXT: %16 = arith.index_cast %15 : index to i32
// CHECK: buf.kernel grid = [2, 16]
// CHECK: %15 = linalg.index 0 : index
// CHECK-NEXT: %16 = affine.apply affine_map<(d0) -> ((d0 + 8))> (%15)
// CHECK-NEXT: %17 = arith.index_cast %16 : index to i32

// Outputs are windows too, here at an unaligned offset: the whole buffer fits one binding.
func.func @sums(%x: tensor<10x16xf32>, %y: tensor<10x16xf32>) -> tensor<10xf32> {
  %0 = tg.mul %x, %y : tensor<10x16xf32>, tensor<10x16xf32>
  %1 = tg.sum %0 axes = [1] : tensor<10x16xf32>
  func.return %1 : tensor<10xf32>
}
// CHECK-LABEL: func.func @sums(
// CHECK: %7 = buf.view %5[32] attributes {buf.value = 8 : i64} : memref<40xi8> to memref<2xf32>
// CHECK: buf.kernel grid = [8] {{.*}} outs(%8 : memref<8xf32>)
// CHECK: buf.kernel grid = [2] {{.*}} outs(%7 : memref<2xf32>)

// No grid loop indexes the rows of the sum, so the product is not fused: its kernel is cut, and the sum reads it whole.
func.func @columns(%x: tensor<10x16xf32>, %y: tensor<10x16xf32>) -> tensor<16xf32> {
  %0 = tg.mul %x, %y : tensor<10x16xf32>, tensor<10x16xf32>
  %1 = tg.sum %0 axes = [0] : tensor<10x16xf32>
  func.return %1 : tensor<16xf32>
}
// CHECK-LABEL: func.func @columns(
// CHECK: buf.kernel grid = [8, 16]
// CHECK: buf.kernel grid = [2, 16]
// CHECK: buf.kernel grid = [16] ins(%8 : memref<10x16xf32>) outs(%6 : memref<16xf32>)
