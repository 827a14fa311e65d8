// RUN: tg-opt %s -p schedule | filecheck %s

// An existing schedule is kept.
// CHECK: buf.kernel grid = [4] outs(%y : memref<4xf32>) schedule = #buf.schedule<thread, workgroup = [2, 1, 1], groups = [2, 1, 1]> {
func.func @chosen(%y: memref<4xf32>) {
  buf.kernel grid = [4] outs(%y : memref<4xf32>) schedule = #buf.schedule<thread, workgroup = [2, 1, 1], groups = [2, 1, 1]> {
  ^bb0(%0: memref<4xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} outs(%0 : memref<4xf32>) {
    ^bb0(%1: f32):
      %one = arith.constant 1.0 : f32
      linalg.yield %one : f32
    }
  }
  func.return
}
