// RUN: tg-opt %s -p lower-tg-to-buf --split-input-file | filecheck %s

// Loop bodies and the code between loops are outlined into functions; a loop's initial values get their own buffers.
func.func @loop(%w: tensor<4xf32> {tg.role = "parameter", tg.name = "w"}, %x: tensor<8x4xf32>) -> (tensor<4xf32>, tensor<8x4xf32>) {
  %h = tg.exp %w : tensor<4xf32>
  %0, %1 = tg.scan (%w) carry (%h) over (%x) length = 8 reverse : (tensor<4xf32>, tensor<4xf32>, tensor<8x4xf32>) -> (tensor<4xf32>, tensor<8x4xf32>) {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xf32>):
    %2 = tg.mul %a, %b : tensor<4xf32>, tensor<4xf32>
    tg.return %2, %c : tensor<4xf32>, tensor<4xf32>
  }
  %2 = tg.add %0, %h : tensor<4xf32>, tensor<4xf32>
  func.return %2, %1 : tensor<4xf32>, tensor<8x4xf32>
}
// CHECK-LABEL: func.func private @loop.part0(%0: memref<4xf32> {tg.name = "w", tg.role = "parameter"}, %h: memref<4xf32> {tg.name = "value1", tg.role = "output"}, %h_1: memref<4xf32> {tg.name = "value2", tg.role = "output"})
// CHECK:           math.exp
// CHECK-LABEL: func.func private @loop.body0(%a: memref<4xf32> {tg.name = "c0", tg.role = "input"}, %b: memref<4xf32> {tg.name = "carry0/value", tg.role = "state"}, %c: memref<4xf32> {tg.name = "x0", tg.role = "input"}, %0: memref<4xf32> {tg.name = "carry0/value", tg.role = "update"}, %c_1: memref<4xf32> {tg.name = "y0", tg.role = "output"}) attributes {buf.loops = 1 : i64}
// CHECK-LABEL: func.func private @loop.part1(
// CHECK-LABEL: func.func @loop(%w: memref<4xf32> {tg.name = "w", tg.role = "parameter"}, %x: memref<8x4xf32> {tg.name = "arg1", tg.role = "input"}, %0: memref<4xf32> {tg.name = "result0", tg.role = "output"}, %1: memref<8x4xf32> {tg.name = "result1", tg.role = "output"})
// CHECK:         buf.run @loop.part0 consts(%w : memref<4xf32>) stacks(%h, %h_1 : memref<4xf32>, memref<4xf32>)
// CHECK-NEXT:    %{{.*}} = memref.alloc() : memref<4xf32>
// CHECK-NEXT:    buf.run @loop.body0 length = 8 reverse consts(%w : memref<4xf32>) init(%h_1 : memref<4xf32>) over(%x : memref<8x4xf32>) last(%[[LAST:.*]] : memref<4xf32>) stacks(%1 : memref<8x4xf32>)
// CHECK-NEXT:    buf.run @loop.part1 consts(%[[LAST]], %h : memref<4xf32>, memref<4xf32>) stacks(%0 : memref<4xf32>)
// CHECK-NEXT:    func.return

// -----

// A loop without iterations folds to its initial values; the branches of a conditional are outlined into functions.
func.func @branch(%p: tensor<i1>, %w: tensor<4xf32>, %x: tensor<0x4xf32>) -> tensor<4xf32> {
  %0 = tg.scan () carry (%w) over (%x) length = 0 : (tensor<4xf32>, tensor<0x4xf32>) -> (tensor<4xf32>) {
  ^bb0(%b: tensor<4xf32>, %c: tensor<4xf32>):
    tg.return %c : tensor<4xf32>
  }
  %1 = tg.cond %p (%0) : (tensor<4xf32>) -> (tensor<4xf32>) {
  ^bb0(%a: tensor<4xf32>):
    %2 = tg.exp %a : tensor<4xf32>
    tg.return %2 : tensor<4xf32>
  } else {
  ^bb0(%a: tensor<4xf32>):
    tg.return %a : tensor<4xf32>
  }
  func.return %1 : tensor<4xf32>
}
// CHECK-LABEL: func.func private @branch.branch0(%a: memref<4xf32> {tg.name = "c0", tg.role = "input"}, %0: memref<4xf32> {tg.name = "y0", tg.role = "output"})
// CHECK-LABEL: func.func private @branch.branch1(%a: memref<4xf32> {tg.name = "c0", tg.role = "input"}, %{{.*}}: memref<4xf32> {tg.name = "y0", tg.role = "output"})
// CHECK-LABEL: func.func @branch(
// CHECK:         buf.choose @branch.branch0 @branch.branch1 if(%p : memref<i1>) consts(%w : memref<4xf32>) outs(%{{.*}} : memref<4xf32>)

