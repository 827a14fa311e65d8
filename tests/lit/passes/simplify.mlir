// RUN: tg-opt %s -p simplify | filecheck %s

func.func @constants_fold() -> (tensor<2xf32>, tensor<3xi32>, tensor<1000xf32>) {
  %a = tg.constant value = dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>
  %b = tg.constant value = dense<2.000000e+00> : tensor<2xf32>
  %0 = tg.mul %a, %b : tensor<2xf32>, tensor<2xf32>
  %1 = tg.constant value = dense<[2147483647, -7, 0]> : tensor<3xi32>
  %2 = tg.add %1, %1 : tensor<3xi32>, tensor<3xi32>
  // A splat folds, whatever its size.
  %3 = tg.constant value = dense<4.000000e+00> : tensor<1000xf32>
  %4 = tg.sqrt %3 : tensor<1000xf32>
  func.return %0, %2, %4 : tensor<2xf32>, tensor<3xi32>, tensor<1000xf32>
}
// CHECK-LABEL: func.func @constants_fold(
// CHECK-SAME: ) -> (tensor<2xf32>, tensor<3xi32>, tensor<1000xf32>) {
// CHECK-NEXT:   %0 = tg.constant value = dense<[2.000000e+00, 4.000000e+00]> : tensor<2xf32>
// CHECK-NEXT:   %1 = tg.constant value = dense<[-2, -14, 0]> : tensor<3xi32>
// CHECK-NEXT:   %2 = tg.constant value = dense<2.000000e+00> : tensor<1000xf32>
// CHECK-NEXT:   func.return %0, %1, %2 : tensor<2xf32>, tensor<3xi32>, tensor<1000xf32>
// CHECK-NEXT: }

// Results of more than 16 elements are folded if they are splats, or integers that take no more bytes than the operands.
func.func @large_constants() -> (tensor<17xi32>, tensor<17xi64>, tensor<2x17xi32>, tensor<17xf32>, tensor<17xf32>) {
  %0 = tg.constant value = dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]> : tensor<17xi32>
  %1 = tg.constant value = dense<3> : tensor<17xi32>
  %2 = tg.mul %0, %1 : tensor<17xi32>, tensor<17xi32>
  %3 = tg.cast %0 to = i64 : tensor<17xi32>
  %4 = tg.broadcast %0 shape = [2, 17] dims = [1] : tensor<17xi32>
  %5 = tg.cast %0 to = f32 : tensor<17xi32>
  %6 = tg.neg %5 : tensor<17xf32>
  func.return %2, %3, %4, %5, %6 : tensor<17xi32>, tensor<17xi64>, tensor<2x17xi32>, tensor<17xf32>, tensor<17xf32>
}
// CHECK-LABEL: func.func @large_constants(
// CHECK:        %1 = tg.constant value = dense<[0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42, 45, 48]> : tensor<17xi32>
// CHECK-NEXT:   %2 = tg.cast %0 to = i64 : tensor<17xi32>
// CHECK-NEXT:   %3 = tg.broadcast %0 shape = [2, 17] dims = [1] : tensor<17xi32>
// CHECK-NEXT:   %4 = tg.cast %0 to = f32 : tensor<17xi32>
// CHECK-NEXT:   %5 = tg.neg %4 : tensor<17xf32>
// CHECK-NEXT:   func.return %1, %2, %3, %4, %5 :

func.func @identities(%x: tensor<2x3xf32>, %c: tensor<2x3xi1>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
  %one = tg.constant value = dense<1.000000e+00> : tensor<2x3xf32>
  %zero = tg.constant value = dense<0.000000e+00> : tensor<2x3xf32>
  %true = tg.constant value = dense<true> : tensor<2x3xi1>
  %0 = tg.mul %x, %one : tensor<2x3xf32>, tensor<2x3xf32>
  %1 = tg.div %0, %one : tensor<2x3xf32>, tensor<2x3xf32>
  %2 = tg.sub %1, %zero : tensor<2x3xf32>, tensor<2x3xf32>
  %3 = tg.neg %2 : tensor<2x3xf32>
  %4 = tg.neg %3 : tensor<2x3xf32>
  %5 = tg.reshape %x shape = [2, 3] : tensor<2x3xf32>
  %6 = tg.transpose %5 permutation = [0, 1] : tensor<2x3xf32>
  %7 = tg.sum %6 axes = [] : tensor<2x3xf32>
  %8 = tg.select %true, %x, %zero : tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xf32>
  %9 = tg.select %c, %x, %x : tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xf32>
  func.return %4, %7, %8, %9 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
}
// CHECK-LABEL: func.func @identities(
// CHECK-SAME: %x: tensor<2x3xf32>, %c: tensor<2x3xi1>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
// CHECK-NEXT:   func.return %x, %x, %x, %x : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT: }

