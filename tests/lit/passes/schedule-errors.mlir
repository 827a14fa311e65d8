// RUN: tg-opt %s --split-input-file --print-diagnostics -p 'schedule{target=cpu}' | filecheck %s

// No loop is left for tasks.
// CHECK: the recipe of the kernel made at {{.*}} gives no loop to tasks that is the outermost one, and the only one there
func.func @f(%x: memref<8x8xf32>, %y: memref<8x8xf32>) {
  buf.kernel grid = [8, 8] ins(%x : memref<8x8xf32>) outs(%y : memref<8x8xf32>) recipe = #buf.recipe<unroll_jam> {
  ^bb0(%a: memref<8x8xf32>, %b: memref<8x8xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%a : memref<8x8xf32>) outs(%b : memref<8x8xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    }
  }
  func.return
}