// -----

// A view that is used before and after a loop is passed on as its source: the broadcast is not materialized.
func.func @views_around_a_loop(%x: tensor<3xf32>, %rows: tensor<4x3xf32>) -> (tensor<2x3xf32>, tensor<3xf32>) {
  %e = tg.exp %x : tensor<3xf32>
  %wide = tg.broadcast %e shape = [2, 3] dims = [1] : tensor<3xf32>
  %y = tg.sin %wide : tensor<2x3xf32>
  %h = tg.scan () carry (%x) over (%rows) length = 4 : (tensor<3xf32>, tensor<4x3xf32>) -> (tensor<3xf32>) {
  ^bb0(%c: tensor<3xf32>, %r: tensor<3xf32>):
    %n = tg.add %c, %r : tensor<3xf32>, tensor<3xf32>
    tg.return %n : tensor<3xf32>
  }
  %p = tg.mul %y, %wide : tensor<2x3xf32>, tensor<2x3xf32>
  func.return %p, %h : tensor<2x3xf32>, tensor<3xf32>
}
// CHECK-LABEL: func.func private @views_around_a_loop.part1(
// CHECK:           affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>
// CHECK-LABEL: func.func @views_around_a_loop(
// CHECK:         buf.run @views_around_a_loop.part1 consts(%e, %y, %{{.*}} : memref<3xf32>, memref<2x3xf32>, memref<3xf32>)

// -----

// Beside a loop the parts of a row are copied: each buffer has a place of its own.
func.func @row(%x: tensor<8x4xf32>, %y: tensor<3xf32>) -> tensor<128xf32> {
  %0 = tg.constant value = dense<0.0> : tensor<4xf32>
  %1 = tg.scan () carry (%0) over (%x) length = 8 : (tensor<4xf32>, tensor<8x4xf32>) -> (tensor<4xf32>) {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    %2 = tg.add %a, %b : tensor<4xf32>, tensor<4xf32>
    tg.return %2 : tensor<4xf32>
  }
  %3 = tg.pack %1, %y offsets = [0, 64] size = 128 : tensor<4xf32>, tensor<3xf32>
  func.return %3 : tensor<128xf32>
}
// CHECK-LABEL: func.func private @row.part1(
// CHECK-NOT:     buf.pack
// CHECK:         buf.kernel grid = [128]
// CHECK-LABEL: func.func @row(

// What follows the loop is a private function with the update; the state is an argument of @updated alone.
// CHECK-LABEL: func.func private @updated.part1(
// CHECK-SAME: tg.name = "x", tg.role = "update"
// CHECK-LABEL: func.func @updated(%x: memref<3xf32> {tg.name = "x", tg.role = "state"}
func.func @updated(%x: tensor<3xf32> {tg.name = "x", tg.role = "state"}) -> (tensor<3xf32> {tg.name = "x", tg.role = "update"}) {
  %0 = tg.scan () carry (%x) over () length = 3 : (tensor<3xf32>) -> (tensor<3xf32>) {
  ^bb0(%a: tensor<3xf32>):
    %b = tg.exp %a : tensor<3xf32>
    tg.return %b : tensor<3xf32>
  }
  %1 = tg.exp %0 : tensor<3xf32>
  func.return %1 : tensor<3xf32>
}
