// RUN: tg-opt %s -p 'distribute{size=4}' | filecheck %s

// A sum over the batch that a loop accumulates remains partial in each process and is all-reduced once, after the loop.
func.func @scanned(%x: tensor<8x5x3xf32> {tg.name = "x", tg.role = "input"}, %w: tensor<3xf32> {tg.name = "w", tg.role = "parameter"}) -> (tensor<3xf32>) {
  %0 = tg.transpose %x permutation = [1, 0, 2] : tensor<8x5x3xf32>
  %1 = tg.constant value = dense<0.0> : tensor<3xf32>
  %2 = tg.scan (%w) carry (%1) over (%0) length = 5 : (tensor<3xf32>, tensor<3xf32>, tensor<5x8x3xf32>) -> (tensor<3xf32>) {
  ^bb0(%c: tensor<3xf32>, %sum: tensor<3xf32>, %row: tensor<8x3xf32>):
    %3 = tg.sum %row axes = [0] : tensor<8x3xf32>
    %4 = tg.mul %3, %c : tensor<3xf32>, tensor<3xf32>
    %5 = tg.add %sum, %4 : tensor<3xf32>, tensor<3xf32>
    tg.return %5 : tensor<3xf32>
  }
  func.return %2 : tensor<3xf32>
}

// CHECK: func.func @scanned(%x: tensor<2x5x3xf32> {tg.name = "x", tg.role = "input"}, %w: tensor<3xf32> {tg.name = "w", tg.role = "parameter"}) -> (tensor<3xf32> {tg.name = "result0", tg.role = "output"}) {
// CHECK-NEXT:   %0 = tg.transpose %x permutation = [1, 0, 2] : tensor<2x5x3xf32>
// CHECK-NEXT:   %1 = tg.constant value = dense<0.000000e+00> : tensor<3xf32>
// CHECK-NEXT:   %2 = tg.scan (%w) carry (%1) over (%0) length = 5 : (tensor<3xf32>, tensor<3xf32>, tensor<5x2x3xf32>) -> (tensor<3xf32>) {
// CHECK-NEXT:   ^bb0(%c: tensor<3xf32>, %sum: tensor<3xf32>, %row: tensor<2x3xf32>):
// CHECK-NEXT:     %3 = tg.sum %row axes = [0] : tensor<2x3xf32>
// CHECK-NEXT:     %4 = tg.mul %3, %c : tensor<3xf32>, tensor<3xf32>
// CHECK-NEXT:     %5 = tg.add %sum, %4 : tensor<3xf32>, tensor<3xf32>
// CHECK-NEXT:     tg.return %5 : tensor<3xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   %3 = tg.all_reduce %2 reduction = "sum" size = 4 : tensor<3xf32>
// CHECK-NEXT:   func.return %3 : tensor<3xf32>
// CHECK-NEXT: }
