// RUN: tg-opt %s -p simplify --split-input-file | filecheck %s

// Loop-invariant ops are hoisted, a carried value that never changes becomes a constant, and unused results are erased.
func.func @loop(%w: tensor<2xf32>, %h: tensor<2xf32>, %k: tensor<2xf32>, %x: tensor<8x2xf32>) -> tensor<2xf32> {
  %0, %1, %2, %3 = tg.scan (%w, %w) carry (%h, %k, %h) over (%x, %x) length = 8 : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<8x2xf32>, tensor<8x2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<8x2xf32>) {
  ^bb0(%a: tensor<2xf32>, %b: tensor<2xf32>, %c: tensor<2xf32>, %fixed: tensor<2xf32>, %dead: tensor<2xf32>, %y: tensor<2xf32>, %z: tensor<2xf32>):
    %4 = tg.exp %a : tensor<2xf32>
    %5 = tg.exp %b : tensor<2xf32>
    %6 = tg.mul %4, %c : tensor<2xf32>, tensor<2xf32>
    %7 = tg.mul %5, %fixed : tensor<2xf32>, tensor<2xf32>
    %8 = tg.add %6, %7 : tensor<2xf32>, tensor<2xf32>
    %9 = tg.add %8, %y : tensor<2xf32>, tensor<2xf32>
    %10 = tg.add %9, %z : tensor<2xf32>, tensor<2xf32>
    %11 = tg.sin %dead : tensor<2xf32>
    tg.return %10, %fixed, %11, %11 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
  }
  func.return %0 : tensor<2xf32>
}
// CHECK-LABEL: func.func @loop(
// CHECK-NEXT:   %0 = tg.exp %w : tensor<2xf32>
// CHECK-NEXT:   %1 = tg.mul %0, %k : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %2 = tg.scan (%0, %1) carry (%h) over (%x) length = 8 : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<8x2xf32>) -> (tensor<2xf32>) {
// CHECK-NEXT:   ^bb0(%3: tensor<2xf32>, %4: tensor<2xf32>, %c: tensor<2xf32>, %y: tensor<2xf32>):
// CHECK-NEXT:     %5 = tg.mul %3, %c : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:     %6 = tg.add %5, %4 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:     %7 = tg.add %6, %y : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:     %8 = tg.add %7, %y : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:     tg.return %8 : tensor<2xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %2 : tensor<2xf32>

// -----

// A `cond` with a constant predicate is replaced with the branch taken; unused operands and results are erased.
func.func @branch(%p: tensor<i1>, %a: tensor<2xf32>, %b: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %true = tg.constant value = dense<true> : tensor<i1>
  %0 = tg.cond %true (%a) : (tensor<2xf32>) -> (tensor<2xf32>) {
  ^bb0(%x: tensor<2xf32>):
    %2 = tg.exp %x : tensor<2xf32>
    tg.return %2 : tensor<2xf32>
  } else {
  ^bb0(%x: tensor<2xf32>):
    tg.return %x : tensor<2xf32>
  }
  %1, %unused = tg.cond %p (%0, %b) : (tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  ^bb0(%x: tensor<2xf32>, %y: tensor<2xf32>):
    %2 = tg.exp %x : tensor<2xf32>
    tg.return %2, %y : tensor<2xf32>, tensor<2xf32>
  } else {
  ^bb0(%x: tensor<2xf32>, %y: tensor<2xf32>):
    tg.return %x, %y : tensor<2xf32>, tensor<2xf32>
  }
  func.return %0, %1 : tensor<2xf32>, tensor<2xf32>
}
// CHECK-LABEL: func.func @branch(
// CHECK-NEXT:   %0 = tg.exp %a : tensor<2xf32>
// CHECK-NEXT:   %1 = tg.cond %p (%0) : (tensor<2xf32>) -> (tensor<2xf32>) {
// CHECK-NEXT:   ^bb0(%x: tensor<2xf32>):
// CHECK-NEXT:     %2 = tg.exp %x : tensor<2xf32>
// CHECK-NEXT:     tg.return %2 : tensor<2xf32>
// CHECK-NEXT:   } else {
// CHECK-NEXT:   ^bb0(%x_1: tensor<2xf32>):
// CHECK-NEXT:     tg.return %x_1 : tensor<2xf32>

// -----

// Views of loop-invariant constants are rematerialized inside the loop, where they are free.
func.func @views(%w: tensor<2x3xf32>, %h: tensor<2xf32>) -> tensor<2xf32> {
  %t = tg.transpose %w permutation = [1, 0] : tensor<2x3xf32>
  %0 = tg.scan (%t, %h) carry (%h) over () length = 8 : (tensor<3x2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>) {
  ^bb0(%a: tensor<3x2xf32>, %b: tensor<2xf32>, %c: tensor<2xf32>):
    %1 = tg.exp %b : tensor<2xf32>
    %2 = tg.broadcast %1 shape = [3, 2] dims = [1] : tensor<2xf32>
    %3 = tg.mul %a, %2 : tensor<3x2xf32>, tensor<3x2xf32>
    %4 = tg.broadcast %c shape = [3, 2] dims = [1] : tensor<2xf32>
    %5 = tg.sub %4, %2 : tensor<3x2xf32>, tensor<3x2xf32>
    %6 = tg.mul %5, %3 : tensor<3x2xf32>, tensor<3x2xf32>
    %7 = tg.mul %6, %a : tensor<3x2xf32>, tensor<3x2xf32>
    %8 = tg.sum %7 axes = [0] : tensor<3x2xf32>
    tg.return %8 : tensor<2xf32>
  }
  func.return %0 : tensor<2xf32>
}
// CHECK-LABEL: func.func @views(
// CHECK-NEXT:   %t = tg.transpose %w permutation = [1, 0] : tensor<2x3xf32>
// CHECK-NEXT:   %0 = tg.exp %h : tensor<2xf32>
// CHECK-NEXT:   %1 = tg.broadcast %0 shape = [3, 2] dims = [1] : tensor<2xf32>
// CHECK-NEXT:   %2 = tg.mul %t, %1 : tensor<3x2xf32>, tensor<3x2xf32>
// CHECK-NEXT:   %3 = tg.scan (%w, %0, %2) carry (%h) over () length = 8 : (tensor<2x3xf32>, tensor<2xf32>, tensor<3x2xf32>, tensor<2xf32>) -> (tensor<2xf32>) {
// CHECK-NEXT:   ^bb0(%4: tensor<2x3xf32>, %5: tensor<2xf32>, %6: tensor<3x2xf32>, %c: tensor<2xf32>):
// CHECK-NEXT:     %t_1 = tg.transpose %4 permutation = [1, 0] : tensor<2x3xf32>
// CHECK-NEXT:     %7 = tg.broadcast %5 shape = [3, 2] dims = [1] : tensor<2xf32>
// CHECK-NEXT:     %8 = tg.broadcast %c shape = [3, 2] dims = [1] : tensor<2xf32>
// CHECK-NEXT:     %9 = tg.sub %8, %7 : tensor<3x2xf32>, tensor<3x2xf32>
