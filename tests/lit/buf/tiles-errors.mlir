// RUN: tg-opt %s --split-input-file --parsing-diagnostics --print-diagnostics | filecheck %s

// CHECK: a tiled kernel may not write its inputs
func.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  buf.tiled ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) {
  ^bb0(%0: memref<8xf32>, %1: memref<8xf32>):
    "memref.copy"(%1, %0) : (memref<8xf32>, memref<8xf32>) -> ()
    "memref.copy"(%0, %1) : (memref<8xf32>, memref<8xf32>) -> ()
  }
  func.return
}

// -----

// CHECK: a tiled kernel must write all of its outputs
func.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  buf.tiled ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) {
  ^bb0(%0: memref<8xf32>, %1: memref<8xf32>):
    %c = arith.constant 0 : index
  }
  func.return
}

// -----

// CHECK: a tiled kernel may hold only loops, stages and local memory, got arith.addi
func.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  buf.tiled ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) {
  ^bb0(%0: memref<8xf32>, %1: memref<8xf32>):
    "memref.copy"(%0, %1) : (memref<8xf32>, memref<8xf32>) -> ()
    %c = arith.constant 0 : index
    %d = arith.addi %c, %c : index
  }
  func.return
}

// -----

// CHECK: local memory needs a space: #buf.space<register>, #buf.space<workgroup>, #buf.space<scratch>
func.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  buf.tiled ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) {
  ^bb0(%0: memref<8xf32>, %1: memref<8xf32>):
    "memref.copy"(%0, %1) : (memref<8xf32>, memref<8xf32>) -> ()
    %l = memref.alloca() : memref<4xf32>
  }
  func.return
}

// -----

// CHECK: memory of a workgroup must be allocated in a loop over workgroups, outside of loops over lanes
func.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  buf.tiled ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) {
  ^bb0(%0: memref<8xf32>, %1: memref<8xf32>):
    "memref.copy"(%0, %1) : (memref<8xf32>, memref<8xf32>) -> ()
    %l = memref.alloca() : memref<4xf32, #buf.space<workgroup>>
  }
  func.return
}

// -----

// CHECK: scratch memory must be allocated in a loop over tasks
func.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  buf.tiled ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) {
  ^bb0(%0: memref<8xf32>, %1: memref<8xf32>):
    "memref.copy"(%0, %1) : (memref<8xf32>, memref<8xf32>) -> ()
    %l = memref.alloca() : memref<4xf32, #buf.space<scratch>>
  }
  func.return
}

// -----

// CHECK: a barrier must lie in a loop over workgroups, and outside of loops over lanes
func.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  buf.tiled ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) {
  ^bb0(%0: memref<8xf32>, %1: memref<8xf32>):
    "memref.copy"(%0, %1) : (memref<8xf32>, memref<8xf32>) -> ()
    "gpu.barrier"() : () -> ()
  }
  func.return
}

// -----

// CHECK: two loops have the processor workgroup_x
func.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  buf.tiled ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) {
  ^bb0(%0: memref<8xf32>, %1: memref<8xf32>):
    "memref.copy"(%0, %1) : (memref<8xf32>, memref<8xf32>) -> ()
    buf.forall (%g) in (4) mapping (workgroup_x) {
      buf.forall (%h) in (4) mapping (workgroup_x) {
        %c = arith.constant 0 : index
      }
    }
  }
  func.return
}

// -----

// CHECK: a loop over task lies in a loop over unroll: it must be outside
func.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  buf.tiled ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) {
  ^bb0(%0: memref<8xf32>, %1: memref<8xf32>):
    "memref.copy"(%0, %1) : (memref<8xf32>, memref<8xf32>) -> ()
    buf.forall (%g) in (4) mapping (unroll) {
      buf.forall (%h) in (4) mapping (task) {
        %c = arith.constant 0 : index
      }
    }
  }
  func.return
}

// -----

