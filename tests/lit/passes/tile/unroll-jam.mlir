// RUN: tg-opt %s -p tile | filecheck %s

// Adjacent points of a lane become a loop of the stages, where their elements are adjacent too; locals hold all of them.
func.func @wide(%x: memref<100x8xf32> {tg.name = "x", tg.role = "input"}, %y: memref<100x8xf32> {tg.name = "y", tg.role = "output"}) {
  buf.kernel grid = [100, 8] ins(%x : memref<100x8xf32>) outs(%y : memref<100x8xf32>) schedule = #buf.schedule<thread, workgroup = [64, 1, 1], groups = [4, 1, 1], width = 4> {
  ^bb0(%0: memref<100x8xf32>, %1: memref<100x8xf32>):
    %2 = memref.alloca() : memref<100x8xf32>
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%0 : memref<100x8xf32>) outs(%2 : memref<100x8xf32>) {
    ^bb1(%a: f32, %b: f32):
      %n = arith.negf %a : f32
      linalg.yield %n : f32
    }
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%2 : memref<100x8xf32>) outs(%1 : memref<100x8xf32>) {
    ^bb1(%a: f32, %b: f32):
      %n = math.exp %a : f32
      linalg.yield %n : f32
    }
  }
  func.return
}
// CHECK-LABEL: func.func @wide(
// CHECK: buf.forall (%[[G:.*]]) in (4) mapping (workgroup_x) {
// CHECK: buf.forall (%[[L:.*]]) in (%{{.*}}) mapping (lane) {
// CHECK-NEXT: %[[R:.*]] = memref.alloca() : memref<4xf32, #buf.space<register>>
// CHECK: %[[X:.*]] = memref.subview %0[%{{.*}}, %{{.*}}] [1, 4] [1, 1] : memref<100x8xf32> to memref<4xf32, strided<[1], offset: ?>>
// CHECK-NEXT: linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%[[X]] : memref<4xf32, strided<[1], offset: ?>>) outs(%[[R]] : memref<4xf32, #buf.space<register>>) attrs = {mapping = [#buf.processor<unroll>]} {

// What doesn't move evenly, here an index that the body uses, remains a loop around its stage.
func.func @uneven(%y: memref<16xi32> {tg.name = "y", tg.role = "output"}) {
  buf.kernel grid = [16] outs(%y : memref<16xi32>) recipe = #buf.recipe<tile(sizes = [4], to = [workgroup_x]), unroll_jam> {
  ^bb0(%0: memref<16xi32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} outs(%0 : memref<16xi32>) {
    ^bb1(%b: i32):
      %i = linalg.index 0 : index
      %n = arith.index_cast %i : index to i32
      linalg.yield %n : i32
    }
  }
  func.return
}
// CHECK-LABEL: func.func @uneven(
// CHECK: buf.forall (%[[G:.*]]) in (4) mapping (workgroup_x) {
// CHECK-NEXT: buf.forall (%[[U:.*]]) in (4) mapping (unroll) {
// CHECK-NEXT: %[[I:.*]] = affine.apply affine_map<(d0, d1) -> (((d0 * 4) + d1))> (%[[G]], %[[U]])
// CHECK: arith.index_cast %[[I]] : index to i32

// Vectors, where the innermost loop of a stage has whole ones.
func.func @vectors(%x: memref<8x6xf32> {tg.name = "x", tg.role = "input"}, %y: memref<8x6xf32> {tg.name = "y", tg.role = "output"}) {
  buf.kernel grid = [8] ins(%x : memref<8x6xf32>) outs(%y : memref<8x6xf32>) recipe = #buf.recipe<map(to = [task]), split_loops(terms = 2), vectorize> {
  ^bb0(%0: memref<8x6xf32>, %1: memref<8x6xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%0 : memref<8x6xf32>) outs(%1 : memref<8x6xf32>) {
    ^bb1(%a: f32, %b: f32):
      %n = arith.negf %a : f32
      linalg.yield %n : f32
    }
  }
  func.return
}
// CHECK-LABEL: func.func @vectors(
// CHECK: buf.forall (%[[I:.*]]) in (8) mapping (task) {
// CHECK-NEXT: buf.forall (%[[J:.*]]) in (3) mapping (sequential) {
// CHECK: attrs =  {mapping = [#buf.processor<vector>]} {
