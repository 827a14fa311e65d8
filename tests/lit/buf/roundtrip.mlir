// RUN: TG_ROUNDTRIP

// A sum over each row, and a pointwise stage that reads it from a local, which holds one value per grid point.
func.func @rows(%x: memref<4x3xf32>, %y: memref<4xf32>) {
  buf.kernel grid = [4] ins(%x : memref<4x3xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%a: memref<4x3xf32>, %b: memref<4xf32>):
    %sum = memref.alloca() : memref<4xf32>
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%a : memref<4x3xf32>) outs(%sum : memref<4xf32>) {
    ^bb0(%in: f32, %acc: f32):
      %next = arith.addf %acc, %in : f32
      linalg.yield %next : f32
    }
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%sum : memref<4xf32>) outs(%b : memref<4xf32>) {
    ^bb0(%in: f32, %out: f32):
      %root = math.sqrt %in : f32
      linalg.yield %root : f32
    }
  }
  func.return
}
// CHECK-LABEL: func.func @rows(
// CHECK-SAME: %x: memref<4x3xf32>, %y: memref<4xf32>) {
// CHECK-NEXT:   buf.kernel grid = [4] ins(%x : memref<4x3xf32>) outs(%y : memref<4xf32>) {
// CHECK-NEXT:   ^bb0(%a: memref<4x3xf32>, %b: memref<4xf32>):
// CHECK-NEXT:     %sum = memref.alloca() : memref<4xf32>
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%a : memref<4x3xf32>) outs(%sum : memref<4xf32>) {
// CHECK-NEXT:     ^bb0(%in: f32, %acc: f32):
// CHECK-NEXT:       %next = arith.addf %acc, %in : f32
// CHECK-NEXT:       linalg.yield %next : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%sum : memref<4xf32>) outs(%b : memref<4xf32>) {
// CHECK-NEXT:     ^bb0(%in_1: f32, %out: f32):
// CHECK-NEXT:       %root = math.sqrt %in_1 : f32
// CHECK-NEXT:       linalg.yield %root : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

// No operand is indexed by the induction variable alone, so a shape-only local, never stored to, gives its extent.
func.func @positions(%y: memref<8xf32>) {
  buf.kernel grid = [8] outs(%y : memref<8xf32>) schedule = #buf.schedule<thread, workgroup = [8, 1, 1], groups = [1, 1, 1]> dispatch = 1 attributes {note = "kept"} {
  ^bb0(%b: memref<8xf32>):
    %extent = memref.alloca() {buf.shape_only} : memref<8xi1>
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (-d0 + 7)>], iterator_types = ["parallel"]} ins(%extent : memref<8xi1>) outs(%b : memref<8xf32>) {
    ^bb0(%in: i1, %out: f32):
      %one = arith.constant 1.0 : f32
      linalg.yield %one : f32
    }
  }
  func.return
}
// CHECK-LABEL: func.func @positions(
// CHECK-SAME: %y: memref<8xf32>) {
// CHECK-NEXT:   buf.kernel grid = [8] outs(%y : memref<8xf32>) schedule = #buf.schedule<thread, workgroup = [8, 1, 1], groups = [1, 1, 1]> dispatch = 1 attributes {note = "kept"} {
// CHECK-NEXT:   ^bb0(%b: memref<8xf32>):
// CHECK-NEXT:     %extent = memref.alloca() {buf.shape_only} : memref<8xi1>
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (((d0 * -1) + 7))>], iterator_types = ["parallel"]} ins(%extent : memref<8xi1>) outs(%b : memref<8xf32>) {
// CHECK-NEXT:     ^bb0(%in: i1, %out: f32):
// CHECK-NEXT:       %one = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:       linalg.yield %one : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

// A scalar: there are no loops.
func.func @scalar(%y: memref<f32>) {
  buf.kernel grid = [] outs(%y : memref<f32>) {
  ^bb0(%b: memref<f32>):
    linalg.generic {indexing_maps = [affine_map<() -> ()>], iterator_types = []} outs(%b : memref<f32>) {
    ^bb0(%out: f32):
      %one = arith.constant 1.0 : f32
      linalg.yield %one : f32
    }
  }
  func.return
}
// CHECK-LABEL: func.func @scalar(
// CHECK-SAME: %y: memref<f32>) {
// CHECK-NEXT:   buf.kernel grid = [] outs(%y : memref<f32>) {
// CHECK-NEXT:   ^bb0(%b: memref<f32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<() -> ()>], iterator_types = []} outs(%b : memref<f32>) {
// CHECK-NEXT:     ^bb0(%out: f32):
// CHECK-NEXT:       %one = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:       linalg.yield %one : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

// After plan-memory: buffers are views, ranges of arenas.
func.func @planned() {
  %parameters = buf.arena "parameters" role = "parameter" : memref<1024xi8>
  %workspace = buf.arena "workspace" role = "workspace" attributes {note = "kept"} : memref<512xi8>
  %weight = buf.view %parameters[0] : memref<1024xi8> to memref<4x3xf32>
  %bias = buf.view %parameters[256] attributes {tg.name = "bias", tg.role = "parameter"} : memref<1024xi8> to memref<3xf32>
  func.return
}
// CHECK-LABEL: func.func @planned(
// CHECK-SAME: ) {
// CHECK-NEXT:   %parameters = buf.arena "parameters" role = "parameter" : memref<1024xi8>
// CHECK-NEXT:   %workspace = buf.arena "workspace" role = "workspace" attributes {note = "kept"} : memref<512xi8>
// CHECK-NEXT:   %weight = buf.view %parameters[0] : memref<1024xi8> to memref<4x3xf32>
// CHECK-NEXT:   %bias = buf.view %parameters[256] attributes {tg.name = "bias", tg.role = "parameter"} : memref<1024xi8> to memref<3xf32>
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

// An attention, whose indexing maps split heads.
func.func @attention(%q: memref<8x8xf32>, %o: memref<2x8x4xf32>, %l: memref<2x8xf32>) {
  buf.kernel grid = [2, 8] ins(%q : memref<8x8xf32>) outs(%o, %l : memref<2x8x4xf32>, memref<2x8xf32>) {
  ^bb0(%0: memref<8x8xf32>, %1: memref<2x8x4xf32>, %2: memref<2x8xf32>):
    buf.attention "forward" ins(%0, %0, %0 : memref<8x8xf32>, memref<8x8xf32>, memref<8x8xf32>) outs(%1, %2 : memref<2x8x4xf32>, memref<2x8xf32>) {parameters = {groups = 2 : i64, queries = 8 : i64, keys = 8 : i64, features = 4 : i64, values = 4 : i64, period = 8 : i64, biases = 0 : i64, masks = 0 : i64, causal = -1 : i64, scale = 5.000000e-01 : f64, fill = 0xfff0000000000000 : f64, zeros = true}, maps = [affine_map<(d0, d1, d2, d3) -> (d1, ((d0 * 4) + d3))>, affine_map<(d0, d1, d2, d3) -> (d2, ((d0 * 4) + d3))>, affine_map<(d0, d1, d2, d3) -> (d2, ((d0 * 4) + d3))>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1)>]}
  }
  func.return
}
// CHECK-LABEL: func.func @attention(
// CHECK-NEXT:   buf.kernel grid = [2, 8] ins(%q : memref<8x8xf32>) outs(%o, %l : memref<2x8x4xf32>, memref<2x8xf32>) {
// CHECK-NEXT: ^bb0
// CHECK-NEXT:     buf.attention "forward" ins({{%.*}}, {{%.*}}, {{%.*}} : memref<8x8xf32>, memref<8x8xf32>, memref<8x8xf32>) outs({{%.*}}, {{%.*}} : memref<2x8x4xf32>, memref<2x8xf32>) {parameters = {groups = 2 : i64, queries = 8 : i64, keys = 8 : i64, features = 4 : i64, values = 4 : i64, period = 8 : i64, biases = 0 : i64, masks = 0 : i64, causal = -1 : i64, scale = 5.000000e-01 : f64, fill = 0xfff0000000000000 : f64, zeros = true}, maps = [affine_map<(d0, d1, d2, d3) -> (d1, ((d0 * 4) + d3))>, affine_map<(d0, d1, d2, d3) -> (d2, ((d0 * 4) + d3))>, affine_map<(d0, d1, d2, d3) -> (d2, ((d0 * 4) + d3))>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1)>]}
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

