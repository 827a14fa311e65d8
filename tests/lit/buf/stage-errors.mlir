// RUN: tg-opt %s --split-input-file --print-diagnostics | filecheck %s

// CHECK: a stage must yield elements of its outputs, (f32)
func.func @f(%x: memref<4xi32>, %y: memref<4xf32>) {
  buf.kernel grid = [4] ins(%x : memref<4xi32>) outs(%y : memref<4xf32>) {
  ^bb0(%a: memref<4xi32>, %b: memref<4xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : memref<4xi32>) outs(%b : memref<4xf32>) {
    ^bb0(%in: i32, %out: f32):
      linalg.yield %in : i32
    }
  }
  func.return
}

// -----

// CHECK: a stage must yield elements of its outputs, (f32)
func.func @f(%y: memref<4xf32>) {
  buf.kernel grid = [4] outs(%y : memref<4xf32>) {
  ^bb0(%b: memref<4xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} outs(%b : memref<4xf32>) {
    ^bb0(%out: f32):
      linalg.yield %out, %out : f32, f32
    }
  }
  func.return
}

// -----

// CHECK: expected type of bb argument #0 (i32) to match element or self type of the corresponding operand (f32)
func.func @f(%x: memref<4xf32>, %y: memref<4xf32>) {
  buf.kernel grid = [4] ins(%x : memref<4xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%a: memref<4xf32>, %b: memref<4xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : memref<4xf32>) outs(%b : memref<4xf32>) {
    ^bb0(%in: i32, %out: f32):
      linalg.yield %out : f32
    }
  }
  func.return
}

// -----

// CHECK: iterations of loops [4] write the same elements, at (d0) -> (0)
func.func @f(%x: memref<4xf32>, %y: memref<4xf32>) {
  buf.kernel grid = [4] ins(%x : memref<4xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%a: memref<4xf32>, %b: memref<4xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (0)>], iterator_types = ["parallel"]} ins(%a : memref<4xf32>) outs(%b : memref<4xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    }
  }
  func.return
}

// -----

// CHECK: iterations of loops [4] write the same elements, at (d0) -> ((d0 floordiv 2))
func.func @f(%x: memref<4xf32>, %y: memref<4xf32>) {
  buf.kernel grid = [4] ins(%x : memref<4xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%a: memref<4xf32>, %b: memref<4xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0 floordiv 2)>], iterator_types = ["parallel"]} ins(%a : memref<4xf32>) outs(%b : memref<4xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    }
  }
  func.return
}

// -----

// Two rows of the grid reduce to one element.
// CHECK: iterations of loops [2, 4] write the same elements, at (d0, d1) -> (0)
func.func @f(%x: memref<2x4xf32>, %y: memref<2xf32>) {
  buf.kernel grid = [2] ins(%x : memref<2x4xf32>) outs(%y : memref<2xf32>) {
  ^bb0(%a: memref<2x4xf32>, %b: memref<2xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (0)>], iterator_types = ["parallel", "reduction"]} ins(%a : memref<2x4xf32>) outs(%b : memref<2xf32>) {
    ^bb0(%in: f32, %acc: f32):
      %s = arith.addf %acc, %in : f32
      linalg.yield %s : f32
    }
  }
  func.return
}

// -----

// CHECK: iterations of loops [4, 3] write the same elements, at (d0, d1) -> (((d0 * 2) + d1))
func.func @f(%x: memref<4x3xf32>, %y: memref<9xf32>) {
  buf.kernel grid = [4, 3] ins(%x : memref<4x3xf32>) outs(%y : memref<9xf32>) {
  ^bb0(%a: memref<4x3xf32>, %b: memref<9xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0 * 2 + d1)>], iterator_types = ["parallel", "parallel"]} ins(%a : memref<4x3xf32>) outs(%b : memref<9xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    }
  }
  func.return
}

// -----

// The first and the last point are inside.
// CHECK: index (d0 mod 4) over loops [5] leaves an axis of extent 3
func.func @f(%s: memref<5xf32>, %x: memref<3xf32>, %y: memref<5xf32>) {
  buf.kernel grid = [5] ins(%s, %x : memref<5xf32>, memref<3xf32>) outs(%y : memref<5xf32>) {
  ^bb0(%a: memref<5xf32>, %b: memref<3xf32>, %c: memref<5xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0 mod 4)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a, %b : memref<5xf32>, memref<3xf32>) outs(%c : memref<5xf32>) {
    ^bb0(%size: f32, %in: f32, %out: f32):
      linalg.yield %in : f32
    }
  }
  func.return
}

