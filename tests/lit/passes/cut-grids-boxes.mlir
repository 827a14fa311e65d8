// RUN: tg-opt %s -p 'lower-tg-to-buf,schedule,plan-memory,cut-grids{target="{\"max_storage_buffer_binding_size\": 600, \"max_storage_buffers_per_shader_stage\": 4}"}' | filecheck %s

// Two buffers of 3 KiB are five bindings and more each. No loop of the grid counts the rows that a sum reads, so its own
// loop is divided: a part folds what it finds into what the one before has left.
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

// Where conditions are decided in a part, it neither computes nor binds what the others choose.
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

// An index that is computed names any row: a part sees to those of its own window, and keeps the rest.
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