// A counting sort of numbers that are transposed.
func.func @counting_sort(%x: memref<8x3xi32>, %o: memref<3x8xi32>, %s: memref<3x7xi32>) {
  buf.kernel grid = [3] ins(%x : memref<8x3xi32>) outs(%o, %s : memref<3x8xi32>, memref<3x7xi32>) {
  ^bb0(%0: memref<8x3xi32>, %1: memref<3x8xi32>, %2: memref<3x7xi32>):
    buf.counting_sort ins(%0 : memref<8x3xi32>) outs(%1 : memref<3x8xi32>) starts(%2 : memref<3x7xi32>) {buckets = 5 : i64, map = affine_map<(d0, d1) -> (d1, d0)>}
  }
  func.return
}
// CHECK-LABEL: func.func @counting_sort(
// CHECK-NEXT:   buf.kernel grid = [3] ins(%x : memref<8x3xi32>) outs(%o, %s : memref<3x8xi32>, memref<3x7xi32>) {
// CHECK-NEXT:   ^bb0(%0: memref<8x3xi32>, %1: memref<3x8xi32>, %2: memref<3x7xi32>):
// CHECK-NEXT:     buf.counting_sort ins(%0 : memref<8x3xi32>) outs(%1 : memref<3x8xi32>) starts(%2 : memref<3x7xi32>) {buckets = 5 : i64, map = affine_map<(d0, d1) -> (d1, d0)>}
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

