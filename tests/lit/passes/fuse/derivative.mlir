// RUN: tg-opt %s -p 'fuse{target=cpu}' | filecheck %s
// RUN: tg-opt %s -p 'fuse{target=lavapipe}' | filecheck %s --check-prefix SHADERS
// RUN: tg-opt %s -p 'fuse{target=cpu only=siblings}' | filecheck %s --check-prefix SHADERS

// In native code, the two parts of an attention's derivative become one kernel over the groups, if there are enough.
// CHECK-LABEL: func.func @enough
// CHECK:      buf.kernel grid = [4, 1] ins(%q, %g, %l, %d : memref<4x8x4xf32>, memref<4x8x4xf32>, memref<4x8xf32>, memref<4x8xf32>) outs(%a, %b, %c : memref<4x8x4xf32>, memref<4x8x4xf32>, memref<4x8x4xf32>) {
// CHECK-NEXT: ^bb0
// CHECK-NEXT:   buf.attention "backward" ins({{%.*}}, {{%.*}}, {{%.*}}, {{%.*}}, {{%.*}}, {{%.*}} : {{.*}}) outs({{%.*}}, {{%.*}}, {{%.*}} : memref<4x8x4xf32>, memref<4x8x4xf32>, memref<4x8x4xf32>)
// CHECK-NEXT: }
// CHECK-NEXT: func.return
// SHADERS-LABEL: func.func @enough
// SHADERS: buf.attention "queries"
// SHADERS: buf.attention "keys"
func.func @enough(%q: memref<4x8x4xf32>, %g: memref<4x8x4xf32>, %l: memref<4x8xf32>, %d: memref<4x8xf32>, %a: memref<4x8x4xf32>, %b: memref<4x8x4xf32>, %c: memref<4x8x4xf32>) {
  buf.kernel grid = [4, 8] ins(%q, %g, %l, %d : memref<4x8x4xf32>, memref<4x8x4xf32>, memref<4x8xf32>, memref<4x8xf32>) outs(%a : memref<4x8x4xf32>) {
  ^bb0(%0: memref<4x8x4xf32>, %1: memref<4x8x4xf32>, %2: memref<4x8xf32>, %3: memref<4x8xf32>, %4: memref<4x8x4xf32>):
    buf.attention "queries" ins(%0, %0, %0, %1, %2, %3 : memref<4x8x4xf32>, memref<4x8x4xf32>, memref<4x8x4xf32>, memref<4x8x4xf32>, memref<4x8xf32>, memref<4x8xf32>) outs(%4 : memref<4x8x4xf32>) {parameters = {groups = 4 : i64, queries = 8 : i64, keys = 8 : i64, features = 4 : i64, values = 4 : i64, period = 8 : i64, biases = 0 : i64, masks = 0 : i64, scale = 1.0 : f64, fill = 0.0 : f64, zeros = false}, maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1)>, affine_map<(d0, d1, d2, d3) -> (d0, d1)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>]}
  }
  buf.kernel grid = [4, 8] ins(%q, %g, %l, %d : memref<4x8x4xf32>, memref<4x8x4xf32>, memref<4x8xf32>, memref<4x8xf32>) outs(%b, %c : memref<4x8x4xf32>, memref<4x8x4xf32>) {
  ^bb0(%0: memref<4x8x4xf32>, %1: memref<4x8x4xf32>, %2: memref<4x8xf32>, %3: memref<4x8xf32>, %4: memref<4x8x4xf32>, %5: memref<4x8x4xf32>):
    buf.attention "keys" ins(%0, %0, %0, %1, %2, %3 : memref<4x8x4xf32>, memref<4x8x4xf32>, memref<4x8x4xf32>, memref<4x8x4xf32>, memref<4x8xf32>, memref<4x8xf32>) outs(%4, %5 : memref<4x8x4xf32>, memref<4x8x4xf32>) {parameters = {groups = 4 : i64, queries = 8 : i64, keys = 8 : i64, features = 4 : i64, values = 4 : i64, period = 8 : i64, biases = 0 : i64, masks = 0 : i64, scale = 1.0 : f64, fill = 0.0 : f64, zeros = false}, maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1)>, affine_map<(d0, d1, d2, d3) -> (d0, d1)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>]}
  }
  func.return
}

