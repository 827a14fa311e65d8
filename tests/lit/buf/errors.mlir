// RUN: tg-opt %s --split-input-file --parsing-diagnostics --print-diagnostics | filecheck %s

// CHECK: the block's arguments must have the operands' types, in order
func.func @f(%x: memref<4xf32>, %y: memref<4xf32>) {
  buf.kernel grid = [4] ins(%x : memref<4xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%a: memref<4xf32>, %b: memref<4xf32>, %c: memref<4xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : memref<4xf32>) outs(%b : memref<4xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    }
  }
  func.return
}

// -----

// CHECK: a kernel may hold only stages (linalg.generic) and locals, got arith.constant
func.func @f(%x: memref<4xf32>, %y: memref<4xf32>) {
  buf.kernel grid = [4] ins(%x : memref<4xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%a: memref<4xf32>, %b: memref<4xf32>):
    %c = arith.constant 0 : index
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : memref<4xf32>) outs(%b : memref<4xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    }
  }
  func.return
}

// -----

// CHECK: a local must have the grid's shape [4], got memref<2xf32>
func.func @f(%x: memref<4xf32>, %y: memref<4xf32>) {
  buf.kernel grid = [4] ins(%x : memref<4xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%a: memref<4xf32>, %b: memref<4xf32>):
    %l = memref.alloca() : memref<2xf32>
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : memref<4xf32>) outs(%b : memref<4xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    }
  }
  func.return
}

// -----

// CHECK: a stage's first loops [4] must be the grid [2]
func.func @f(%x: memref<4xf32>, %y: memref<4xf32>) {
  buf.kernel grid = [2] ins(%x : memref<4xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%a: memref<4xf32>, %b: memref<4xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : memref<4xf32>) outs(%b : memref<4xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    }
  }
  func.return
}

// -----

// CHECK: the loops of the grid must be parallel
func.func @f(%x: memref<4xf32>, %y: memref<f32>) {
  buf.kernel grid = [4] ins(%x : memref<4xf32>) outs(%y : memref<f32>) {
  ^bb0(%a: memref<4xf32>, %b: memref<f32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>], iterator_types = ["reduction"]} ins(%a : memref<4xf32>) outs(%b : memref<f32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    }
  }
  func.return
}

// -----

// CHECK: invalid indexing maps are non-invertible
func.func @f(%y: memref<4xf32>) {
  buf.kernel grid = [4] outs(%y : memref<4xf32>) {
  ^bb0(%b: memref<4xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (-d0 + 3)>], iterator_types = ["parallel"]} outs(%b : memref<4xf32>) {
    ^bb0(%out: f32):
      linalg.yield %out : f32
    }
  }
  func.return
}

// -----

// CHECK: every output and every local must be written by exactly one stage
func.func @f(%x: memref<4xf32>, %y: memref<4xf32>) {
  buf.kernel grid = [4] ins(%x : memref<4xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%a: memref<4xf32>, %b: memref<4xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : memref<4xf32>) outs(%b : memref<4xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    }
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : memref<4xf32>) outs(%b : memref<4xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    }
  }
  func.return
}

// -----

// CHECK: every output and every local must be written by exactly one stage
func.func @f(%x: memref<4xf32>, %y: memref<4xf32>) {
  buf.kernel grid = [4] ins(%x : memref<4xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%a: memref<4xf32>, %b: memref<4xf32>):
    %l = memref.alloca() : memref<4xf32>
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : memref<4xf32>) outs(%b : memref<4xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    }
  }
  func.return
}

// -----

// CHECK: a buffer must have exactly one writer, this one has 2
func.func @f(%x: memref<4xf32>, %y: memref<4xf32>) {
  buf.kernel grid = [4] ins(%x : memref<4xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%a: memref<4xf32>, %b: memref<4xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : memref<4xf32>) outs(%b : memref<4xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    }
  }
  buf.kernel grid = [4] ins(%x : memref<4xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%a: memref<4xf32>, %b: memref<4xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : memref<4xf32>) outs(%b : memref<4xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    }
  }
  func.return
}

