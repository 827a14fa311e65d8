// RUN: tg-opt %s -p 'lower-tg-to-buf{target="{\"max_storage_buffer_binding_size\": 4096, \"max_storage_buffers_per_shader_stage\": 5}"},schedule,plan-memory,cut-grids{target="{\"max_storage_buffer_binding_size\": 4096, \"max_storage_buffers_per_shader_stage\": 5}"}' | filecheck %s

// The keys take three bindings, and with two orders nine, but a kernel has five: segments of 1024 keys are sorted. The
// kernels that sum over segments are cut: each part binds windows of the keys, their order and ranks, and of the sorted
// keys in which it counts, and adds to the sums of the part before it.
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

// A computed index into the order stays in the row of a grid point, so a cut of the grid bounds it. The updates at the
// indices of that order may be anywhere: they are the table, and each part handles those in a window.
func.func @along(%u: tensor<300x9xi32>, %i: tensor<300x9xi32>) -> tensor<90x9xi32> {
  %0 = tg.scatter_add_along_axis %u, %i axis = 0 extent = 90 : tensor<300x9xi32>, tensor<300x9xi32>
  func.return %0 : tensor<90x9xi32>
}
// CHECK-LABEL: func.func @along(
// CHECK: buf.kernel grid = [90, 5] ins(%[[STARTS:.*]], %{{.*}}, %{{.*}} : memref<9x91xi32>, memref<1500xi32>, memref<1024xi32>) outs(%{{.*}} : memref<806xi32>)
// CHECK: buf.kernel grid = [90, 5] ins(%{{.*}}, %[[STARTS]], %{{.*}}, %{{.*}} : memref<806xi32>, memref<9x91xi32>, memref<1500xi32>, memref<1024xi32>)