// After lower-buf-to-wgsl: dispatches of kernels.
func.func @dispatched() {
  %arena = buf.arena "inputs" role = "input" : memref<512xi8>
  %x = buf.view %arena[0] : memref<512xi8> to memref<64xf32>
  %y = buf.view %arena[256] : memref<512xi8> to memref<64xf32>
  buf.dispatch @double workgroups = [1, 2, 3] attributes {buf.bytes_moved = 512 : i64} (%x, %y) : memref<64xf32>, memref<64xf32>
  func.return
}
// CHECK-LABEL: func.func @dispatched(
// CHECK-SAME: ) {
// CHECK-NEXT:   %arena = buf.arena "inputs" role = "input" : memref<512xi8>
// CHECK-NEXT:   %x = buf.view %arena[0] : memref<512xi8> to memref<64xf32>
// CHECK-NEXT:   %y = buf.view %arena[256] : memref<512xi8> to memref<64xf32>
// CHECK-NEXT:   buf.dispatch @double workgroups = [1, 2, 3] attributes {buf.bytes_moved = 512 : i64} (%x, %y) : memref<64xf32>, memref<64xf32>
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

func.func @packed(%x: memref<4x3xf32>, %y: memref<5xf32>) {
  %row = buf.pack %x, %y offsets = [0, 64] : memref<4x3xf32>, memref<5xf32> to memref<128xf32>
  func.return
}
// CHECK-LABEL: func.func @packed(
// CHECK-NEXT:   %row = buf.pack %x, %y offsets = [0, 64] : memref<4x3xf32>, memref<5xf32> to memref<128xf32>
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

wgsl.kernel @double workgroup_size = [8, 1, 1] access = ["read", "read_write"] {
^bb0(%x: memref<64xf32>, %y: memref<64xf32>):
}
