// Verifiers that crash are reported as other errors are, with the line of the op.
// RUN: tg-opt %s --split-input-file --parsing-diagnostics --print-diagnostics | filecheck %s

// CHECK: this is malformed: Exception('expected an index for each dimension')
// CHECK-NEXT: at {{.*}}malformed-ops.mlir:7
func.func @f(%x: memref<4xf32>) {
  %0 = memref.load %x[] : memref<4xf32>
  func.return
}

// -----

// CHECK: this is malformed: ZeroDivisionError
// CHECK-NEXT: at {{.*}}malformed-ops.mlir:18
func.func @f(%x: memref<4xf32>, %y: memref<4xf32>) {
  buf.kernel grid = [4] ins(%x : memref<4xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%a: memref<4xf32>, %b: memref<4xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0 mod 0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : memref<4xf32>) outs(%b : memref<4xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    }
  }
  func.return
}

// -----

// CHECK: this is malformed: NotImplementedError
func.func @f(%x: memref<4xf32>, %y: memref<4xf32>) {
  buf.kernel grid = [4] ins(%x : memref<4xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%a: memref<4xf32>, %b: memref<4xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0 * d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : memref<4xf32>) outs(%b : memref<4xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    }
  }
  func.return
}

// -----

// CHECK: an attention's groups must be an integer, got "x"
func.func @f(%q: memref<2x8x4xf32>, %o: memref<2x8x4xf32>) {
  buf.kernel grid = [2, 8] ins(%q : memref<2x8x4xf32>) outs(%o : memref<2x8x4xf32>) {
  ^bb0(%0: memref<2x8x4xf32>, %1: memref<2x8x4xf32>):
    buf.attention "forward" ins(%0, %0, %0 : memref<2x8x4xf32>, memref<2x8x4xf32>, memref<2x8x4xf32>) outs(%1 : memref<2x8x4xf32>) {parameters = {groups = "x", queries = 8 : i64, keys = 8 : i64, features = 4 : i64, values = 4 : i64, period = 8 : i64, biases = 0 : i64, masks = 0 : i64, scale = 1.0 : f64, fill = 0.0 : f64, zeros = false}, maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>]}
  }
  func.return
}

// -----

// CHECK: an attention's scale must be a float, got 1 : i64
func.func @f(%q: memref<2x8x4xf32>, %o: memref<2x8x4xf32>) {
  buf.kernel grid = [2, 8] ins(%q : memref<2x8x4xf32>) outs(%o : memref<2x8x4xf32>) {
  ^bb0(%0: memref<2x8x4xf32>, %1: memref<2x8x4xf32>):
    buf.attention "forward" ins(%0, %0, %0 : memref<2x8x4xf32>, memref<2x8x4xf32>, memref<2x8x4xf32>) outs(%1 : memref<2x8x4xf32>) {parameters = {groups = 2 : i64, queries = 8 : i64, keys = 8 : i64, features = 4 : i64, values = 4 : i64, period = 8 : i64, biases = 0 : i64, masks = 0 : i64, scale = 1 : i64, fill = 0.0 : f64, zeros = false}, maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>]}
  }
  func.return
}
