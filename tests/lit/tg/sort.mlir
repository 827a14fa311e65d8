// RUN: TG_ROUNDTRIP

// The results are positions along the last axis; with `descending = 1` the largest element comes first.
func.func @sorts(%x: tensor<4x10xf32>, %i: tensor<3xui32>) -> (tensor<4x10xi32>, tensor<3xi32>) {
  %rising = tg.argsort %x descending = 0 : tensor<4x10xf32>
  %falling = tg.argsort %i descending = 1 : tensor<3xui32>
  func.return %rising, %falling : tensor<4x10xi32>, tensor<3xi32>
}
// CHECK-LABEL: func.func @sorts(
// CHECK-SAME: %x: tensor<4x10xf32>, %i: tensor<3xui32>) -> (tensor<4x10xi32>, tensor<3xi32>) {
// CHECK-NEXT:   %rising = tg.argsort %x descending = 0 : tensor<4x10xf32>
// CHECK-NEXT:   %falling = tg.argsort %i descending = 1 : tensor<3xui32>
// CHECK-NEXT:   func.return %rising, %falling : tensor<4x10xi32>, tensor<3xi32>
// CHECK-NEXT: }
