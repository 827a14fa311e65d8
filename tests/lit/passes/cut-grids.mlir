// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{target="{\"max_storage_buffer_binding_size\": 600, \"max_storage_buffers_per_shader_stage\": 4}"},schedule,plan-memory,cut-grids{target="{\"max_storage_buffer_binding_size\": 600, \"max_storage_buffers_per_shader_stage\": 4}"}' | filecheck %s
// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse,schedule,plan-memory,cut-grids' | filecheck %s --check-prefix ROOMY
// RUN: not tg-opt %s -p cut-grids 2>&1 | filecheck %s --check-prefix LEVEL

// LEVEL: cut-grids expects a module at level buf with a memory plan, this one is at level tg
// ROOMY-NOT: buf.value

// A binding holds nine rows of 64 bytes, of which eight end where another binding may start. Three buffers of ten rows
// would be six bindings.
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

// An index counts from where the part starts.
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

// What is written is a window too, wherever it starts.
func.func @sums(%x: tensor<10x16xf32>, %y: tensor<10x16xf32>) -> tensor<10xf32> {
  %0 = tg.mul %x, %y : tensor<10x16xf32>, tensor<10x16xf32>
  %1 = tg.sum %0 axes = [1] : tensor<10x16xf32>
  func.return %1 : tensor<10xf32>
}
// CHECK-LABEL: func.func @sums(
// CHECK: %7 = buf.view %5[32] attributes {buf.value = 8 : i64} : memref<40xi8> to memref<2xf32>
// CHECK: buf.kernel grid = [8] {{.*}} outs(%8 : memref<8xf32>)
// CHECK: buf.kernel grid = [2] {{.*}} outs(%7 : memref<2xf32>)

// No loop of the grid counts the rows: the product is not computed in the sum, and the sum reads it as a whole.
func.func @columns(%x: tensor<10x16xf32>, %y: tensor<10x16xf32>) -> tensor<16xf32> {
  %0 = tg.mul %x, %y : tensor<10x16xf32>, tensor<10x16xf32>
  %1 = tg.sum %0 axes = [0] : tensor<10x16xf32>
  func.return %1 : tensor<16xf32>
}
// CHECK-LABEL: func.func @columns(
// CHECK: buf.kernel grid = [8, 16]
// CHECK: buf.kernel grid = [2, 16]
// CHECK: buf.kernel grid = [16] ins(%8 : memref<10x16xf32>) outs(%6 : memref<16xf32>)
