// RUN: tg-opt %s -p lower-tg-to-buf | filecheck %s
// RUN: tg-opt %s -p 'inference-pipeline{target=webgpu-default}' | filecheck %s --check-prefix PLANNED
// RUN: tg-opt %s -p 'inference-pipeline{target=cpu}' | filecheck %s --check-prefix NATIVE

// A collective is a kernel over whole buffers, and the axis that it splits is transposed to the front. It isn't lowered
// further: the runtime executes it between dispatches. Here one overlaps the computation of the other's operand.
func.func @f(%x: tensor<4x6xf32>) -> (tensor<4x3xf32>, tensor<4x6xf32>) {
  %0 = tg.reduce_scatter %x axis = 1 size = 2 : tensor<4x6xf32>
  %1 = tg.all_reduce %x reduction = "max" size = 2 : tensor<4x6xf32>
  %2 = tg.exp %1 : tensor<4x6xf32>
  func.return %0, %2 : tensor<4x3xf32>, tensor<4x6xf32>
}

// CHECK: func.func @f(%x: memref<4x6xf32> {tg.name = "arg0", tg.role = "input"}, %0: memref<4x3xf32> {tg.name = "result0", tg.role = "output"}, %1: memref<4x6xf32> {tg.name = "result1", tg.role = "output"}) {
// CHECK-NEXT:   %2 = memref.alloc() : memref<6x4xf32>
// CHECK-NEXT:   buf.kernel grid = [6, 4] ins(%x : memref<4x6xf32>) outs(%2 : memref<6x4xf32>) {
// CHECK-NEXT:   ^bb0(%3: memref<4x6xf32>, %4: memref<6x4xf32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%3 : memref<4x6xf32>) outs(%4 : memref<6x4xf32>) {
// CHECK-NEXT:     ^bb0(%5: f32, %6: f32):
// CHECK-NEXT:       linalg.yield %5 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   %3 = memref.alloc() : memref<3x4xf32>
// CHECK-NEXT:   buf.kernel grid = [] ins(%2 : memref<6x4xf32>) outs(%3 : memref<3x4xf32>) {
// CHECK-NEXT:   ^bb0(%4: memref<6x4xf32>, %5: memref<3x4xf32>):
// CHECK-NEXT:     buf.collective "reduce_scatter" ins(%4 : memref<6x4xf32>) outs(%5 : memref<3x4xf32>) {reduction = "sum", root = 0 : i64, size = 2 : i64}
// CHECK-NEXT:   }
// CHECK-NEXT:   %4 = memref.alloc() : memref<4x6xf32>
// CHECK-NEXT:   buf.kernel grid = [] ins(%x : memref<4x6xf32>) outs(%4 : memref<4x6xf32>) {
// CHECK-NEXT:   ^bb0(%5: memref<4x6xf32>, %6: memref<4x6xf32>):
// CHECK-NEXT:     buf.collective "all_reduce" ins(%5 : memref<4x6xf32>) outs(%6 : memref<4x6xf32>) {reduction = "max", root = 0 : i64, size = 2 : i64}
// CHECK-NEXT:   }
// CHECK-NEXT:   buf.kernel grid = [4, 6] ins(%4 : memref<4x6xf32>) outs(%1 : memref<4x6xf32>) {
// CHECK-NEXT:   ^bb0(%5: memref<4x6xf32>, %6: memref<4x6xf32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%5 : memref<4x6xf32>) outs(%6 : memref<4x6xf32>) {
// CHECK-NEXT:     ^bb0(%7: f32, %8: f32):
// CHECK-NEXT:       %9 = math.exp %7 : f32
// CHECK-NEXT:       linalg.yield %9 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   buf.kernel grid = [4, 3] ins(%3 : memref<3x4xf32>) outs(%0 : memref<4x3xf32>) {
// CHECK-NEXT:   ^bb0(%5: memref<3x4xf32>, %6: memref<4x3xf32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%5 : memref<3x4xf32>) outs(%6 : memref<4x3xf32>) {
// CHECK-NEXT:     ^bb0(%7: f32, %8: f32):
// CHECK-NEXT:       linalg.yield %7 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

// PLANNED: buf.kernel grid = [] ins(%x : memref<4x6xf32>) outs({{%.*}} : memref<i32>) {
// PLANNED: buf.collective "all_reduce" {{.*}} phase = "start"
// PLANNED: buf.dispatch
// PLANNED: buf.kernel grid = [] ins({{%.*}} : memref<6x4xf32>) outs({{%.*}} : memref<3x4xf32>) {
// PLANNED: buf.collective "reduce_scatter"
// PLANNED: buf.kernel grid = [] ins(%x, {{%.*}} : memref<4x6xf32>, memref<i32>) outs({{%.*}} : memref<4x6xf32>) {
// PLANNED: buf.collective "all_reduce" {{.*}} phase = "wait"
// PLANNED: buf.dispatch

// NATIVE: buf.collective "all_reduce" {{.*}} phase = "start"
// NATIVE: buf.dispatch
// NATIVE: buf.collective "reduce_scatter" {{.*}} phase = "start"
// NATIVE: buf.collective "all_reduce" {{.*}} phase = "wait"
// NATIVE: buf.dispatch
// NATIVE: buf.collective "reduce_scatter" {{.*}} phase = "wait"
// NATIVE: buf.dispatch

// What is reduced says whether its integers have signs, where that matters.
func.func @unsigned(%x: tensor<4xui32>) -> (tensor<4xui32>, tensor<4xui32>) {
  %0 = tg.all_reduce %x reduction = "max" size = 2 : tensor<4xui32>
  %1 = tg.all_reduce %x reduction = "sum" size = 2 : tensor<4xui32>
  func.return %0, %1 : tensor<4xui32>, tensor<4xui32>
}
// CHECK-LABEL: func.func @unsigned(
// CHECK: buf.collective "all_reduce" {{.*}} {reduction = "maxui",
// CHECK: buf.collective "all_reduce" {{.*}} {reduction = "sum",
