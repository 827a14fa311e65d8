// RUN: TG_ROUNDTRIP
// RUN: tg-opt %s | filecheck %s

// Every kind of loop, memory and stage that a kernel of tiles may hold, and the steps of a recipe.
func.func @f(%x: memref<8x16xf32>, %y: memref<8xf32>) {
  buf.tiled ins(%x : memref<8x16xf32>) outs(%y : memref<8xf32>) recipe = #buf.recipe<collapse, tile(sizes = [64, 2], to = [workgroup_x, workgroup_y]), map(to = [lane]), unroll_jam, split_loops(lanes = 8), split_reduction(lanes = 8, terms = 8, sums = 4), vectorize, synchronize> {
  ^bb0(%0: memref<8x16xf32>, %1: memref<8xf32>):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %zero = arith.constant 0.000000e+00 : f32
    buf.forall (%g) in (8) mapping (workgroup_x) {
      %shared = memref.alloca() : memref<2xf32, #buf.space<workgroup>>
      buf.forall (%l) in (2) mapping (lane) {
        %sum = memref.alloca() : memref<f32, #buf.space<register>>
        linalg.fill ins(%zero : f32) outs(%sum : memref<f32, #buf.space<register>>)
        scf.for %i = %c0 to %c4 step %c1 {
          %j = affine.apply affine_map<(d0, d1) -> (d0 * 4 + d1 * 2)> (%i, %l)
          %part = memref.subview %0[%g, %j] [1, 2] [1, 1] : memref<8x16xf32> to memref<2xf32, strided<[1], offset: ?>>
          linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>], iterator_types = ["reduction"]} ins(%part : memref<2xf32, strided<[1], offset: ?>>) outs(%sum : memref<f32, #buf.space<register>>) attrs =  {mapping = [#buf.processor<unroll>]} {
          ^bb0(%a: f32, %held: f32):
            %s = arith.addf %held, %a : f32
            linalg.yield %s : f32
          }
        }
        %mine = memref.subview %shared[%l] [1] [1] : memref<2xf32, #buf.space<workgroup>> to memref<f32, strided<[], offset: ?>, #buf.space<workgroup>>
        "memref.copy"(%sum, %mine) : (memref<f32, #buf.space<register>>, memref<f32, strided<[], offset: ?>, #buf.space<workgroup>>) -> ()
      }
      "gpu.barrier"() : () -> ()
      %n = affine.min affine_map<(d0) -> (1, 8 - d0)> (%g)
      buf.forall (%l) in (%n) mapping (lane) attributes {note} {
        %first = memref.subview %shared[0] [1] [1] : memref<2xf32, #buf.space<workgroup>> to memref<f32, strided<[]>, #buf.space<workgroup>>
        %out = memref.subview %1[%g] [1] [1] : memref<8xf32> to memref<f32, strided<[], offset: ?>>
        "memref.copy"(%first, %out) : (memref<f32, strided<[]>, #buf.space<workgroup>>, memref<f32, strided<[], offset: ?>>) -> ()
      }
    }
  }
  func.return
}
// CHECK: recipe = #buf.recipe<collapse, tile(sizes = [64, 2], to = [workgroup_x, workgroup_y]), map(to = [lane]), unroll_jam, split_loops(lanes = 8), split_reduction(lanes = 8, terms = 8, sums = 4), vectorize, synchronize> {
// CHECK: buf.forall (%g) in (8) mapping (workgroup_x) {
// CHECK: attrs =  {mapping = [#buf.processor<unroll>]} {
// CHECK: buf.forall (%l{{.*}}) in (%n) mapping (lane) attributes {note} {

// A kernel's recipe is data, which `tile` applies.
func.func @kernel(%x: memref<4xf32>, %y: memref<4xf32>) {
  buf.kernel grid = [4] ins(%x : memref<4xf32>) outs(%y : memref<4xf32>) recipe = #buf.recipe<map(to = [lane])> {
  ^bb0(%0: memref<4xf32>, %1: memref<4xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%0 : memref<4xf32>) outs(%1 : memref<4xf32>) {
    ^bb1(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}
// CHECK-LABEL: func.func @kernel(
// CHECK: buf.kernel grid = [4] ins(%x : memref<4xf32>) outs(%y : memref<4xf32>) recipe = #buf.recipe<map(to = [lane])> {