// Not fused: a single group would keep only one core busy.
// CHECK-LABEL: func.func @few
// CHECK: buf.attention "queries"
// CHECK: buf.attention "keys"
func.func @few(%q: memref<1x8x4xf32>, %g: memref<1x8x4xf32>, %l: memref<1x8xf32>, %d: memref<1x8xf32>, %a: memref<1x8x4xf32>, %b: memref<1x8x4xf32>, %c: memref<1x8x4xf32>) {
  buf.kernel grid = [1, 8] ins(%q, %g, %l, %d : memref<1x8x4xf32>, memref<1x8x4xf32>, memref<1x8xf32>, memref<1x8xf32>) outs(%a : memref<1x8x4xf32>) {
  ^bb0(%0: memref<1x8x4xf32>, %1: memref<1x8x4xf32>, %2: memref<1x8xf32>, %3: memref<1x8xf32>, %4: memref<1x8x4xf32>):
    buf.attention "queries" ins(%0, %0, %0, %1, %2, %3 : memref<1x8x4xf32>, memref<1x8x4xf32>, memref<1x8x4xf32>, memref<1x8x4xf32>, memref<1x8xf32>, memref<1x8xf32>) outs(%4 : memref<1x8x4xf32>) {parameters = {groups = 1 : i64, queries = 8 : i64, keys = 8 : i64, features = 4 : i64, values = 4 : i64, period = 8 : i64, biases = 0 : i64, masks = 0 : i64, scale = 1.0 : f64, fill = 0.0 : f64, zeros = false}, maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1)>, affine_map<(d0, d1, d2, d3) -> (d0, d1)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>]}
  }
  buf.kernel grid = [1, 8] ins(%q, %g, %l, %d : memref<1x8x4xf32>, memref<1x8x4xf32>, memref<1x8xf32>, memref<1x8xf32>) outs(%b, %c : memref<1x8x4xf32>, memref<1x8x4xf32>) {
  ^bb0(%0: memref<1x8x4xf32>, %1: memref<1x8x4xf32>, %2: memref<1x8xf32>, %3: memref<1x8xf32>, %4: memref<1x8x4xf32>, %5: memref<1x8x4xf32>):
    buf.attention "keys" ins(%0, %0, %0, %1, %2, %3 : memref<1x8x4xf32>, memref<1x8x4xf32>, memref<1x8x4xf32>, memref<1x8x4xf32>, memref<1x8xf32>, memref<1x8xf32>) outs(%4, %5 : memref<1x8x4xf32>, memref<1x8x4xf32>) {parameters = {groups = 1 : i64, queries = 8 : i64, keys = 8 : i64, features = 4 : i64, values = 4 : i64, period = 8 : i64, biases = 0 : i64, masks = 0 : i64, scale = 1.0 : f64, fill = 0.0 : f64, zeros = false}, maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1)>, affine_map<(d0, d1, d2, d3) -> (d0, d1)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>]}
  }
  func.return
}

// Two attentions that differ in a parameter alone, such as the scale of scores, don't merge.
// CHECK-LABEL: func.func @other_scale
// CHECK: buf.attention "queries"
// CHECK: buf.attention "keys"
func.func @other_scale(%q: memref<4x8x4xf32>, %g: memref<4x8x4xf32>, %l: memref<4x8xf32>, %d: memref<4x8xf32>, %a: memref<4x8x4xf32>, %b: memref<4x8x4xf32>, %c: memref<4x8x4xf32>) {
  buf.kernel grid = [4, 8] ins(%q, %g, %l, %d : memref<4x8x4xf32>, memref<4x8x4xf32>, memref<4x8xf32>, memref<4x8xf32>) outs(%a : memref<4x8x4xf32>) {
  ^bb0(%0: memref<4x8x4xf32>, %1: memref<4x8x4xf32>, %2: memref<4x8xf32>, %3: memref<4x8xf32>, %4: memref<4x8x4xf32>):
    buf.attention "queries" ins(%0, %0, %0, %1, %2, %3 : memref<4x8x4xf32>, memref<4x8x4xf32>, memref<4x8x4xf32>, memref<4x8x4xf32>, memref<4x8xf32>, memref<4x8xf32>) outs(%4 : memref<4x8x4xf32>) {parameters = {groups = 4 : i64, queries = 8 : i64, keys = 8 : i64, features = 4 : i64, values = 4 : i64, period = 8 : i64, biases = 0 : i64, masks = 0 : i64, scale = 1.0 : f64, fill = 0.0 : f64, zeros = false}, maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1)>, affine_map<(d0, d1, d2, d3) -> (d0, d1)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>]}
  }
  buf.kernel grid = [4, 8] ins(%q, %g, %l, %d : memref<4x8x4xf32>, memref<4x8x4xf32>, memref<4x8xf32>, memref<4x8xf32>) outs(%b, %c : memref<4x8x4xf32>, memref<4x8x4xf32>) {
  ^bb0(%0: memref<4x8x4xf32>, %1: memref<4x8x4xf32>, %2: memref<4x8xf32>, %3: memref<4x8xf32>, %4: memref<4x8x4xf32>, %5: memref<4x8x4xf32>):
    buf.attention "keys" ins(%0, %0, %0, %1, %2, %3 : memref<4x8x4xf32>, memref<4x8x4xf32>, memref<4x8x4xf32>, memref<4x8x4xf32>, memref<4x8xf32>, memref<4x8xf32>) outs(%4, %5 : memref<4x8x4xf32>, memref<4x8x4xf32>) {parameters = {groups = 4 : i64, queries = 8 : i64, keys = 8 : i64, features = 4 : i64, values = 4 : i64, period = 8 : i64, biases = 0 : i64, masks = 0 : i64, scale = 2.0 : f64, fill = 0.0 : f64, zeros = false}, maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1)>, affine_map<(d0, d1, d2, d3) -> (d0, d1)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>]}
  }
  func.return
}
