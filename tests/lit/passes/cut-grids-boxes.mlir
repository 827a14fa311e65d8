// RUN: tg-opt %s -p 'lower-tg-to-buf,schedule,plan-memory,cut-grids{target="{\"max_storage_buffer_binding_size\": 600, \"max_storage_buffers_per_shader_stage\": 4}"}' | filecheck %s

// A buffer of 3 KiB takes more bindings than the four allowed. No grid loop indexes the rows that are summed, so the
// reduction's loop is cut: the second part adds its rows to the sum of the first.
func.func @rows(%x: tensor<48x16xf32>) -> tensor<16xf32> {
  %0 = tg.sum %x axes = [0] : tensor<48x16xf32>
  func.return %0 : tensor<16xf32>
}
// CHECK-LABEL: func.func @rows(
// CHECK: %[[LAST:.*]] = buf.view %0[1536] attributes {buf.value = 1 : i64} : memref<3072xi8> to memref<24x16xf32>
// CHECK-NEXT: %[[FIRST:.*]] = buf.view %0[0] attributes {buf.value = 1 : i64} : memref<3072xi8> to memref<24x16xf32>
// CHECK: %[[SUM:.*]] = buf.view %{{.*}}[0] attributes {tg.name = "result0", tg.role = "output", buf.value = 0 : i64}
// CHECK-NEXT: %[[AGAIN:.*]] = buf.view %{{.*}}[0] attributes {buf.value = 0 : i64} : memref<64xi8> to memref<16xf32>
// CHECK: buf.kernel grid = [16] ins(%[[FIRST]] : memref<24x16xf32>) outs(%[[SUM]] : memref<16xf32>)
// CHECK: buf.kernel grid = [16] ins(%[[LAST]], %[[AGAIN]] : memref<24x16xf32>, memref<16xf32>) outs(%[[SUM]] : memref<16xf32>)
// CHECK: memref.alloca() : memref<16xf32>
// CHECK: iterator_types = ["parallel", "reduction"]
// CHECK: iterator_types = ["parallel"]
// CHECK: arith.addf
// CHECK-NOT: buf.kernel

// If a condition is constant over a part, the part neither computes nor binds the operands of the other branch.
func.func @joined(%x: tensor<24x16xf32>, %y: tensor<24x16xf32>) -> tensor<48x16xf32> {
  %0 = tg.concat %x, %y axis = 0 : tensor<24x16xf32>, tensor<24x16xf32>
  func.return %0 : tensor<48x16xf32>
}
// CHECK-LABEL: func.func @joined(
// CHECK: buf.kernel grid = [16, 16] ins(%{{.*}} : memref<256xf32>) outs(%{{.*}} : memref<16x16xf32>)
// CHECK-NOT: scf.if
// CHECK: buf.kernel grid = [16, 16] ins(%{{.*}}, %{{.*}} : memref<128xf32>, memref<128xf32>)
// CHECK: scf.if
// CHECK: buf.kernel grid = [16, 16] ins(%{{.*}} : memref<256xf32>)
// CHECK-NOT: scf.if
// CHECK: func.return

// A computed index may select any row: each part handles those in its own window, and keeps the other results.
func.func @gathered(%x: tensor<48x16xf32>, %at: tensor<5xi32>) -> tensor<5x16xf32> {
  %0 = tg.take %x, %at axis = 0 : tensor<48x16xf32>, tensor<5xi32>
  func.return %0 : tensor<5x16xf32>
}
// CHECK-LABEL: func.func @gathered(
// CHECK: buf.kernel grid = [5, 16] ins(%at, %{{.*}} : memref<5xi32>, memref<256xf32>) outs(%{{.*}} : memref<5x16xf32>)
// CHECK: %[[INSIDE:.*]] = arith.cmpi ult, %{{.*}}, %{{.*}} : index
// CHECK: scf.if %[[INSIDE]]
// CHECK-NOT: arith.select
// CHECK: buf.kernel grid = [5, 16] ins(%at, %{{.*}}, %{{.*}} : memref<5xi32>, memref<5x16xf32>, memref<256xf32>)
// CHECK: ^bb0(%[[INDEX:.*]]: i32, %[[BEFORE:.*]]: f32, %{{.*}}: f32):
// CHECK: %[[HERE:.*]] = arith.cmpi ult, %{{.*}}, %{{.*}} : index
// CHECK: scf.if %[[HERE]]
// CHECK: arith.select %[[HERE]], %{{.*}}, %[[BEFORE]] : f32
// CHECK: buf.kernel
// CHECK-NOT: buf.kernel
