// RUN: tg-opt %s --verify-numerics-each -p plan-memory,lower-buf-to-wgsl | filecheck %s

// Three terms of a step go to two accumulators, which are folded by halves.
// CHECK: wgsl.kernel @group0
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}) -> (f32, f32) {
// CHECK: wgsl.kernel @thread0
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}) -> (f32, f32) {
func.func @sums(%x: memref<4x14xf32> {tg.name = "x", tg.role = "input"}, %y: memref<4xf32> {tg.name = "y", tg.role = "output"}, %z: memref<4xf32> {tg.name = "z", tg.role = "output"}) {
  buf.kernel grid = [4] ins(%x : memref<4x14xf32>) outs(%y : memref<4xf32>) schedule = #buf.schedule<group, workgroup = [2, 1, 1], groups = [4, 1, 1], steps = 3> {
  ^bb0(%0: memref<4x14xf32>, %1: memref<4xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%0 : memref<4x14xf32>) outs(%1 : memref<4xf32>) {
    ^bb1(%a: f32, %sum: f32):
      %s = arith.addf %sum, %a : f32
      linalg.yield %s : f32
    }
  }
  buf.kernel grid = [4] ins(%x : memref<4x14xf32>) outs(%z : memref<4xf32>) schedule = #buf.schedule<thread, workgroup = [4, 1, 1], groups = [1, 1, 1], steps = 3> {
  ^bb0(%0: memref<4x14xf32>, %1: memref<4xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%0 : memref<4x14xf32>) outs(%1 : memref<4xf32>) {
    ^bb1(%a: f32, %sum: f32):
      %s = arith.addf %sum, %a : f32
      linalg.yield %s : f32
    }
  }
  func.return
}
