// RUN: tg-opt %s -p tile | filecheck %s

// Tiles that are smaller at the edges of 10 rows, columns and terms. `interchange` keeps the sums of all points, to which
// it adds those of a part.
func.func @edges(%x: memref<10x10xf32> {tg.name = "x", tg.role = "input"}, %w: memref<10x10xf32> {tg.name = "w", tg.role = "input"}, %y: memref<10x10xf32> {tg.name = "y", tg.role = "output"}) {
  buf.kernel grid = [10, 10] ins(%x, %w : memref<10x10xf32>, memref<10x10xf32>) outs(%y : memref<10x10xf32>) recipe = #buf.recipe<tile(sizes = [4, 4], to = [sequential, task]), interchange(terms = 4), stage(along = [1]), tile(sizes = [2, 3], to = [sequential, sequential]), unroll_jam> {
  ^bb0(%0: memref<10x10xf32>, %1: memref<10x10xf32>, %2: memref<10x10xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%0, %1 : memref<10x10xf32>, memref<10x10xf32>) outs(%2 : memref<10x10xf32>) {
    ^bb1(%a: f32, %b: f32, %c: f32):
      %p = arith.mulf %a, %b : f32
      %s = arith.addf %c, %p : f32
      linalg.yield %s : f32
    }
  }
  func.return
}
// CHECK-LABEL: func.func @edges(
// CHECK: buf.forall (%[[I:.*]], %[[J:.*]]) in (3, 3) mapping (sequential, task) {
// CHECK-NEXT: %[[COPIES:.*]] = memref.alloca() : memref<4x4xf32, #buf.space<scratch>>
// CHECK-NEXT: %[[N:.*]] = affine.min affine_map<(d0) -> (4, ((d0 * -4) + 10))> (%[[J]])
// CHECK-NEXT: %[[SUMS:.*]] = memref.alloca() : memref<4x4xf32, #buf.space<scratch>>
// CHECK: linalg.fill
// CHECK: scf.for %[[PART:.*]] =
// CHECK-NEXT: %[[TERMS:.*]] = affine.min affine_map<(d0) -> (4, ((d0 * -4) + 10))> (%[[PART]])
// CHECK-NEXT: buf.forall (%[[K:.*]], %[[C:.*]]) in (%[[TERMS]], %[[N]]) mapping (sequential, sequential) {
// CHECK-NEXT: memref.subview %[[COPIES]][%[[K]], %[[C]]]
// CHECK: "memref.copy"
// CHECK: buf.forall (%{{.*}}, %[[B:.*]]) in (%{{.*}}, %{{.*}}) mapping (sequential, sequential) {
// CHECK-NEXT: %[[WIDTH:.*]] = affine.min affine_map<(d0, d1) -> (3, ((d0 * -3) + 4), (((d0 * -3) + (d1 * -4)) + 10))> (%[[B]], %[[J]])
// CHECK-NEXT: %[[SUM:.*]] = memref.alloca() : memref<2x3xf32, #buf.space<register>>
// CHECK: linalg.fill
// CHECK: scf.for %[[K:.*]] = %{{.*}} to %[[TERMS]] step
// CHECK-NEXT: buf.forall (%[[R:.*]], %[[C:.*]]) in (2, %[[WIDTH]]) mapping (unroll, unroll) {
// CHECK: memref.subview %[[SUM]][%[[R]], %[[C]]]
// CHECK: memref.subview %[[COPIES]][%[[K]],
// CHECK: arith.mulf
// CHECK: memref.subview %[[SUMS]]
// CHECK: arith.addf
// CHECK: "memref.copy"(%{{.*}}, %{{.*}}) : (memref<f32, strided<[], offset: ?>, #buf.space<scratch>>, memref<f32, strided<[], offset: ?>>) -> ()

// With `peel`, the smaller tiles have loops of their own, of as many iterations as they have points.
func.func @peeled(%x: memref<10xf32> {tg.name = "x", tg.role = "input"}, %y: memref<10xf32> {tg.name = "y", tg.role = "output"}) {
  buf.kernel grid = [10] ins(%x : memref<10xf32>) outs(%y : memref<10xf32>) recipe = #buf.recipe<tile(sizes = [4], to = [sequential], peel = 1), unroll_jam, vectorize> {
  ^bb0(%0: memref<10xf32>, %1: memref<10xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%0 : memref<10xf32>) outs(%1 : memref<10xf32>) {
    ^bb1(%a: f32, %b: f32):
      %n = arith.negf %a : f32
      linalg.yield %n : f32
    }
  }
  func.return
}
// CHECK-LABEL: func.func @peeled(
// CHECK: buf.forall (%[[I:.*]]) in (2) mapping (sequential) {
// CHECK-NEXT: %[[AT:.*]] = affine.apply affine_map<(d0) -> ((d0 * 4))> (%[[I]])
// CHECK-NEXT: memref.subview %0[%[[AT]]] [4] [1]
// CHECK: arith.negf
// CHECK: buf.forall (%{{.*}}) in (1) mapping (sequential) {
// CHECK-NEXT: memref.subview %0[8] [2] [1]
// CHECK: attrs = {mapping = [#buf.processor<vector>]} {
// CHECK-NEXT: ^bb
// CHECK-NEXT: arith.negf
