// RUN: tg-opt %s -p 'schedule{target=cpu}' | filecheck %s --check-prefix SCHEDULE
// RUN: tg-opt %s -p 'schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu' | filecheck %s
// RUN: not tg-opt %s -p 'schedule{target=cpu},plan-memory,lower-buf-to-wgsl' 2>&1 | filecheck %s --check-prefix SHADERS

// A block has 16 queries, in the lanes of two vectors of eight.
// SCHEDULE: schedule = #buf.schedule<native_attention, groups = [4, 1, 1], head = 64, rows = 16, columns = 16, lanes = 8, vectors = 2, sums = 6, blocks = 4>
// SHADERS: is scheduled for native code (native_attention): lower-buf-to-cpu writes it

func.func @causal(%q: memref<4x64x8xf32> {tg.name = "q", tg.role = "input"}, %o: memref<4x64x8xf32> {tg.name = "o", tg.role = "output"}) {
  buf.kernel grid = [4, 64] ins(%q : memref<4x64x8xf32>) outs(%o : memref<4x64x8xf32>) {
  ^bb0(%0: memref<4x64x8xf32>, %1: memref<4x64x8xf32>):
    buf.attention "forward" ins(%0, %0, %0 : memref<4x64x8xf32>, memref<4x64x8xf32>, memref<4x64x8xf32>) outs(%1 : memref<4x64x8xf32>) {parameters = {groups = 4 : i64, queries = 64 : i64, keys = 64 : i64, features = 8 : i64, values = 8 : i64, period = 64 : i64, biases = 0 : i64, masks = 0 : i64, causal = 0 : i64, scale = 5.000000e-01 : f64, fill = 0xfff0000000000000 : f64, zeros = true}, maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>]}
  }
  func.return
}
// CHECK:      cpu.kernel @native_attention0 access = ["read", "read_write"] {
// Scratch memory: lines of 16 rows or columns for each feature, a value per row, and 16 x 16 scores.
// CHECK-DAG:    memref.alloca() : memref<128xf32>
// CHECK-DAG:    memref.alloca() : memref<16xf32>
// CHECK-DAG:    memref.alloca() : memref<256xf32>

// The rows are transposed into lanes, in blocks of 8 x 8.
// CHECK:        vector.shuffle
// CHECK:        vector.store

// The loop over tiles ends at the last key that a query of the block attends to.
// CHECK:        scf.for {{.*}} {
// CHECK:          scf.for {{.*}} iter_args({{.*}}) -> (vector<8xf32>, {{.*}}) {
// CHECK:            vector.broadcast
// CHECK:            vector.fma
// Scores are masked only in tiles that the causal mask cuts.
// CHECK:          scf.if
// CHECK:            cpu.parallel
// Online softmax: the running maximum, the weights and their sum.
// CHECK:          arith.cmpf olt
// CHECK:          math.exp
// CHECK:          math.exp
// The accumulated values are rescaled, and those of the tile are added.
// CHECK:          arith.mulf {{.*}} : vector<8xf32>
// CHECK:          vector.fma