// -----

// CHECK: role 'weights' is not one of parameter, state, input, scalar, constant, output, workspace
func.func @f() {
  %0 = buf.arena "a" role = "weights" : memref<16xi8>
  func.return
}

// -----

// CHECK: an arena must be a one-dimensional memref of bytes
func.func @f() {
  %0 = buf.arena "a" role = "state" : memref<4xf32>
  func.return
}

// -----

// CHECK: a view must be into a buf.arena
func.func @f(%x: memref<16xi8>) {
  %0 = buf.view %x[0] : memref<16xi8> to memref<4xf32>
  func.return
}

// -----

// CHECK: bytes [4, 20) are not an aligned range of an arena of 16 bytes
func.func @f() {
  %0 = buf.arena "a" role = "state" : memref<16xi8>
  %1 = buf.view %0[4] : memref<16xi8> to memref<4xf32>
  func.return
}

// -----

// CHECK: bytes [2, 6) are not an aligned range of an arena of 16 bytes
func.func @f() {
  %0 = buf.arena "a" role = "state" : memref<16xi8>
  %1 = buf.view %0[2] : memref<16xi8> to memref<1xf32>
  func.return
}

// -----

// CHECK: a view must be contiguous
func.func @f() {
  %0 = buf.arena "a" role = "state" : memref<64xi8>
  %1 = buf.view %0[0] : memref<64xi8> to memref<4xf32, strided<[2]>>
  func.return
}

// -----

// CHECK: workgroups must be three positive counts, got [1, 0, 1]
func.func @f() {
  %0 = buf.arena "a" role = "state" : memref<16xi8>
  %1 = buf.view %0[0] : memref<16xi8> to memref<4xf32>
  buf.dispatch @k workgroups = [1, 0, 1] (%1) : memref<4xf32>
  func.return
}

// -----

// CHECK: a binding must be a buf.view
func.func @f(%x: memref<4xf32>) {
  buf.dispatch @k workgroups = [1, 1, 1] (%x) : memref<4xf32>
  func.return
}

// -----

func.func @missing() {
  %0 = buf.arena "inputs" role = "input" : memref<256xi8>
  %1 = buf.view %0[0] : memref<256xi8> to memref<4xf32>
  // CHECK: there is no kernel @k
  buf.dispatch @k workgroups = [1, 1, 1] (%1) : memref<4xf32>
  func.return
}

// -----

wgsl.kernel @k workgroup_size = [8, 1, 1] access = ["read", "read_write"] {
^bb0(%x: memref<4xf32>, %y: memref<4xf32>):
}
func.func @dropped() {
  %0 = buf.arena "inputs" role = "input" : memref<256xi8>
  %1 = buf.view %0[0] : memref<256xi8> to memref<4xf32>
  // CHECK: dispatch of @k: it takes 2 bindings, got 1
  buf.dispatch @k workgroups = [1, 1, 1] (%1) : memref<4xf32>
  func.return
}

// -----

cpu.kernel @k access = ["read_write"] {
^bb0(%x: memref<8xf32>, %first: index, %last: index):
}
func.func @smaller() {
  %0 = buf.arena "inputs" role = "input" : memref<256xi8>
  %1 = buf.view %0[0] : memref<256xi8> to memref<4xf32>
  %2 = buf.view %0[64] : memref<256xi8> to memref<2x4xf32>
  buf.dispatch @k workgroups = [1, 1, 1] (%2) : memref<2x4xf32>
  // CHECK: dispatch of @k: binding 0 is a memref<8xf32>, got a memref<4xf32>
  buf.dispatch @k workgroups = [1, 1, 1] (%1) : memref<4xf32>
  func.return
}

// -----

// CHECK: a row must be one-dimensional and have one offset for each of its buffers
func.func @f(%x: memref<4xf32>, %y: memref<4xf32>, %z: memref<4xi32>) {
  %0 = buf.pack %x, %y offsets = [0] : memref<4xf32>, memref<4xf32> to memref<128xf32>
  func.return
}

