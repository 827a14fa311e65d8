// RUN: tg-opt %s -p 'schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu' | filecheck %s

// A block of four rows and sixteen columns: the loop over the terms carries its sums, two vectors for each row.
func.func @product(%x: memref<64x32xf32> {tg.name = "x", tg.role = "input"}, %w: memref<32x64xf32> {tg.name = "w", tg.role = "input"}, %y: memref<64x64xf32> {tg.name = "y", tg.role = "output"}) {
  buf.kernel grid = [64, 64] ins(%x, %w : memref<64x32xf32>, memref<32x64xf32>) outs(%y : memref<64x64xf32>) recipe = #buf.recipe<tile(sizes = [32, 64]), collapse, map(to = [task]), step_reduction, tile(sizes = [4, 16], to = [sequential, sequential]), unroll_jam, vectorize> {
  ^bb0(%0: memref<64x32xf32>, %1: memref<32x64xf32>, %2: memref<64x64xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%0, %1 : memref<64x32xf32>, memref<32x64xf32>) outs(%2 : memref<64x64xf32>) {
    ^bb1(%a: f32, %b: f32, %c: f32):
      %p = arith.mulf %a, %b : f32
      %s = arith.addf %c, %p : f32
      linalg.yield %s : f32
    }
  }
  func.return
}
// CHECK: cpu.kernel @recipe0 access = ["read", "read", "read_write"] {
// CHECK: scf.for %[[TASK:.*]] = %3 to %4
// CHECK: scf.for %[[ROW:.*]] =
// CHECK: scf.for %[[COLUMN:.*]] =
// CHECK: scf.for %[[K:.*]] = {{.*}} -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>) {
// CHECK: %[[A:.*]] = memref.load %0
// CHECK: %[[SPREAD:.*]] = vector.broadcast %[[A]] : f32 to vector<8xf32>
// CHECK: %[[B:.*]] = vector.load %1
// CHECK-NEXT: arith.mulf %[[SPREAD]], %[[B]] : vector<8xf32>
// CHECK-NEXT: arith.addf
// CHECK: scf.yield
// CHECK: vector.store
// CHECK: buf.dispatch @recipe0 workgroups = [2, 1, 1]

// An op that has no vectors is a loop, of which LLVM makes vectors; what it reads is stored before.
func.func @exponentials(%x: memref<8x8xf32> {tg.name = "x", tg.role = "input"}, %y: memref<8x8xf32> {tg.name = "y", tg.role = "output"}) {
  buf.kernel grid = [8, 8] ins(%x : memref<8x8xf32>) outs(%y : memref<8x8xf32>) recipe = #buf.recipe<tile(sizes = [2, 8]), collapse, map(to = [task]), unroll_jam, vectorize> {
  ^bb0(%0: memref<8x8xf32>, %1: memref<8x8xf32>):
    %2 = memref.alloca() : memref<8x8xf32>
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%0 : memref<8x8xf32>) outs(%2 : memref<8x8xf32>) {
    ^bb1(%a: f32, %b: f32):
      %n = arith.negf %a : f32
      linalg.yield %n : f32
    }
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%2 : memref<8x8xf32>) outs(%1 : memref<8x8xf32>) {
    ^bb1(%a: f32, %b: f32):
      %e = math.exp %a : f32
      linalg.yield %e : f32
    }
  }
  func.return
}
// CHECK: cpu.kernel @recipe1 access = ["read", "read_write"] {
// CHECK: %[[MEMORY:.*]] = memref.alloca() : memref<16xf32>
// CHECK: %[[ROW:.*]] = arith.negf %{{.*}} : vector<8xf32>
// CHECK: %[[NEXT:.*]] = arith.negf %{{.*}} : vector<8xf32>
// CHECK: vector.store %[[ROW]], %[[MEMORY]]
// CHECK-NEXT: vector.store %[[NEXT]], %[[MEMORY]]
// CHECK-NEXT: scf.for %[[C:.*]] =
// CHECK-NEXT: memref.load %[[MEMORY]][%[[C]]]
// CHECK: math.exp
// CHECK: } {cpu.parallel}

// Results of a row lie apart where columns are the rows of the output: they are stored one by one.
func.func @transposed(%x: memref<4x4xf32> {tg.name = "x", tg.role = "input"}, %w: memref<4x4xf32> {tg.name = "w", tg.role = "input"}, %y: memref<4x4xf32> {tg.name = "y", tg.role = "output"}) {
  buf.kernel grid = [4, 4] ins(%x, %w : memref<4x4xf32>, memref<4x4xf32>) outs(%y : memref<4x4xf32>) recipe = #buf.recipe<tile(sizes = [4, 4]), collapse, map(to = [task]), step_reduction, tile(sizes = [1, 4], to = [sequential, sequential]), unroll_jam, vectorize> {
  ^bb0(%0: memref<4x4xf32>, %1: memref<4x4xf32>, %2: memref<4x4xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d1, d0)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%0, %1 : memref<4x4xf32>, memref<4x4xf32>) outs(%2 : memref<4x4xf32>) {
    ^bb1(%a: f32, %b: f32, %c: f32):
      %p = arith.mulf %a, %b : f32
      %s = arith.addf %c, %p : f32
      linalg.yield %s : f32
    }
  }
  func.return
}
// CHECK: cpu.kernel @recipe2 access = ["read", "read", "read_write"] {
// CHECK: vector.store %{{.*}}, %[[SUMS:.*]][%{{.*}}] : memref<4xf32>, vector<4xf32>
// CHECK-NEXT: %[[FIRST:.*]] = memref.load %[[SUMS]]
// CHECK-NEXT: memref.store %[[FIRST]], %2
// CHECK-NEXT: %[[SECOND:.*]] = memref.load %[[SUMS]]
// CHECK-NEXT: memref.store %[[SECOND]], %2
