// RUN: TG_ROUNDTRIP

func.func @products(%a: tensor<4x3xf32>, %b: tensor<3x5xf32>, %x: tensor<2x4x3xf32>, %y: tensor<2x6x3xf32>) -> (tensor<4x5xf32>, tensor<2x4x6xf32>, tensor<4x3x3x5xf32>) {
  %product = tg.dot_general %a, %b lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<4x3xf32>, tensor<3x5xf32>
  %batched = tg.dot_general %x, %y lhs_batch = [0] rhs_batch = [0] lhs_contracting = [2] rhs_contracting = [2] : tensor<2x4x3xf32>, tensor<2x6x3xf32>
  %outer = tg.dot_general %a, %b lhs_batch = [] rhs_batch = [] lhs_contracting = [] rhs_contracting = [] : tensor<4x3xf32>, tensor<3x5xf32>
  func.return %product, %batched, %outer : tensor<4x5xf32>, tensor<2x4x6xf32>, tensor<4x3x3x5xf32>
}
// CHECK-LABEL: func.func @products(
// CHECK-SAME: %a: tensor<4x3xf32>, %b: tensor<3x5xf32>, %x: tensor<2x4x3xf32>, %y: tensor<2x6x3xf32>) -> (tensor<4x5xf32>, tensor<2x4x6xf32>, tensor<4x3x3x5xf32>) {
// CHECK-NEXT:   %product = tg.dot_general %a, %b lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<4x3xf32>, tensor<3x5xf32>
// CHECK-NEXT:   %batched = tg.dot_general %x, %y lhs_batch = [0] rhs_batch = [0] lhs_contracting = [2] rhs_contracting = [2] : tensor<2x4x3xf32>, tensor<2x6x3xf32>
// CHECK-NEXT:   %outer = tg.dot_general %a, %b lhs_batch = [] rhs_batch = [] lhs_contracting = [] rhs_contracting = [] : tensor<4x3xf32>, tensor<3x5xf32>
// CHECK-NEXT:   func.return %product, %batched, %outer : tensor<4x5xf32>, tensor<2x4x6xf32>, tensor<4x3x3x5xf32>
// CHECK-NEXT: }
