// RUN: tg-opt %s -p 'plan-memory{target=cpu},lower-buf-to-cpu' | filecheck %s

// A task's 6 rows pass a block of 4 columns, two at a time, before the next: the loop over blocks of rows is in that over
// blocks of columns. Sums of the 4 ranges of the reduction are kept for all 6 x 12 results of the tile.
func.func @by_columns(%a: memref<16x11xf32> {tg.name = "a", tg.role = "input"}, %b: memref<11x12xf32> {tg.name = "b", tg.role = "input"}, %c: memref<16x12xf32> {tg.name = "c", tg.role = "output"}) {
  buf.kernel grid = [16, 12] ins(%a, %b : memref<16x11xf32>, memref<11x12xf32>) outs(%c : memref<16x12xf32>) schedule = #buf.schedule<packed, groups = [3, 1, 1], row = [0], column = [1], tile_rows = 6, tile_columns = 12, rows = 2, columns = 4, lanes = 4, depth = 3, direct_rows = 1, by_columns = 1> {
  ^bb0(%0: memref<16x11xf32>, %1: memref<11x12xf32>, %2: memref<16x12xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%0, %1 : memref<16x11xf32>, memref<11x12xf32>) outs(%2 : memref<16x12xf32>) {
    ^bb2(%x: f32, %y: f32, %sum: f32):
      %p = arith.mulf %x, %y : f32
      %s = arith.addf %sum, %p : f32
      linalg.yield %s : f32
    }
  }
  func.return
}
// CHECK-LABEL: cpu.kernel @packed0
// CHECK:      %[[SUMS:[0-9]+]] = memref.alloca() : memref<72xf32>
// CHECK-NEXT: %[[PACKED:[0-9]+]] = memref.alloca() : memref<36xf32>
// CHECK:      scf.for
// CHECK:        scf.for
// CHECK:          vector.store %{{[0-9]+}}, %[[PACKED]]
// CHECK:          scf.for %[[COLUMNS:[0-9]+]] = %{{[0-9]+}} to %{{[0-9]+}} step
// CHECK-NEXT:       arith.muli %[[COLUMNS]]
// CHECK:            scf.for %[[ROWS:[0-9]+]] = %{{[0-9]+}} to %{{[0-9]+}} step
// CHECK-NEXT:         arith.muli %[[ROWS]]
// CHECK:              vector.load %[[PACKED]]
// CHECK:              vector.fma
// CHECK:              vector.load %[[SUMS]]
