// RUN: TG_ROUNDTRIP

func.func @floats(%x: tensor<4xf32>) -> tensor<4xf32> {
  %exp = tg.exp %x : tensor<4xf32>
  %log = tg.log %exp : tensor<4xf32>
  %sqrt = tg.sqrt %log : tensor<4xf32>
  %sin = tg.sin %sqrt : tensor<4xf32>
  %cos = tg.cos %sin : tensor<4xf32>
  %tanh = tg.tanh %cos : tensor<4xf32>
  %sigmoid = tg.sigmoid %tanh : tensor<4xf32>
  %stopped = tg.stop_gradient %sigmoid : tensor<4xf32>
  func.return %stopped : tensor<4xf32>
}
// CHECK-LABEL: func.func @floats(
// CHECK-SAME: %x: tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NEXT:   %exp = tg.exp %x : tensor<4xf32>
// CHECK-NEXT:   %log = tg.log %exp : tensor<4xf32>
// CHECK-NEXT:   %sqrt = tg.sqrt %log : tensor<4xf32>
// CHECK-NEXT:   %sin = tg.sin %sqrt : tensor<4xf32>
// CHECK-NEXT:   %cos = tg.cos %sin : tensor<4xf32>
// CHECK-NEXT:   %tanh = tg.tanh %cos : tensor<4xf32>
// CHECK-NEXT:   %sigmoid = tg.sigmoid %tanh : tensor<4xf32>
// CHECK-NEXT:   %stopped = tg.stop_gradient %sigmoid : tensor<4xf32>
// CHECK-NEXT:   func.return %stopped : tensor<4xf32>
// CHECK-NEXT: }

// Numbers are floats and integers.
func.func @numbers(%x: tensor<4xf16>, %i: tensor<4xi32>, %u: tensor<ui32>) -> (tensor<4xf16>, tensor<4xi32>, tensor<ui32>) {
  %neg = tg.neg %x : tensor<4xf16>
  %abs = tg.abs %i : tensor<4xi32>
  %relu = tg.relu %u : tensor<ui32>
  func.return %neg, %abs, %relu : tensor<4xf16>, tensor<4xi32>, tensor<ui32>
}
// CHECK-LABEL: func.func @numbers(
// CHECK-SAME: %x: tensor<4xf16>, %i: tensor<4xi32>, %u: tensor<ui32>) -> (tensor<4xf16>, tensor<4xi32>, tensor<ui32>) {
// CHECK-NEXT:   %neg = tg.neg %x : tensor<4xf16>
// CHECK-NEXT:   %abs = tg.abs %i : tensor<4xi32>
// CHECK-NEXT:   %relu = tg.relu %u : tensor<ui32>
// CHECK-NEXT:   func.return %neg, %abs, %relu : tensor<4xf16>, tensor<4xi32>, tensor<ui32>
// CHECK-NEXT: }

func.func @booleans(%b: tensor<2x2xi1>) -> tensor<2x2xi1> {
  %not = tg.not %b : tensor<2x2xi1>
  %stopped = tg.stop_gradient %not : tensor<2x2xi1>
  func.return %stopped : tensor<2x2xi1>
}
// CHECK-LABEL: func.func @booleans(
// CHECK-SAME: %b: tensor<2x2xi1>) -> tensor<2x2xi1> {
// CHECK-NEXT:   %not = tg.not %b : tensor<2x2xi1>
// CHECK-NEXT:   %stopped = tg.stop_gradient %not : tensor<2x2xi1>
// CHECK-NEXT:   func.return %stopped : tensor<2x2xi1>
// CHECK-NEXT: }
