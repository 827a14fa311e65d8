// RUN: tg-opt %s --split-input-file --parsing-diagnostics --print-diagnostics | filecheck %s

// Workgroups that no point or tile belongs to would write over those of others.
// CHECK: the schedule has [32, 2, 1] workgroups, one for each point needs [64, 1, 1]
func.func @f(%x: memref<64xf32>, %o: memref<64xf32>) {
  buf.kernel grid = [64] ins(%x : memref<64xf32>) outs(%o : memref<64xf32>) schedule = #buf.schedule<group, workgroup = [32, 1, 1], groups = [32, 2, 1]> {
  ^bb0(%0: memref<64xf32>, %1: memref<64xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%0 : memref<64xf32>) outs(%1 : memref<64xf32>) {
    ^bb2(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: the schedule has [65, 1, 1] workgroups, one for each point needs [64, 1, 1]
func.func @f(%x: memref<64xf32>, %o: memref<64xf32>) {
  buf.kernel grid = [64] ins(%x : memref<64xf32>) outs(%o : memref<64xf32>) schedule = #buf.schedule<group, workgroup = [32, 1, 1], groups = [65, 1, 1]> {
  ^bb0(%0: memref<64xf32>, %1: memref<64xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%0 : memref<64xf32>) outs(%1 : memref<64xf32>) {
    ^bb2(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: the schedule has [3, 1, 1] workgroups, its tile needs [2, 1, 1]
func.func @f(%x: memref<64xf32>, %o: memref<64xf32>) {
  buf.kernel grid = [64] ins(%x : memref<64xf32>) outs(%o : memref<64xf32>) schedule = #buf.schedule<contraction, groups = [3, 1, 1], row = [], column = [0], rows = 1, columns = 4, lanes = 8, depth = 1> {
  ^bb0(%0: memref<64xf32>, %1: memref<64xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%0 : memref<64xf32>) outs(%1 : memref<64xf32>) {
    ^bb2(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: the schedule has 3 blocks of rows for 2 groups; 8 rows of 2 groups take 2 for 2
func.func @f(%q: memref<2x8x4xf32>, %o: memref<2x8x4xf32>) {
  buf.kernel grid = [2, 8] ins(%q : memref<2x8x4xf32>) outs(%o : memref<2x8x4xf32>) schedule = #buf.schedule<attention, groups = [3, 2, 1], rows = 2, columns = 1, lanes = 8, depth = 2> {
  ^bb0(%0: memref<2x8x4xf32>, %1: memref<2x8x4xf32>):
    buf.attention "forward" ins(%0, %0, %0 : memref<2x8x4xf32>, memref<2x8x4xf32>, memref<2x8x4xf32>) outs(%1 : memref<2x8x4xf32>) {parameters = {groups = 2 : i64, queries = 8 : i64, keys = 8 : i64, features = 4 : i64, values = 4 : i64, period = 8 : i64, biases = 0 : i64, masks = 0 : i64, scale = 1.0 : f64, fill = 0.0 : f64, zeros = false}, maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>]}
  }
  func.return
}

// -----

// Tasks that no point belongs to would write outside of the buffers.
// CHECK: the schedule has [5, 1, 1] tasks, grid [64] needs 4
func.func @f(%x: memref<64xf32>, %o: memref<64xf32>) {
  buf.kernel grid = [64] ins(%x : memref<64xf32>) outs(%o : memref<64xf32>) schedule = #buf.schedule<loops, groups = [5, 1, 1], block = 16> {
  ^bb0(%0: memref<64xf32>, %1: memref<64xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%0 : memref<64xf32>) outs(%1 : memref<64xf32>) {
    ^bb2(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: the schedule has [3, 1, 1] tasks, grid [64] needs 2
func.func @f(%x: memref<64xf32>, %o: memref<64xf32>) {
  buf.kernel grid = [64] ins(%x : memref<64xf32>) outs(%o : memref<64xf32>) schedule = #buf.schedule<packed, groups = [3, 1, 1], row = [], column = [0], tile_rows = 1, tile_columns = 32, rows = 1, columns = 8, lanes = 8, depth = 8> {
  ^bb0(%0: memref<64xf32>, %1: memref<64xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%0 : memref<64xf32>) outs(%1 : memref<64xf32>) {
    ^bb2(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: the schedule has [5, 1, 1] tasks, grid [2, 8] needs 4
func.func @f(%q: memref<2x8x4xf32>, %o: memref<2x8x4xf32>) {
  buf.kernel grid = [2, 8] ins(%q : memref<2x8x4xf32>) outs(%o : memref<2x8x4xf32>) schedule = #buf.schedule<native_attention, groups = [5, 1, 1], head = 8, rows = 4, columns = 8, lanes = 4, vectors = 1, sums = 6> {
  ^bb0(%0: memref<2x8x4xf32>, %1: memref<2x8x4xf32>):
    buf.attention "forward" ins(%0, %0, %0 : memref<2x8x4xf32>, memref<2x8x4xf32>, memref<2x8x4xf32>) outs(%1 : memref<2x8x4xf32>) {parameters = {groups = 2 : i64, queries = 8 : i64, keys = 8 : i64, features = 4 : i64, values = 4 : i64, period = 8 : i64, biases = 0 : i64, masks = 0 : i64, scale = 1.0 : f64, fill = 0.0 : f64, zeros = false}, maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>]}
  }
  func.return
}

// -----

// Terms that are left over would be in no step.
// CHECK: 4 steps don't divide the innermost loop of 11
func.func @f(%a: memref<16x11xf32>, %b: memref<11x12xf32>, %c: memref<16x12xf32>) {
  buf.kernel grid = [16, 12] ins(%a, %b : memref<16x11xf32>, memref<11x12xf32>) outs(%c : memref<16x12xf32>) schedule = #buf.schedule<contraction, groups = [3, 4, 1], row = [0], column = [1], rows = 1, columns = 1, lanes = 4, depth = 4, steps = 4> {
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

// -----

// CHECK: a reduction of 1 loops has none with number 1
func.func @f(%a: memref<16x11xf32>, %b: memref<11x12xf32>, %c: memref<16x12xf32>) {
  buf.kernel grid = [16, 12] ins(%a, %b : memref<16x11xf32>, memref<11x12xf32>) outs(%c : memref<16x12xf32>) schedule = #buf.schedule<contraction, groups = [3, 4, 1], row = [0], column = [1], rows = 1, columns = 1, lanes = 4, depth = 4, inner = 1> {
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

// -----

// CHECK: columns are read in place or from a padded image, not both
func.func @f(%a: memref<16x11xf32>, %b: memref<11x12xf32>, %c: memref<16x12xf32>) {
  buf.kernel grid = [16, 12] ins(%a, %b : memref<16x11xf32>, memref<11x12xf32>) outs(%c : memref<16x12xf32>) schedule = #buf.schedule<packed, groups = [3, 1, 1], row = [0], column = [1], tile_rows = 6, tile_columns = 12, rows = 2, columns = 4, lanes = 4, depth = 3, direct_columns = 1, pitch = 14> {
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

// -----

// CHECK: registers hold a vector of each line only for one row, of an image read in place
func.func @f(%a: memref<16x11xf32>, %b: memref<11x12xf32>, %c: memref<16x12xf32>) {
  buf.kernel grid = [16, 12] ins(%a, %b : memref<16x11xf32>, memref<11x12xf32>) outs(%c : memref<16x12xf32>) schedule = #buf.schedule<packed, groups = [3, 1, 1], row = [0], column = [1], tile_rows = 6, tile_columns = 12, rows = 2, columns = 4, lanes = 4, depth = 3, lines = 4> {
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

// -----

// CHECK: a padded image has lines of a pitch, with a gap between them or split
func.func @f(%a: memref<16x11xf32>, %b: memref<11x12xf32>, %c: memref<16x12xf32>) {
  buf.kernel grid = [16, 12] ins(%a, %b : memref<16x11xf32>, memref<11x12xf32>) outs(%c : memref<16x12xf32>) schedule = #buf.schedule<packed, groups = [3, 1, 1], row = [0], column = [1], tile_rows = 6, tile_columns = 12, rows = 2, columns = 4, lanes = 4, depth = 3, gap = 2> {
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

// -----

// CHECK: lanes of one subgroup broadcast their rows, in a workgroup of depth 1; got broadcast = 1, depth = 4
func.func @f(%a: memref<16x11xf32>, %b: memref<11x12xf32>, %c: memref<16x12xf32>) {
  buf.kernel grid = [16, 12] ins(%a, %b : memref<16x11xf32>, memref<11x12xf32>) outs(%c : memref<16x12xf32>) schedule = #buf.schedule<contraction, groups = [3, 4, 1], row = [0], column = [1], rows = 1, columns = 1, lanes = 4, depth = 4, broadcast = 1> {
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

// -----

// CHECK: rows are broadcast, or staged in workgroup memory in chunks, not both
func.func @f(%a: memref<16x11xf32>, %b: memref<11x12xf32>, %c: memref<16x12xf32>) {
  buf.kernel grid = [16, 12] ins(%a, %b : memref<16x11xf32>, memref<11x12xf32>) outs(%c : memref<16x12xf32>) schedule = #buf.schedule<contraction, groups = [3, 4, 1], row = [0], column = [1], rows = 4, columns = 1, lanes = 4, depth = 1, broadcast = 1, chunk = 8> {
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

// -----

// CHECK: rows pass one block of columns after another only if they are read in place
func.func @f(%a: memref<16x11xf32>, %b: memref<11x12xf32>, %c: memref<16x12xf32>) {
  buf.kernel grid = [16, 12] ins(%a, %b : memref<16x11xf32>, memref<11x12xf32>) outs(%c : memref<16x12xf32>) schedule = #buf.schedule<packed, groups = [3, 1, 1], row = [0], column = [1], tile_rows = 6, tile_columns = 12, rows = 2, columns = 4, lanes = 4, depth = 3, by_columns = 1> {
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
