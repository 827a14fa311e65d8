// RUN: tg-opt %s --split-input-file --print-diagnostics -p tile 2>&1 | filecheck %s

// CHECK: step 1 of the recipe, tile(sizes = [2]), doesn't fit the kernel made at {{.*}}: it has 1 sizes for 2 loops
func.func @f(%x: memref<4x6xf32>, %y: memref<4x6xf32>) {
  buf.kernel grid = [4, 6] ins(%x : memref<4x6xf32>) outs(%y : memref<4x6xf32>) recipe = #buf.recipe<tile(sizes = [2])> {
  ^bb0(%0: memref<4x6xf32>, %1: memref<4x6xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%0 : memref<4x6xf32>) outs(%1 : memref<4x6xf32>) {
    ^bb1(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: step 1 of the recipe, tile(sizes = [2, 2], to = [lane]), doesn't fit the kernel made at {{.*}}: it has 1 processors for 2 loops
func.func @f(%x: memref<4x6xf32>, %y: memref<4x6xf32>) {
  buf.kernel grid = [4, 6] ins(%x : memref<4x6xf32>) outs(%y : memref<4x6xf32>) recipe = #buf.recipe<tile(sizes = [2, 2], to = [lane])> {
  ^bb0(%0: memref<4x6xf32>, %1: memref<4x6xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%0 : memref<4x6xf32>) outs(%1 : memref<4x6xf32>) {
    ^bb1(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: step 1 of the recipe, map(to = [task]), doesn't fit the kernel made at {{.*}}: it has 1 processors for 2 loops
func.func @f(%x: memref<4x6xf32>, %y: memref<4x6xf32>) {
  buf.kernel grid = [4, 6] ins(%x : memref<4x6xf32>) outs(%y : memref<4x6xf32>) recipe = #buf.recipe<map(to = [task])> {
  ^bb0(%0: memref<4x6xf32>, %1: memref<4x6xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%0 : memref<4x6xf32>) outs(%1 : memref<4x6xf32>) {
    ^bb1(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: step 1 of the recipe, map(to = [workgroup_x, workgroup_x]), doesn't fit the kernel made at {{.*}}: workgroup_x runs a loop already
func.func @f(%x: memref<4x6xf32>, %y: memref<4x6xf32>) {
  buf.kernel grid = [4, 6] ins(%x : memref<4x6xf32>) outs(%y : memref<4x6xf32>) recipe = #buf.recipe<map(to = [workgroup_x, workgroup_x])> {
  ^bb0(%0: memref<4x6xf32>, %1: memref<4x6xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%0 : memref<4x6xf32>) outs(%1 : memref<4x6xf32>) {
    ^bb1(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: step 2 of the recipe, map(to = [workgroup_y]), doesn't fit the kernel made at {{.*}}: a loop over workgroup_y must be outside of those over unroll
func.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  buf.kernel grid = [8] ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) recipe = #buf.recipe<tile(sizes = [2], to = [unroll]), map(to = [workgroup_y])> {
  ^bb0(%0: memref<8xf32>, %1: memref<8xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%0 : memref<8xf32>) outs(%1 : memref<8xf32>) {
    ^bb1(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: step 1 of the recipe, map(to = [lane]), doesn't fit the kernel made at {{.*}}: lanes are those of a workgroup: a loop over workgroups must be outside
func.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  buf.kernel grid = [8] ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) recipe = #buf.recipe<map(to = [lane])> {
  ^bb0(%0: memref<8xf32>, %1: memref<8xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%0 : memref<8xf32>) outs(%1 : memref<8xf32>) {
    ^bb1(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: step 3 of the recipe, map(to = [lane]), doesn't fit the kernel made at {{.*}}: lanes run a loop already
func.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  buf.kernel grid = [8] ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) recipe = #buf.recipe<tile(sizes = [4], to = [workgroup_x]), tile(sizes = [2], to = [lane]), map(to = [lane])> {
  ^bb0(%0: memref<8xf32>, %1: memref<8xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%0 : memref<8xf32>) outs(%1 : memref<8xf32>) {
    ^bb1(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: step 2 of the recipe, collapse, doesn't fit the kernel made at {{.*}}: all loops have a processor already
func.func @f(%x: memref<4x6xf32>, %y: memref<4x6xf32>) {
  buf.kernel grid = [4, 6] ins(%x : memref<4x6xf32>) outs(%y : memref<4x6xf32>) recipe = #buf.recipe<map(to = [task, sequential]), collapse> {
  ^bb0(%0: memref<4x6xf32>, %1: memref<4x6xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%0 : memref<4x6xf32>) outs(%1 : memref<4x6xf32>) {
    ^bb1(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: step 2 of the recipe, collapse, doesn't fit the kernel made at {{.*}}: the loop's last tile is smaller, so its extent is no number
func.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  buf.kernel grid = [8] ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) recipe = #buf.recipe<tile(sizes = [3], to = [task]), collapse> {
  ^bb0(%0: memref<8xf32>, %1: memref<8xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%0 : memref<8xf32>) outs(%1 : memref<8xf32>) {
    ^bb1(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: step 1 of the recipe, split_loops(terms = 2), doesn't fit the kernel made at {{.*}}: no stage has loops of its own without a reduction
func.func @f(%x: memref<4x6xf32>, %y: memref<4x6xf32>) {
  buf.kernel grid = [4, 6] ins(%x : memref<4x6xf32>) outs(%y : memref<4x6xf32>) recipe = #buf.recipe<split_loops(terms = 2)> {
  ^bb0(%0: memref<4x6xf32>, %1: memref<4x6xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%0 : memref<4x6xf32>) outs(%1 : memref<4x6xf32>) {
    ^bb1(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: step 1 of the recipe, split_reduction(terms = 2), doesn't fit the kernel made at {{.*}}: no stage has a reduction
func.func @f(%x: memref<4x6xf32>, %y: memref<4x6xf32>) {
  buf.kernel grid = [4, 6] ins(%x : memref<4x6xf32>) outs(%y : memref<4x6xf32>) recipe = #buf.recipe<split_reduction(terms = 2)> {
  ^bb0(%0: memref<4x6xf32>, %1: memref<4x6xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%0 : memref<4x6xf32>) outs(%1 : memref<4x6xf32>) {
    ^bb1(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: step 1 of the recipe, split_reduction(lanes = 2), doesn't fit the kernel made at {{.*}}: lanes are those of a workgroup: a loop over workgroups must be outside
func.func @f(%x: memref<4x6xf32>, %y: memref<4xf32>) {
  buf.kernel grid = [4] ins(%x : memref<4x6xf32>) outs(%y : memref<4xf32>) recipe = #buf.recipe<split_reduction(lanes = 2)> {
  ^bb0(%0: memref<4x6xf32>, %1: memref<4xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%0 : memref<4x6xf32>) outs(%1 : memref<4xf32>) {
    ^bb1(%a: f32, %b: f32):
      %s = arith.addf %b, %a : f32
      linalg.yield %s : f32
    }
  }
  func.return
}

// -----

// CHECK: step 3 of the recipe, split_reduction(lanes = 2), doesn't fit the kernel made at {{.*}}: lanes run the loop around the stage already
func.func @f(%x: memref<4x6xf32>, %y: memref<4xf32>) {
  buf.kernel grid = [4] ins(%x : memref<4x6xf32>) outs(%y : memref<4xf32>) recipe = #buf.recipe<tile(sizes = [2], to = [workgroup_x]), map(to = [lane]), split_reduction(lanes = 2)> {
  ^bb0(%0: memref<4x6xf32>, %1: memref<4xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%0 : memref<4x6xf32>) outs(%1 : memref<4xf32>) {
    ^bb1(%a: f32, %b: f32):
      %s = arith.addf %b, %a : f32
      linalg.yield %s : f32
    }
  }
  func.return
}

// -----

// CHECK: step 2 of the recipe, split_reduction(lanes = 2), doesn't fit the kernel made at {{.*}}: a product of floats keeps its order, so lanes can't share it
func.func @f(%x: memref<4x6xf32>, %y: memref<4xf32>) {
  buf.kernel grid = [4] ins(%x : memref<4x6xf32>) outs(%y : memref<4xf32>) recipe = #buf.recipe<map(to = [workgroup_x]), split_reduction(lanes = 2)> {
  ^bb0(%0: memref<4x6xf32>, %1: memref<4xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%0 : memref<4x6xf32>) outs(%1 : memref<4xf32>) {
    ^bb1(%a: f32, %b: f32):
      %s = arith.mulf %b, %a : f32
      linalg.yield %s : f32
    }
  }
  func.return
}

// -----

// CHECK: step 2 of the recipe, split_reduction(lanes = 2), doesn't fit the kernel made at {{.*}}: the stage has both loops that are parallel and a reduction, which lanes can't share
func.func @f(%x: memref<4x6xf32>, %y: memref<4xf32>, %z: memref<4x6xf32>) {
  buf.kernel grid = [] ins(%x : memref<4x6xf32>) outs(%y : memref<4xf32>) recipe = #buf.recipe<map(to = [workgroup_x]), split_reduction(lanes = 2)> {
  ^bb0(%0: memref<4x6xf32>, %1: memref<4xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%0 : memref<4x6xf32>) outs(%1 : memref<4xf32>) {
    ^bb1(%a: f32, %b: f32):
      %s = arith.addf %b, %a : f32
      linalg.yield %s : f32
    }
  }
  func.return
}

// -----

// CHECK: step 1 of the recipe, vectorize, doesn't fit the kernel made at {{.*}}: no stage reads or writes adjacent floats in its innermost loop
func.func @f(%x: memref<4x6xf32>, %y: memref<4xf32>) {
  buf.kernel grid = [4] ins(%x : memref<4x6xf32>) outs(%y : memref<4xf32>) recipe = #buf.recipe<vectorize> {
  ^bb0(%0: memref<4x6xf32>, %1: memref<4xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%0 : memref<4x6xf32>) outs(%1 : memref<4xf32>) {
    ^bb1(%a: f32, %b: f32):
      %s = arith.addf %b, %a : f32
      linalg.yield %s : f32
    }
  }
  func.return
}

// -----

// CHECK: step 1 of the recipe, synchronize, doesn't fit the kernel made at {{.*}}: no loop runs over workgroups, so no lanes share memory
func.func @f(%x: memref<4x6xf32>, %y: memref<4xf32>) {
  buf.kernel grid = [4] ins(%x : memref<4x6xf32>) outs(%y : memref<4xf32>) recipe = #buf.recipe<synchronize> {
  ^bb0(%0: memref<4x6xf32>, %1: memref<4xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%0 : memref<4x6xf32>) outs(%1 : memref<4xf32>) {
    ^bb1(%a: f32, %b: f32):
      %s = arith.addf %b, %a : f32
      linalg.yield %s : f32
    }
  }
  func.return
}

// -----

// CHECK: step 1 of the recipe, split_loops(lanes = 2), doesn't fit the kernel made at {{.*}}: lanes are those of a workgroup: a loop over workgroups must be outside
func.func @f(%x: memref<4x6xf32>, %y: memref<4x6xf32>) {
  buf.kernel grid = [4] ins(%x : memref<4x6xf32>) outs(%y : memref<4x6xf32>) recipe = #buf.recipe<split_loops(lanes = 2)> {
  ^bb0(%0: memref<4x6xf32>, %1: memref<4x6xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%0 : memref<4x6xf32>) outs(%1 : memref<4x6xf32>) {
    ^bb1(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: step 1 of the recipe, sides(row = [0], column = [2]), doesn't fit the kernel made at {{.*}}: it names loops [0, 2], the kernel has loops 0 to 1, each on one side
func.func @f(%x: memref<4x6xf32>, %y: memref<4x6xf32>) {
  buf.kernel grid = [4, 6] ins(%x : memref<4x6xf32>) outs(%y : memref<4x6xf32>) recipe = #buf.recipe<sides(row = [0], column = [2])> {
  ^bb0(%0: memref<4x6xf32>, %1: memref<4x6xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%0 : memref<4x6xf32>) outs(%1 : memref<4x6xf32>) {
    ^bb1(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: step 1 of the recipe, tile(sizes = [2, 2], apart = [1]), doesn't fit the kernel made at {{.*}}: it has 2 sizes and 1 distances for 2 loops
func.func @f(%x: memref<4x6xf32>, %y: memref<4x6xf32>) {
  buf.kernel grid = [4, 6] ins(%x : memref<4x6xf32>) outs(%y : memref<4x6xf32>) recipe = #buf.recipe<tile(sizes = [2, 2], apart = [1])> {
  ^bb0(%0: memref<4x6xf32>, %1: memref<4x6xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%0 : memref<4x6xf32>) outs(%1 : memref<4x6xf32>) {
    ^bb1(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: step 1 of the recipe, tile(sizes = [2, 2], apart = [2, 2]), doesn't fit the kernel made at {{.*}}: tiles of 2 points that are 2 apart don't cover a loop of 6
func.func @f(%x: memref<4x6xf32>, %y: memref<4x6xf32>) {
  buf.kernel grid = [4, 6] ins(%x : memref<4x6xf32>) outs(%y : memref<4x6xf32>) recipe = #buf.recipe<tile(sizes = [2, 2], apart = [2, 2])> {
  ^bb0(%0: memref<4x6xf32>, %1: memref<4x6xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%0 : memref<4x6xf32>) outs(%1 : memref<4x6xf32>) {
    ^bb1(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: step 1 of the recipe, tile(sizes = [2, 2], apart = [2, 3], peel = 1), doesn't fit the kernel made at {{.*}}: tiles whose points are apart lie between each other, so none can be peeled off
func.func @f(%x: memref<4x6xf32>, %y: memref<4x6xf32>) {
  buf.kernel grid = [4, 6] ins(%x : memref<4x6xf32>) outs(%y : memref<4x6xf32>) recipe = #buf.recipe<tile(sizes = [2, 2], apart = [2, 3], peel = 1)> {
  ^bb0(%0: memref<4x6xf32>, %1: memref<4x6xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%0 : memref<4x6xf32>) outs(%1 : memref<4x6xf32>) {
    ^bb1(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: step 1 of the recipe, step_reduction, doesn't fit the kernel made at {{.*}}: no stage has a reduction
func.func @f(%x: memref<4x6xf32>, %y: memref<4x6xf32>) {
  buf.kernel grid = [4, 6] ins(%x : memref<4x6xf32>) outs(%y : memref<4x6xf32>) recipe = #buf.recipe<step_reduction> {
  ^bb0(%0: memref<4x6xf32>, %1: memref<4x6xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%0 : memref<4x6xf32>) outs(%1 : memref<4x6xf32>) {
    ^bb1(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: step 1 of the recipe, step_reduction(inner = 1), doesn't fit the kernel made at {{.*}}: a reduction of 1 loops has none with number 1
func.func @f(%x: memref<4x6xf32>, %w: memref<6x8xf32>, %y: memref<4x8xf32>) {
  buf.kernel grid = [4, 8] ins(%x, %w : memref<4x6xf32>, memref<6x8xf32>) outs(%y : memref<4x8xf32>) recipe = #buf.recipe<step_reduction(inner = 1)> {
  ^bb0(%0: memref<4x6xf32>, %1: memref<6x8xf32>, %2: memref<4x8xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%0, %1 : memref<4x6xf32>, memref<6x8xf32>) outs(%2 : memref<4x8xf32>) {
    ^bb1(%a: f32, %b: f32, %c: f32):
      %p = arith.mulf %a, %b : f32
      %s = arith.addf %c, %p : f32
      linalg.yield %s : f32
    }
  }
  func.return
}

// -----

// CHECK: step 1 of the recipe, step_reduction(terms = 4), doesn't fit the kernel made at {{.*}}: steps of 4 terms don't divide a loop of 6
func.func @f(%x: memref<4x6xf32>, %w: memref<6x8xf32>, %y: memref<4x8xf32>) {
  buf.kernel grid = [4, 8] ins(%x, %w : memref<4x6xf32>, memref<6x8xf32>) outs(%y : memref<4x8xf32>) recipe = #buf.recipe<step_reduction(terms = 4)> {
  ^bb0(%0: memref<4x6xf32>, %1: memref<6x8xf32>, %2: memref<4x8xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%0, %1 : memref<4x6xf32>, memref<6x8xf32>) outs(%2 : memref<4x8xf32>) {
    ^bb1(%a: f32, %b: f32, %c: f32):
      %p = arith.mulf %a, %b : f32
      %s = arith.addf %c, %p : f32
      linalg.yield %s : f32
    }
  }
  func.return
}

// -----

// CHECK: step 1 of the recipe, interchange(terms = 2), doesn't fit the kernel made at {{.*}}: it takes one reduction with one result, which lies in no other loop
func.func @f(%x: memref<4x6xf32>, %y: memref<4x6xf32>) {
  buf.kernel grid = [4, 6] ins(%x : memref<4x6xf32>) outs(%y : memref<4x6xf32>) recipe = #buf.recipe<interchange(terms = 2)> {
  ^bb0(%0: memref<4x6xf32>, %1: memref<4x6xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%0 : memref<4x6xf32>) outs(%1 : memref<4x6xf32>) {
    ^bb1(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: step 2 of the recipe, collapse, doesn't fit the kernel made at {{.*}}: 3 nests of loops have no processor: it comes before they are divided
func.func @f(%x: memref<4x6xf32>, %w: memref<6x8xf32>, %y: memref<4x8xf32>) {
  buf.kernel grid = [4, 8] ins(%x, %w : memref<4x6xf32>, memref<6x8xf32>) outs(%y : memref<4x8xf32>) recipe = #buf.recipe<interchange(terms = 2), collapse> {
  ^bb0(%0: memref<4x6xf32>, %1: memref<6x8xf32>, %2: memref<4x8xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%0, %1 : memref<4x6xf32>, memref<6x8xf32>) outs(%2 : memref<4x8xf32>) {
    ^bb1(%a: f32, %b: f32, %c: f32):
      %p = arith.mulf %a, %b : f32
      %s = arith.addf %c, %p : f32
      linalg.yield %s : f32
    }
  }
  func.return
}

// -----

// CHECK: step 1 of the recipe, stage, doesn't fit the kernel made at {{.*}}: no loop adds single terms of a product: it comes after `interchange` or `step_reduction`
func.func @f(%x: memref<4x6xf32>, %w: memref<6x8xf32>, %y: memref<4x8xf32>) {
  buf.kernel grid = [4, 8] ins(%x, %w : memref<4x6xf32>, memref<6x8xf32>) outs(%y : memref<4x8xf32>) recipe = #buf.recipe<stage> {
  ^bb0(%0: memref<4x6xf32>, %1: memref<6x8xf32>, %2: memref<4x8xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%0, %1 : memref<4x6xf32>, memref<6x8xf32>) outs(%2 : memref<4x8xf32>) {
    ^bb1(%a: f32, %b: f32, %c: f32):
      %p = arith.mulf %a, %b : f32
      %s = arith.addf %c, %p : f32
      linalg.yield %s : f32
    }
  }
  func.return
}

// -----

// CHECK: step 2 of the recipe, stage, doesn't fit the kernel made at {{.*}}: a task copies to scratch memory; a workgroup needs the number of its lanes
func.func @f(%x: memref<4x6xf32>, %w: memref<6x8xf32>, %y: memref<4x8xf32>) {
  buf.kernel grid = [4, 8] ins(%x, %w : memref<4x6xf32>, memref<6x8xf32>) outs(%y : memref<4x8xf32>) recipe = #buf.recipe<step_reduction, stage> {
  ^bb0(%0: memref<4x6xf32>, %1: memref<6x8xf32>, %2: memref<4x8xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%0, %1 : memref<4x6xf32>, memref<6x8xf32>) outs(%2 : memref<4x8xf32>) {
    ^bb1(%a: f32, %b: f32, %c: f32):
      %p = arith.mulf %a, %b : f32
      %s = arith.addf %c, %p : f32
      linalg.yield %s : f32
    }
  }
  func.return
}

// -----

// CHECK: step 2 of the recipe, stage(lanes = 8), doesn't fit the kernel made at {{.*}}: lanes copy for their workgroup: it comes between the loops over workgroups and over lanes
func.func @f(%x: memref<4x6xf32>, %w: memref<6x8xf32>, %y: memref<4x8xf32>) {
  buf.kernel grid = [4, 8] ins(%x, %w : memref<4x6xf32>, memref<6x8xf32>) outs(%y : memref<4x8xf32>) recipe = #buf.recipe<step_reduction, stage(lanes = 8)> {
  ^bb0(%0: memref<4x6xf32>, %1: memref<6x8xf32>, %2: memref<4x8xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%0, %1 : memref<4x6xf32>, memref<6x8xf32>) outs(%2 : memref<4x8xf32>) {
    ^bb1(%a: f32, %b: f32, %c: f32):
      %p = arith.mulf %a, %b : f32
      %s = arith.addf %c, %p : f32
      linalg.yield %s : f32
    }
  }
  func.return
}

// -----

// CHECK: step 4 of the recipe, stage(along = [1], lanes = 8), doesn't fit the kernel made at {{.*}}: the product takes nothing that depends on one side alone, and on the terms
func.func @f(%x: memref<4x6xf32>, %w: memref<6x8xf32>, %y: memref<4x8xf32>) {
  buf.kernel grid = [4, 8] ins(%x, %w : memref<4x6xf32>, memref<6x8xf32>) outs(%y : memref<4x8xf32>) recipe = #buf.recipe<tile(sizes = [2, 4], to = [workgroup_y, workgroup_x]), step_reduction, stage(along = [1], lanes = 8), stage(along = [1], lanes = 8)> {
  ^bb0(%0: memref<4x6xf32>, %1: memref<6x8xf32>, %2: memref<4x8xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%0, %1 : memref<4x6xf32>, memref<6x8xf32>) outs(%2 : memref<4x8xf32>) {
    ^bb1(%a: f32, %b: f32, %c: f32):
      %p = arith.mulf %a, %b : f32
      %s = arith.addf %c, %p : f32
      linalg.yield %s : f32
    }
  }
  func.return
}

// -----

// CHECK: step 3 of the recipe, stage(along = [2]), doesn't fit the kernel made at {{.*}}: it takes loops over rows and columns, or one of them, not 2 loops
func.func @f(%x: memref<4x6xf32>, %w: memref<6x8xf32>, %y: memref<4x8xf32>) {
  buf.kernel grid = [4, 8] ins(%x, %w : memref<4x6xf32>, memref<6x8xf32>) outs(%y : memref<4x8xf32>) recipe = #buf.recipe<tile(sizes = [2, 4], to = [sequential, task]), step_reduction, stage(along = [2])> {
  ^bb0(%0: memref<4x6xf32>, %1: memref<6x8xf32>, %2: memref<4x8xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%0, %1 : memref<4x6xf32>, memref<6x8xf32>) outs(%2 : memref<4x8xf32>) {
    ^bb1(%a: f32, %b: f32, %c: f32):
      %p = arith.mulf %a, %b : f32
      %s = arith.addf %c, %p : f32
      linalg.yield %s : f32
    }
  }
  func.return
}

// -----

// A tile of one column is strided, and so are its copies: none of them is a vector.
// CHECK: step 7 of the recipe, vectorize, doesn't fit the kernel made at {{.*}}: no stage reads or writes adjacent floats in its innermost loop
func.func @f(%x: memref<4x4xf32>, %w: memref<4x4xf32>, %y: memref<4x4xf32>) {
  buf.kernel grid = [4, 4] ins(%x, %w : memref<4x4xf32>, memref<4x4xf32>) outs(%y : memref<4x4xf32>) recipe = #buf.recipe<tile(sizes = [4, 4]), collapse, map(to = [task]), step_reduction, tile(sizes = [4, 1], to = [sequential, sequential]), unroll_jam, vectorize> {
  ^bb0(%0: memref<4x4xf32>, %1: memref<4x4xf32>, %2: memref<4x4xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%0, %1 : memref<4x4xf32>, memref<4x4xf32>) outs(%2 : memref<4x4xf32>) {
    ^bb1(%a: f32, %b: f32, %c: f32):
      %p = arith.mulf %a, %b : f32
      %s = arith.addf %c, %p : f32
      linalg.yield %s : f32
    }
  }
  func.return
}

// -----

// CHECK: step 1 of the recipe, collapse, doesn't fit the kernel made at {{.*}}: all loops have a processor already
func.func @f(%x: memref<1x4x2xf32>, %y: memref<1x4x2xf32>) {
  buf.kernel grid = [1, 4] ins(%x : memref<1x4x2xf32>) outs(%y : memref<1x4x2xf32>) recipe = #buf.recipe<collapse> {
  ^bb0(%0: memref<1x4x2xf32>, %1: memref<1x4x2xf32>):
    buf.attention "forward" ins(%0, %0, %0 : memref<1x4x2xf32>, memref<1x4x2xf32>, memref<1x4x2xf32>) outs(%1 : memref<1x4x2xf32>) {parameters = {groups = 1 : i64, queries = 4 : i64, keys = 4 : i64, features = 2 : i64, values = 2 : i64, period = 4 : i64, biases = 0 : i64, masks = 0 : i64, scale = 1.0 : f64, fill = 0.0 : f64, zeros = false}, maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>]}
  }
  func.return
}

// -----

// CHECK: step 2 of the recipe, attend(rows = 2, columns = 2), doesn't fit the kernel made at {{.*}}: the kernel has no attention that is one op
func.func @f(%x: memref<1x4x2xf32>, %y: memref<1x4x2xf32>) {
  buf.kernel grid = [1, 4] ins(%x : memref<1x4x2xf32>) outs(%y : memref<1x4x2xf32>) recipe = #buf.recipe<attend(rows = 2, columns = 2), attend(rows = 2, columns = 2)> {
  ^bb0(%0: memref<1x4x2xf32>, %1: memref<1x4x2xf32>):
    buf.attention "forward" ins(%0, %0, %0 : memref<1x4x2xf32>, memref<1x4x2xf32>, memref<1x4x2xf32>) outs(%1 : memref<1x4x2xf32>) {parameters = {groups = 1 : i64, queries = 4 : i64, keys = 4 : i64, features = 2 : i64, values = 2 : i64, period = 4 : i64, biases = 0 : i64, masks = 0 : i64, scale = 1.0 : f64, fill = 0.0 : f64, zeros = false}, maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>]}
  }
  func.return
}