// -----

// CHECK: a row of f32 must hold buffers of its element type, got i32
func.func @f(%x: memref<4xf32>, %y: memref<4xf32>, %z: memref<4xi32>) {
  %0 = buf.pack %x, %z offsets = [0, 64] : memref<4xf32>, memref<4xi32> to memref<128xf32>
  func.return
}

// -----

// CHECK: the buffer at 3 starts before 4, the end of the preceding one
func.func @f(%x: memref<4xf32>, %y: memref<4xf32>, %z: memref<4xi32>) {
  %0 = buf.pack %x, %y offsets = [0, 3] : memref<4xf32>, memref<4xf32> to memref<128xf32>
  func.return
}

// -----

// CHECK: buffers up to 68 don't fit in memref<64xf32>, or one is listed twice
func.func @f(%x: memref<4xf32>, %y: memref<4xf32>, %z: memref<4xi32>) {
  %0 = buf.pack %x, %y offsets = [0, 64] : memref<4xf32>, memref<4xf32> to memref<64xf32>
  func.return
}

// -----

// CHECK: buffers up to 68 don't fit in memref<128xf32>, or one is listed twice
func.func @f(%x: memref<4xf32>, %y: memref<4xf32>, %z: memref<4xi32>) {
  %0 = buf.pack %x, %x offsets = [0, 64] : memref<4xf32>, memref<4xf32> to memref<128xf32>
  func.return
}

// -----

// CHECK: a buffer may be in one row at most
func.func @f(%x: memref<4xf32>, %y: memref<4xf32>, %z: memref<4xi32>) {
  %0 = buf.pack %x offsets = [0] : memref<4xf32> to memref<4xf32>
  %1 = buf.pack %x offsets = [0] : memref<4xf32> to memref<4xf32>
  func.return
}

// -----