// CHECK: a loop over lanes must lie in a loop over workgroups
func.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  buf.tiled ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) {
  ^bb0(%0: memref<8xf32>, %1: memref<8xf32>):
    "memref.copy"(%0, %1) : (memref<8xf32>, memref<8xf32>) -> ()
    buf.forall (%g) in (4) mapping (lane) {
      %c = arith.constant 0 : index
    }
  }
  func.return
}

// -----

// CHECK: a loop over lanes lies in another one
func.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  buf.tiled ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) {
  ^bb0(%0: memref<8xf32>, %1: memref<8xf32>):
    "memref.copy"(%0, %1) : (memref<8xf32>, memref<8xf32>) -> ()
    buf.forall (%g) in (4) mapping (workgroup_x) {
      buf.forall (%h) in (4) mapping (lane) {
        buf.forall (%i) in (4) mapping (lane) {
          %c = arith.constant 0 : index
        }
      }
    }
  }
  func.return
}

// -----

// CHECK: a loop over lanes needs a most number of iterations: a number, or an affine.min
func.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  buf.tiled ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) {
  ^bb0(%0: memref<8xf32>, %1: memref<8xf32>):
    "memref.copy"(%0, %1) : (memref<8xf32>, memref<8xf32>) -> ()
    buf.forall (%g) in (4) mapping (workgroup_x) {
      buf.forall (%h) in (%g) mapping (lane) {
        %c = arith.constant 0 : index
      }
    }
  }
  func.return
}

// -----

// CHECK: a lane writes a register that all lanes share: allocate it inside the loop over lanes or in the memory of the workgroup, or write a part that depends on each loop over lanes
func.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  buf.tiled ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) {
  ^bb0(%0: memref<8xf32>, %1: memref<8xf32>):
    "memref.copy"(%0, %1) : (memref<8xf32>, memref<8xf32>) -> ()
    buf.forall (%g) in (4) mapping (workgroup_x) {
      %r = memref.alloca() : memref<8xf32, #buf.space<register>>
      buf.forall (%h) in (4) mapping (lane) {
        "memref.copy"(%0, %r) : (memref<8xf32>, memref<8xf32, #buf.space<register>>) -> ()
      }
    }
  }
  func.return
}

// -----

// CHECK: a lane writes a register that all lanes share
func.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  buf.tiled ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) {
  ^bb0(%0: memref<8xf32>, %1: memref<8xf32>):
    "memref.copy"(%0, %1) : (memref<8xf32>, memref<8xf32>) -> ()
    buf.forall (%g) in (4) mapping (workgroup_x) {
      %r = memref.alloca() : memref<8xf32, #buf.space<register>>
      buf.forall (%h, %l) in (4, 8) mapping (lane, lane) {
        %p = memref.subview %0[%l] [1] [1] : memref<8xf32> to memref<f32, strided<[], offset: ?>>
        %q = memref.subview %r[%l] [1] [1] : memref<8xf32, #buf.space<register>> to memref<f32, strided<[], offset: ?>, #buf.space<register>>
        "memref.copy"(%p, %q) : (memref<f32, strided<[], offset: ?>>, memref<f32, strided<[], offset: ?>, #buf.space<register>>) -> ()
      }
    }
  }
  func.return
}

// -----

// CHECK: a part of [9] doesn't fit in memref<8xf32>
func.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  buf.tiled ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) {
  ^bb0(%0: memref<8xf32>, %1: memref<8xf32>):
    "memref.copy"(%0, %1) : (memref<8xf32>, memref<8xf32>) -> ()
    %p = memref.subview %0[0] [9] [1] : memref<8xf32> to memref<9xf32>
  }
  func.return
}

// -----

// CHECK: a part of [4] has these extents without those of 1, it can't be memref<2xf32
func.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  buf.tiled ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) {
  ^bb0(%0: memref<8xf32>, %1: memref<8xf32>):
    "memref.copy"(%0, %1) : (memref<8xf32>, memref<8xf32>) -> ()
    %p = memref.subview %0[0] [4] [1] : memref<8xf32> to memref<2xf32, strided<[1]>>
  }
  func.return
}

