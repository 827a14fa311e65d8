// RUN: tg-opt %s -p tile | filecheck %s

// Tiles that are smaller at the edges of 10 rows, columns and terms; `interchange` keeps the sums of all.
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
// CHECK-NEXT: scf.for %[[K:.*]] = %{{.*}} to %[[TERMS]] step
// CHECK-NEXT: buf.forall (%[[R:.*]], %[[C:.*]]) in (2, %[[WIDTH]]) mapping (unroll, unroll) {
// CHECK: memref.subview %[[SUMS]]
// CHECK: memref.subview %[[COPIES]][%[[K]],
// CHECK: arith.mulf
// CHECK: "memref.copy"(%{{.*}}, %{{.*}}) : (memref<f32, strided<[], offset: ?>, #buf.space<scratch>>, memref<f32, strided<[], offset: ?>>) -> ()