// Not folded: for x = -0.0, x + 0.0 is 0.0, and for x = NaN, x * 0.0 is NaN.
func.func @no_identities(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %zero = tg.constant value = dense<0.000000e+00> : tensor<f32>
  %0 = tg.add %x, %zero : tensor<f32>, tensor<f32>
  %1 = tg.mul %x, %zero : tensor<f32>, tensor<f32>
  func.return %0, %1 : tensor<f32>, tensor<f32>
}
// CHECK-LABEL: func.func @no_identities(
// CHECK-SAME: %x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
// CHECK-NEXT:   %zero = tg.constant value = dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT:   %0 = tg.add %x, %zero : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %1 = tg.mul %x, %zero : tensor<f32>, tensor<f32>
// CHECK-NEXT:   func.return %0, %1 : tensor<f32>, tensor<f32>
// CHECK-NEXT: }

func.func @equal_ops_merge(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tg.exp %x : tensor<4xf32>
  %1 = tg.exp %x : tensor<4xf32>
  %2 = tg.mul %0, %1 : tensor<4xf32>, tensor<4xf32>
  func.return %2 : tensor<4xf32>
}
// CHECK-LABEL: func.func @equal_ops_merge(
// CHECK-SAME: %x: tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NEXT:   %0 = tg.exp %x : tensor<4xf32>
// CHECK-NEXT:   %1 = tg.mul %0, %0 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   func.return %1 : tensor<4xf32>
// CHECK-NEXT: }

// Ops that differ in a property are not merged.
func.func @different_ops_stay(%x: tensor<4x4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = tg.sum %x axes = [0] : tensor<4x4xf32>
  %1 = tg.sum %x axes = [1] : tensor<4x4xf32>
  func.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @different_ops_stay(
// CHECK-SAME: %x: tensor<4x4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
// CHECK-NEXT:   %0 = tg.sum %x axes = [0] : tensor<4x4xf32>
// CHECK-NEXT:   %1 = tg.sum %x axes = [1] : tensor<4x4xf32>
// CHECK-NEXT:   func.return %0, %1 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT: }

func.func @dead_ops_go(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tg.exp %x : tensor<4xf32>
  %1 = tg.log %0 : tensor<4xf32>
  func.return %x : tensor<4xf32>
}
// CHECK-LABEL: func.func @dead_ops_go(
// CHECK-SAME: %x: tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NEXT:   func.return %x : tensor<4xf32>
// CHECK-NEXT: }

// An op in a region is replaced with an equal one outside that dominates it, but not the other way round.
func.func @regions(%c: i1, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = tg.exp %x : tensor<4xf32>
  %1 = scf.if %c -> (tensor<4xf32>) {
    %2 = tg.exp %x : tensor<4xf32>
    %3 = tg.log %2 : tensor<4xf32>
    scf.yield %3 : tensor<4xf32>
  } else {
    scf.yield %0 : tensor<4xf32>
  }
  %4 = tg.log %0 : tensor<4xf32>
  func.return %1, %4 : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @regions(
// CHECK-SAME: %c: i1, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
// CHECK-NEXT:   %0 = tg.exp %x : tensor<4xf32>
// CHECK-NEXT:   %1 = scf.if %c -> (tensor<4xf32>) {
// CHECK-NEXT:     %2 = tg.log %0 : tensor<4xf32>
// CHECK-NEXT:     scf.yield %2 : tensor<4xf32>
// CHECK-NEXT:   } else {
// CHECK-NEXT:     scf.yield %0 : tensor<4xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   %3 = tg.log %0 : tensor<4xf32>
// CHECK-NEXT:   func.return %1, %3 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT: }