// -----

// CHECK: a part of a buffer has fixed sizes and no strides
func.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  buf.tiled ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) {
  ^bb0(%0: memref<8xf32>, %1: memref<8xf32>):
    "memref.copy"(%0, %1) : (memref<8xf32>, memref<8xf32>) -> ()
    %p = memref.subview %0[0] [4] [2] : memref<8xf32> to memref<4xf32, strided<[2]>>
  }
  func.return
}

// -----

// CHECK: a part of memref<8xf32> has its element type and its space, got memref<4xf32, strided<[1]>, #buf.space<register>>
func.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  buf.tiled ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) {
  ^bb0(%0: memref<8xf32>, %1: memref<8xf32>):
    "memref.copy"(%0, %1) : (memref<8xf32>, memref<8xf32>) -> ()
    %p = memref.subview %0[0] [4] [1] : memref<8xf32> to memref<4xf32, strided<[1]>, #buf.space<register>>
  }
  func.return
}

// -----

// CHECK: a loop of a tiled kernel carries nothing: keep the value in local memory
func.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  buf.tiled ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) {
  ^bb0(%0: memref<8xf32>, %1: memref<8xf32>):
    "memref.copy"(%0, %1) : (memref<8xf32>, memref<8xf32>) -> ()
    %c = arith.constant 1 : index
    %r = scf.for %i = %c to %c step %c iter_args(%a = %c) -> (index) {
      scf.yield %a : index
    }
  }
  func.return
}

// -----

// CHECK: the mapping of a stage must have one #buf.processor for each of its loops
func.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  buf.tiled ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) {
  ^bb0(%0: memref<8xf32>, %1: memref<8xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%0 : memref<8xf32>) outs(%1 : memref<8xf32>) attrs = {mapping = []} {
    ^bb1(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: 1 loops need as many processors, got lane, unroll
func.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  buf.tiled ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) {
  ^bb0(%0: memref<8xf32>, %1: memref<8xf32>):
    "memref.copy"(%0, %1) : (memref<8xf32>, memref<8xf32>) -> ()
    buf.forall (%g) in (4) mapping (lane, unroll) {
      %c = arith.constant 0 : index
    }
  }
  func.return
}

// -----

// CHECK: the block's arguments must have the operands' types, in order
func.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  buf.tiled ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) {
  ^bb0(%0: memref<8xf32>):
    %c = arith.constant 0 : index
  }
  func.return
}

// -----

// CHECK: an attention lies in no loop: `attend` writes its loops
func.func @f(%x: memref<1x4x2xf32>, %y: memref<1x4x2xf32>) {
  buf.tiled ins(%x : memref<1x4x2xf32>) outs(%y : memref<1x4x2xf32>) {
  ^bb0(%0: memref<1x4x2xf32>, %1: memref<1x4x2xf32>):
    buf.forall (%t) in (1) mapping (task) {
      buf.attention "forward" ins(%0, %0, %0 : memref<1x4x2xf32>, memref<1x4x2xf32>, memref<1x4x2xf32>) outs(%1 : memref<1x4x2xf32>) {parameters = {groups = 1 : i64, queries = 4 : i64, keys = 4 : i64, features = 2 : i64, values = 2 : i64, period = 4 : i64, biases = 0 : i64, masks = 0 : i64, scale = 1.0 : f64, fill = 0.0 : f64, zeros = false}, maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>]}
    }
  }
  func.return
}

// -----

// CHECK: a reduction combines its accumulator once, by the op that it yields, of arith.addf, {{.*}}; arith.subf uses it
func.func @f(%x: memref<8x4xf32>, %y: memref<8xf32>) {
  buf.tiled ins(%x : memref<8x4xf32>) outs(%y : memref<8xf32>) {
  ^bb0(%0: memref<8x4xf32>, %1: memref<8xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%0 : memref<8x4xf32>) outs(%1 : memref<8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %2 = arith.subf %out, %in : f32
      linalg.yield %2 : f32
    }
  }
  func.return
}
