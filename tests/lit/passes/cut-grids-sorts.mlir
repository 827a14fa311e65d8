// RUN: tg-opt %s -p 'lower-tg-to-buf{target="{\"max_storage_buffer_binding_size\": 4096, \"max_storage_buffers_per_shader_stage\": 5}"},schedule,plan-memory,cut-grids{target="{\"max_storage_buffer_binding_size\": 4096, \"max_storage_buffers_per_shader_stage\": 5}"}' | filecheck %s

// Keys of three bindings, and two orders of them, are four more than a kernel has. Each part of the sums over segments
// binds windows: of keys, their order and ranks where it runs, of the sorted keys where it counts. What one part has
// counted, the next adds to.
func.func @sorted(%x: tensor<2500xi32>) -> tensor<2500xi32> {
  %0 = tg.argsort %x descending = 0 : tensor<2500xi32>
  func.return %0 : tensor<2500xi32>
}
// CHECK-LABEL: func.func @sorted(
// CHECK: buf.kernel grid = [1, 1024] ins(%{{.*}}, %{{.*}}, %{{.*}} : memref<1024xi32>, memref<1024xi32>, memref<2048xi32>) outs(%{{.*}} : memref<1x1024xi32>)
// CHECK: buf.kernel grid = [1, 1024] ins(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : memref<1024xi32>, memref<1024xi32>, memref<1024xi32>, memref<1x1024xi32>) outs(%{{.*}} : memref<1x1024xi32>)
// CHECK: buf.kernel grid = [2500] ins(%{{.*}}, %{{.*}} : memref<1024xi32>, memref<1024xi32>) outs(%[[ORDER:.*]] : memref<2500xi32>)
// CHECK: buf.kernel grid = [2500] ins(%{{.*}}, %{{.*}}, %{{.*}} : memref<1024xi32>, memref<1024xi32>, memref<2500xi32>) outs(%[[ORDER]] : memref<2500xi32>)
// CHECK: buf.kernel grid = [2500] ins(%{{.*}}, %{{.*}}, %{{.*}} : memref<1024xi32>, memref<1024xi32>, memref<2500xi32>) outs(%[[ORDER]] : memref<2500xi32>)
// CHECK-NOT: buf.kernel

// An order of nine short rows is bounded by its row, the updates that it names are not: these are the table, of which a
// part sees to a window.
func.func @along(%u: tensor<300x9xi32>, %i: tensor<300x9xi32>) -> tensor<90x9xi32> {
  %0 = tg.scatter_add_along_axis %u, %i axis = 0 extent = 90 : tensor<300x9xi32>, tensor<300x9xi32>
  func.return %0 : tensor<90x9xi32>
}
// CHECK-LABEL: func.func @along(
// CHECK: buf.kernel grid = [90, 5] ins(%[[STARTS:.*]], %{{.*}}, %{{.*}} : memref<9x91xi32>, memref<1500xi32>, memref<1024xi32>) outs(%{{.*}} : memref<806xi32>)
// CHECK: buf.kernel grid = [90, 5] ins(%{{.*}}, %[[STARTS]], %{{.*}}, %{{.*}} : memref<806xi32>, memref<9x91xi32>, memref<1500xi32>, memref<1024xi32>)
