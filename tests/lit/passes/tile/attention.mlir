// RUN: tg-opt %s -p 'tile{steps=0}' | filecheck %s --check-prefix OPENED
// RUN: tg-opt %s -p tile | filecheck %s
// RUN: tg-opt %s -p 'tile{steps=0},tile' | filecheck %s
// RUN: tg-opt %s -p 'schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu' | filecheck %s --check-prefix NATIVE

// Before `attend`, a kernel of an attention has no loops.
// OPENED:      buf.tiled
// OPENED-NEXT: ^bb0
// OPENED-NEXT:   buf.attention "forward"
// OPENED-NEXT: }

// Four groups of 20 queries are twelve blocks of 8, of which each third one has only 4.
// CHECK:      buf.forall (%[[N:.*]]) in (12) mapping (task) {
// CHECK-NEXT:   %[[ROWS:.*]] = affine.min affine_map<(d0) -> (8, (((d0 mod 3) * -8) + 20))> (%[[N]])

// A line of rows for each feature, scaled. Missing rows are zeros.
// CHECK-NEXT:   %queries = memref.alloca() : memref<8x8xf32, #buf.space<scratch>>
// CHECK:        linalg.fill
// CHECK:        buf.forall (%[[R:.*]], %[[F:.*]]) in (%[[ROWS]], 8)
// CHECK:          memref.subview %queries[%[[F]], %[[R]]]
// CHECK:          arith.mulf

// The running maximum is finite, the sums are zeros.
// CHECK:        %top = memref.alloca
// CHECK:        %sums = memref.alloca
// CHECK:        arith.constant -3.40282347e+38 : f32

// Only tiles of keys that a query of the block attends to: one is 4 keys, or what is left.
// CHECK:        %[[TILES:.*]] = affine.min affine_map<(d0, d1) -> (5, (((d0 mod 3) * 2) + ((d1 + 3) floordiv 4)))> (%[[N]], %[[ROWS]])
// CHECK:        scf.for %[[T:.*]] = %{{.*}} to %[[TILES]]
// CHECK-NEXT:     %[[COUNT:.*]] = affine.min affine_map<(d0, d1, d2) -> (4, ((d0 * -4) + 20), ((((d1 mod 3) * 8) + d2) + (d0 * -4)))> (%[[T]], %[[N]], %[[ROWS]])
// CHECK-NEXT:     %keys = memref.alloca
// CHECK:          %values = memref.alloca

// Scores, with the rows innermost, in vectors: the sums of a column are in registers.
// CHECK:          %scores = memref.alloca() : memref<4x8xf32, #buf.space<scratch>>
// CHECK-NEXT:     buf.forall (%[[C:.*]]) in (%[[COUNT]]) mapping (sequential) {
// CHECK-NEXT:       %[[LINE:.*]] = memref.subview %scores[%[[C]], 0] [1, 8] [1, 1]
// CHECK-NEXT:       %[[SUMS:.*]] = memref.alloca() : memref<8xf32, #buf.space<register>>
// CHECK-NEXT:       linalg.fill
// CHECK:            scf.for
// CHECK:              linalg.generic {{.*}} outs(%[[SUMS]] : {{.*}}) attrs =  {mapping = [#buf.processor<vector>]} {
// CHECK:                arith.mulf
// CHECK:                arith.addf
// CHECK:            "memref.copy"(%[[SUMS]], %[[LINE]])
// The causal mask compares places.
// CHECK:            linalg.index 0
// CHECK:            arith.cmpi ule
// CHECK:            arith.constant 0xff800000 : f32

// The maximum, by which sums shrink; the weights, and their sum.
// CHECK:          "memref.copy"(%top, %new_top)
// CHECK:            arith.cmpf olt
// CHECK:          outs(%shrink, %total, %top :
// CHECK:            math.exp
// CHECK:          math.exp
// CHECK:          outs(%total :
// CHECK-NEXT:     ^bb
// CHECK-NEXT:       arith.addf

// Values, weighted, are added to what was there.
// CHECK:          %[[OLD:.*]] = memref.subview %sums[
// CHECK:          "memref.copy"(%[[OLD]], %[[NEW:[0-9]+]])
// CHECK:          scf.for
// CHECK:            memref.subview %values[
// CHECK:            linalg.generic {{.*}} outs(%[[NEW]] : memref<8xf32, #buf.space<register>>)
// CHECK:          "memref.copy"(%[[NEW]], %[[OLD]])

// At the end, one division for each row.
// CHECK:        arith.divf
// CHECK:        buf.forall ({{.*}}) in (%[[ROWS]], 8) mapping (sequential, sequential) {

// NATIVE:      cpu.kernel @recipe0
// NATIVE:      math.exp

func.func @causal(%q: memref<4x20x8xf32>, %k: memref<4x20x8xf32>, %v: memref<4x20x8xf32>, %o: memref<4x20x8xf32>) {
  buf.kernel grid = [4, 20] ins(%q, %k, %v : memref<4x20x8xf32>, memref<4x20x8xf32>, memref<4x20x8xf32>) outs(%o : memref<4x20x8xf32>) recipe = #buf.recipe<attend(rows = 8, columns = 4), vectorize> {
  ^bb0(%0: memref<4x20x8xf32>, %1: memref<4x20x8xf32>, %2: memref<4x20x8xf32>, %3: memref<4x20x8xf32>):
    buf.attention "forward" ins(%0, %1, %2 : memref<4x20x8xf32>, memref<4x20x8xf32>, memref<4x20x8xf32>) outs(%3 : memref<4x20x8xf32>) {parameters = {groups = 4 : i64, queries = 20 : i64, keys = 20 : i64, features = 8 : i64, values = 8 : i64, period = 20 : i64, biases = 0 : i64, masks = 0 : i64, causal = 0 : i64, scale = 5.000000e-01 : f64, fill = 0xfff0000000000000 : f64, zeros = true}, maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>]}
  }
  func.return
}