// -----

// CHECK: an index must be made of sums, multiples, and floordiv and mod by positive constants, got ((d0 floordiv -2) + 3)
func.func @f(%s: memref<4xf32>, %x: memref<8xf32>, %y: memref<4xf32>) {
  buf.kernel grid = [4] ins(%s, %x : memref<4xf32>, memref<8xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%a: memref<4xf32>, %b: memref<8xf32>, %c: memref<4xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0 floordiv -2 + 3)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a, %b : memref<4xf32>, memref<8xf32>) outs(%c : memref<4xf32>) {
    ^bb0(%size: f32, %in: f32, %out: f32):
      linalg.yield %in : f32
    }
  }
  func.return
}

// -----

// CHECK: an index must be made of sums, multiples, and floordiv and mod by positive constants, got (d0 ceildiv 2)
func.func @f(%s: memref<4xf32>, %x: memref<8xf32>, %y: memref<4xf32>) {
  buf.kernel grid = [4] ins(%s, %x : memref<4xf32>, memref<8xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%a: memref<4xf32>, %b: memref<8xf32>, %c: memref<4xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0 ceildiv 2)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a, %b : memref<4xf32>, memref<8xf32>) outs(%c : memref<4xf32>) {
    ^bb0(%size: f32, %in: f32, %out: f32):
      linalg.yield %in : f32
    }
  }
  func.return
}

// -----

// CHECK: a stage of 1 loops has no index of loop 7
func.func @f(%y: memref<4xi32>) {
  buf.kernel grid = [4] outs(%y : memref<4xi32>) {
  ^bb0(%a: memref<4xi32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} outs(%a : memref<4xi32>) {
    ^bb0(%out: i32):
      %i = linalg.index 7 : index
      %n = arith.index_cast %i : index to i32
      linalg.yield %n : i32
    }
  }
  func.return
}

// -----

// CHECK: a reduction combines its accumulator once, by the op that it yields, of arith.addf, {{.*}}; arith.subf uses it
func.func @f(%x: memref<4x3xf32>, %y: memref<4xf32>) {
  buf.kernel grid = [4] ins(%x : memref<4x3xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%a: memref<4x3xf32>, %b: memref<4xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%a : memref<4x3xf32>) outs(%b : memref<4xf32>) {
    ^bb0(%in: f32, %out: f32):
      %0 = arith.subf %out, %in : f32
      linalg.yield %0 : f32
    }
  }
  func.return
}

// -----

// CHECK: a reduction combines its accumulator once, by the op that it yields, of arith.addf, {{.*}}; nothing uses it
func.func @f(%x: memref<4x3xf32>, %y: memref<4xf32>) {
  buf.kernel grid = [4] ins(%x : memref<4x3xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%a: memref<4x3xf32>, %b: memref<4xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%a : memref<4x3xf32>) outs(%b : memref<4xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    }
  }
  func.return
}

// -----

// CHECK: a reduction combines its accumulator once, by the op that it yields, of arith.addf, {{.*}}; arith.addf, arith.mulf uses it
func.func @f(%x: memref<4x3xf32>, %y: memref<4xf32>) {
  buf.kernel grid = [4] ins(%x : memref<4x3xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%a: memref<4x3xf32>, %b: memref<4xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%a : memref<4x3xf32>) outs(%b : memref<4xf32>) {
    ^bb0(%in: f32, %out: f32):
      %0 = arith.mulf %in, %out : f32
      %1 = arith.addf %out, %0 : f32
      linalg.yield %1 : f32
    }
  }
  func.return
}

// -----

// CHECK: a stage writes at points of its parallel loops only, not at (d0, d1) -> (d0, d1)
func.func @f(%x: memref<4x3xf32>, %y: memref<4x3xf32>) {
  buf.kernel grid = [4] ins(%x : memref<4x3xf32>) outs(%y : memref<4x3xf32>) {
  ^bb0(%a: memref<4x3xf32>, %b: memref<4x3xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "reduction"]} ins(%a : memref<4x3xf32>) outs(%b : memref<4x3xf32>) {
    ^bb0(%in: f32, %out: f32):
      %0 = arith.addf %out, %in : f32
      linalg.yield %0 : f32
    }
  }
  func.return
}