// A stage reads the result of an earlier one at another grid point.
// CHECK: a stage may read the result of an earlier one at its own point only, not at (d0) ->
func.func @f(%x: memref<4xf32>, %y: memref<4xf32>) {
  buf.kernel grid = [4] ins(%x : memref<4xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%0: memref<4xf32>, %1: memref<4xf32>):
    %2 = memref.alloca() : memref<4xf32>
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%0 : memref<4xf32>) outs(%2 : memref<4xf32>) {
    ^bb1(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
    linalg.generic {indexing_maps = [affine_map<(d0) -> (3 - d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%2 : memref<4xf32>) outs(%1 : memref<4xf32>) {
    ^bb2(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: a stage may not load from a buffer that the kernel writes
func.func @f(%x: memref<4xf32>, %y: memref<4xf32>) {
  buf.kernel grid = [4] ins(%x : memref<4xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%0: memref<4xf32>, %1: memref<4xf32>):
    %2 = memref.alloca() : memref<4xf32>
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%0 : memref<4xf32>) outs(%2 : memref<4xf32>) {
    ^bb1(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} outs(%1 : memref<4xf32>) {
    ^bb2(%b: f32):
      %i = linalg.index 0 : index
      %a = memref.load %2[%i] : memref<4xf32>
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: a stage reads a buffer that the kernel writes later
func.func @f(%x: memref<4xf32>, %y: memref<4xf32>) {
  buf.kernel grid = [4] ins(%x : memref<4xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%0: memref<4xf32>, %1: memref<4xf32>):
    %2 = memref.alloca() : memref<4xf32>
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%2 : memref<4xf32>) outs(%1 : memref<4xf32>) {
    ^bb1(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%0 : memref<4xf32>) outs(%2 : memref<4xf32>) {
    ^bb2(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: forward takes 3 inputs and 2 outputs
func.func @f(%q: memref<2x8x4xf32>, %o: memref<2x8x4xf32>) {
  buf.kernel grid = [2, 8] ins(%q : memref<2x8x4xf32>) outs(%o : memref<2x8x4xf32>) {
  ^bb0(%0: memref<2x8x4xf32>, %1: memref<2x8x4xf32>):
    buf.attention "forward" ins(%0, %0 : memref<2x8x4xf32>, memref<2x8x4xf32>) outs(%1 : memref<2x8x4xf32>) {parameters = {groups = 2 : i64, queries = 8 : i64, keys = 8 : i64, features = 4 : i64, values = 4 : i64, period = 8 : i64, biases = 0 : i64, masks = 0 : i64, scale = 1.0 : f64, fill = 0.0 : f64, zeros = false}, maps = []}
  }
  func.return
}

// -----

// CHECK: a buf.attention must be the only op of its kernel, whose grid must be [2, 8]
func.func @f(%q: memref<2x8x4xf32>, %o: memref<2x8x4xf32>) {
  buf.kernel grid = [2, 4] ins(%q : memref<2x8x4xf32>) outs(%o : memref<2x8x4xf32>) {
  ^bb0(%0: memref<2x8x4xf32>, %1: memref<2x8x4xf32>):
    buf.attention "forward" ins(%0, %0, %0 : memref<2x8x4xf32>, memref<2x8x4xf32>, memref<2x8x4xf32>) outs(%1 : memref<2x8x4xf32>) {parameters = {groups = 2 : i64, queries = 8 : i64, keys = 8 : i64, features = 4 : i64, values = 4 : i64, period = 8 : i64, biases = 0 : i64, masks = 0 : i64, scale = 1.0 : f64, fill = 0.0 : f64, zeros = false}, maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>]}
  }
  func.return
}

// -----

// CHECK: attention has the parameters biases, causal, features, fill, groups, keys, masks, period, queries, scale, values, zeros, not groups
func.func @f(%q: memref<2x8x4xf32>, %o: memref<2x8x4xf32>) {
  buf.kernel grid = [2, 8] ins(%q : memref<2x8x4xf32>) outs(%o : memref<2x8x4xf32>) {
  ^bb0(%0: memref<2x8x4xf32>, %1: memref<2x8x4xf32>):
    buf.attention "forward" ins(%0, %0, %0 : memref<2x8x4xf32>, memref<2x8x4xf32>, memref<2x8x4xf32>) outs(%1 : memref<2x8x4xf32>) {parameters = {groups = 2 : i64}, maps = []}
  }
  func.return
}

// -----

// CHECK: a thread schedule needs groups
func.func @f(%x: memref<64xf32>, %o: memref<64xf32>) {
  buf.kernel grid = [64] ins(%x : memref<64xf32>) outs(%o : memref<64xf32>) schedule = #buf.schedule<thread, workgroup = [8, 1, 1]> {
  ^bb0(%0: memref<64xf32>, %1: memref<64xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%0 : memref<64xf32>) outs(%1 : memref<64xf32>) {
    ^bb2(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: a schedule's archetype must be one of thread, group, contraction, attention, loops, packed, native_attention, counting_sort, scan, recipe, got threads
func.func @f(%x: memref<64xf32>, %o: memref<64xf32>) {
  buf.kernel grid = [64] ins(%x : memref<64xf32>) outs(%o : memref<64xf32>) schedule = #buf.schedule<threads, workgroup = [8, 1, 1], groups = [8, 1, 1]> {
  ^bb0(%0: memref<64xf32>, %1: memref<64xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%0 : memref<64xf32>) outs(%1 : memref<64xf32>) {
    ^bb2(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: a schedule's workgroup must be a list of integers of 32 bits of at least 1, got [8, 0, 1]
func.func @f(%x: memref<64xf32>, %o: memref<64xf32>) {
  buf.kernel grid = [64] ins(%x : memref<64xf32>) outs(%o : memref<64xf32>) schedule = #buf.schedule<thread, workgroup = [8, 0, 1], groups = [8, 1, 1]> {
  ^bb0(%0: memref<64xf32>, %1: memref<64xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%0 : memref<64xf32>) outs(%1 : memref<64xf32>) {
    ^bb2(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: the schedule's threads compute 56 points, the grid has 64
func.func @f(%x: memref<64xf32>, %o: memref<64xf32>) {
  buf.kernel grid = [64] ins(%x : memref<64xf32>) outs(%o : memref<64xf32>) schedule = #buf.schedule<thread, workgroup = [8, 1, 1], groups = [7, 1, 1]> {
  ^bb0(%0: memref<64xf32>, %1: memref<64xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%0 : memref<64xf32>) outs(%1 : memref<64xf32>) {
    ^bb2(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: the schedule has [63, 1, 1] workgroups, one for each point needs [64, 1, 1]
func.func @f(%x: memref<64xf32>, %o: memref<64xf32>) {
  buf.kernel grid = [64] ins(%x : memref<64xf32>) outs(%o : memref<64xf32>) schedule = #buf.schedule<group, workgroup = [8, 1, 1], groups = [63, 1, 1]> {
  ^bb0(%0: memref<64xf32>, %1: memref<64xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%0 : memref<64xf32>) outs(%1 : memref<64xf32>) {
    ^bb2(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: a contraction schedule needs row
func.func @f(%x: memref<64xf32>, %o: memref<64xf32>) {
  buf.kernel grid = [64] ins(%x : memref<64xf32>) outs(%o : memref<64xf32>) schedule = #buf.schedule<contraction, groups = [63, 1, 1]> {
  ^bb0(%0: memref<64xf32>, %1: memref<64xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%0 : memref<64xf32>) outs(%1 : memref<64xf32>) {
    ^bb2(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: a thread schedule has no field rows; its fields are workgroup, groups, steps, width
func.func @f(%x: memref<64xf32>, %o: memref<64xf32>) {
  buf.kernel grid = [64] ins(%x : memref<64xf32>) outs(%o : memref<64xf32>) schedule = #buf.schedule<thread, workgroup = [8, 1, 1], groups = [8, 1, 1], rows = 2> {
  ^bb0(%0: memref<64xf32>, %1: memref<64xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%0 : memref<64xf32>) outs(%1 : memref<64xf32>) {
    ^bb2(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: a schedule's groups must be a list of 3 integers of 32 bits of at least 1, got [8]
func.func @f(%x: memref<64xf32>, %o: memref<64xf32>) {
  buf.kernel grid = [64] ins(%x : memref<64xf32>) outs(%o : memref<64xf32>) schedule = #buf.schedule<thread, workgroup = [8, 1, 1], groups = [8]> {
  ^bb0(%0: memref<64xf32>, %1: memref<64xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%0 : memref<64xf32>) outs(%1 : memref<64xf32>) {
    ^bb2(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: a schedule's width must be an integer of 32 bits of at least 1, got 0
func.func @f(%x: memref<64xf32>, %o: memref<64xf32>) {
  buf.kernel grid = [64] ins(%x : memref<64xf32>) outs(%o : memref<64xf32>) schedule = #buf.schedule<thread, workgroup = [8, 1, 1], groups = [8, 1, 1], width = 0> {
  ^bb0(%0: memref<64xf32>, %1: memref<64xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%0 : memref<64xf32>) outs(%1 : memref<64xf32>) {
    ^bb2(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: the schedule has [1, 1, 1] workgroups, its tile needs [2, 1, 1]
func.func @f(%x: memref<64xf32>, %o: memref<64xf32>) {
  buf.kernel grid = [64] ins(%x : memref<64xf32>) outs(%o : memref<64xf32>) schedule = #buf.schedule<contraction, groups = [1, 1, 1], row = [], column = [0], rows = 1, columns = 4, lanes = 8, depth = 1> {
  ^bb0(%0: memref<64xf32>, %1: memref<64xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%0 : memref<64xf32>) outs(%1 : memref<64xf32>) {
    ^bb2(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: a schedule of the archetype attention is for buf.attention, not for stages
func.func @f(%x: memref<64xf32>, %o: memref<64xf32>) {
  buf.kernel grid = [64] ins(%x : memref<64xf32>) outs(%o : memref<64xf32>) schedule = #buf.schedule<attention, groups = [8, 1, 1], rows = 1, columns = 1, lanes = 8, depth = 1> {
  ^bb0(%0: memref<64xf32>, %1: memref<64xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%0 : memref<64xf32>) outs(%1 : memref<64xf32>) {
    ^bb2(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: the schedule has 1 blocks of rows for 2 groups; 8 rows of 2 groups take 2 for 2
func.func @f(%q: memref<2x8x4xf32>, %o: memref<2x8x4xf32>) {
  buf.kernel grid = [2, 8] ins(%q : memref<2x8x4xf32>) outs(%o : memref<2x8x4xf32>) schedule = #buf.schedule<attention, groups = [1, 2, 1], rows = 2, columns = 1, lanes = 8, depth = 2> {
  ^bb0(%0: memref<2x8x4xf32>, %1: memref<2x8x4xf32>):
    buf.attention "forward" ins(%0, %0, %0 : memref<2x8x4xf32>, memref<2x8x4xf32>, memref<2x8x4xf32>) outs(%1 : memref<2x8x4xf32>) {parameters = {groups = 2 : i64, queries = 8 : i64, keys = 8 : i64, features = 4 : i64, values = 4 : i64, period = 8 : i64, biases = 0 : i64, masks = 0 : i64, scale = 1.0 : f64, fill = 0.0 : f64, zeros = false}, maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>]}
  }
  func.return
}

// -----

// CHECK: a block must have whole vectors of rows, and heads must divide the rows
func.func @f(%q: memref<2x8x4xf32>, %o: memref<2x8x4xf32>) {
  buf.kernel grid = [2, 8] ins(%q : memref<2x8x4xf32>) outs(%o : memref<2x8x4xf32>) schedule = #buf.schedule<native_attention, groups = [2, 1, 1], head = 8, rows = 8, columns = 8, lanes = 8, vectors = 2, sums = 6> {
  ^bb0(%0: memref<2x8x4xf32>, %1: memref<2x8x4xf32>):
    buf.attention "forward" ins(%0, %0, %0 : memref<2x8x4xf32>, memref<2x8x4xf32>, memref<2x8x4xf32>) outs(%1 : memref<2x8x4xf32>) {parameters = {groups = 2 : i64, queries = 8 : i64, keys = 8 : i64, features = 4 : i64, values = 4 : i64, period = 8 : i64, biases = 0 : i64, masks = 0 : i64, scale = 1.0 : f64, fill = 0.0 : f64, zeros = false}, maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>]}
  }
  func.return
}

// -----

// CHECK: the schedule has [3, 1, 1] tasks, grid [2, 8] needs 4
func.func @f(%q: memref<2x8x4xf32>, %o: memref<2x8x4xf32>) {
  buf.kernel grid = [2, 8] ins(%q : memref<2x8x4xf32>) outs(%o : memref<2x8x4xf32>) schedule = #buf.schedule<native_attention, groups = [3, 1, 1], head = 8, rows = 4, columns = 8, lanes = 4, vectors = 1, sums = 6> {
  ^bb0(%0: memref<2x8x4xf32>, %1: memref<2x8x4xf32>):
    buf.attention "forward" ins(%0, %0, %0 : memref<2x8x4xf32>, memref<2x8x4xf32>, memref<2x8x4xf32>) outs(%1 : memref<2x8x4xf32>) {parameters = {groups = 2 : i64, queries = 8 : i64, keys = 8 : i64, features = 4 : i64, values = 4 : i64, period = 8 : i64, biases = 0 : i64, masks = 0 : i64, scale = 1.0 : f64, fill = 0.0 : f64, zeros = false}, maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>]}
  }
  func.return
}

// -----

// CHECK: backward takes 6 inputs and 3 outputs
func.func @f(%q: memref<2x8x4xf32>, %o: memref<2x8x4xf32>) {
  buf.kernel grid = [2, 1] ins(%q : memref<2x8x4xf32>) outs(%o : memref<2x8x4xf32>) {
  ^bb0(%0: memref<2x8x4xf32>, %1: memref<2x8x4xf32>):
    buf.attention "backward" ins(%0, %0, %0 : memref<2x8x4xf32>, memref<2x8x4xf32>, memref<2x8x4xf32>) outs(%1 : memref<2x8x4xf32>) {parameters = {groups = 2 : i64, queries = 8 : i64, keys = 8 : i64, features = 4 : i64, values = 4 : i64, period = 8 : i64, biases = 0 : i64, masks = 0 : i64, scale = 1.0 : f64, fill = 0.0 : f64, zeros = false}, maps = []}
  }
  func.return
}

// -----

// CHECK: a thread computes 3 neighbours, which must divide the last extent of grid [64]
func.func @f(%x: memref<64xf32>, %o: memref<64xf32>) {
  buf.kernel grid = [64] ins(%x : memref<64xf32>) outs(%o : memref<64xf32>) schedule = #buf.schedule<thread, workgroup = [8, 1, 1], groups = [8, 1, 1], width = 3> {
  ^bb0(%0: memref<64xf32>, %1: memref<64xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%0 : memref<64xf32>) outs(%1 : memref<64xf32>) {
    ^bb2(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: lanes reduce by halves, so their number must be a power of two, got 12
func.func @f(%x: memref<64xf32>, %o: memref<64xf32>) {
  buf.kernel grid = [64] ins(%x : memref<64xf32>) outs(%o : memref<64xf32>) schedule = #buf.schedule<group, workgroup = [12, 1, 1], groups = [64, 1, 1]> {
  ^bb0(%0: memref<64xf32>, %1: memref<64xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%0 : memref<64xf32>) outs(%1 : memref<64xf32>) {
    ^bb2(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: a schedule's width is given twice
func.func @f(%x: memref<64xf32>, %o: memref<64xf32>) {
  buf.kernel grid = [64] ins(%x : memref<64xf32>) outs(%o : memref<64xf32>) schedule = #buf.schedule<thread, workgroup = [8, 1, 1], groups = [8, 1, 1], width = 2, width = 4> {
  ^bb0(%0: memref<64xf32>, %1: memref<64xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%0 : memref<64xf32>) outs(%1 : memref<64xf32>) {
    ^bb2(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: a kernel with a recipe takes no schedule but `recipe`, which no other kernel takes, got RecipeSchedule(groups=(8, 1, 1))
func.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  buf.kernel grid = [8] ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) schedule = #buf.schedule<recipe, groups = [8, 1, 1]> {
  ^bb0(%0: memref<8xf32>, %1: memref<8xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%0 : memref<8xf32>) outs(%1 : memref<8xf32>) {
    ^bb1(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: a kernel with a recipe takes no schedule but `recipe`, which no other kernel takes, got LoopsSchedule(
func.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  buf.kernel grid = [8] ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) schedule = #buf.schedule<loops, groups = [8, 1, 1]> recipe = #buf.recipe<map(to = [task])> {
  ^bb0(%0: memref<8xf32>, %1: memref<8xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%0 : memref<8xf32>) outs(%1 : memref<8xf32>) {
    ^bb1(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: a view that the caller knows has both tg.name and tg.role
func.func @f() {
  %0 = buf.arena "a" role = "input" : memref<16xi8>
  %1 = buf.view %0[0] attributes {tg.name = "x"} : memref<16xi8> to memref<4xf32>
  func.return
}

// -----

// CHECK: role 'inputs' is not one of parameter, state, input
func.func @f() {
  %0 = buf.arena "a" role = "input" : memref<16xi8>
  %1 = buf.view %0[0] attributes {tg.name = "x", tg.role = "inputs"} : memref<16xi8> to memref<4xf32>
  func.return
}

// -----

// CHECK: tg.role must be a string, got 1 : i64
func.func @f() {
  %0 = buf.arena "a" role = "input" : memref<16xi8>
  %1 = buf.view %0[0] attributes {tg.name = "x", tg.role = 1} : memref<16xi8> to memref<4xf32>
  func.return
}
