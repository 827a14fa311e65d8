// RUN: TG_ROUNDTRIP

func.func @bits(%k: tensor<3xui32>, %l: tensor<3xui32>, %high: tensor<3xui32>, %low: tensor<3xui32>) -> tensor<3xui32> {
  %first = tg.threefry %k, %l, %high, %low word = "first" : tensor<3xui32>, tensor<3xui32>, tensor<3xui32>, tensor<3xui32>
  %second = tg.threefry %first, %l, %high, %low word = "second" : tensor<3xui32>, tensor<3xui32>, tensor<3xui32>, tensor<3xui32>
  %both = tg.threefry %k, %l, %high, %second word = "both" : tensor<3xui32>, tensor<3xui32>, tensor<3xui32>, tensor<3xui32>
  func.return %both : tensor<3xui32>
}
// CHECK-LABEL: func.func @bits(
// CHECK-SAME: %k: tensor<3xui32>, %l: tensor<3xui32>, %high: tensor<3xui32>, %low: tensor<3xui32>) -> tensor<3xui32> {
// CHECK-NEXT:   %first = tg.threefry %k, %l, %high, %low word = "first" : tensor<3xui32>, tensor<3xui32>, tensor<3xui32>, tensor<3xui32>
// CHECK-NEXT:   %second = tg.threefry %first, %l, %high, %low word = "second" : tensor<3xui32>, tensor<3xui32>, tensor<3xui32>, tensor<3xui32>
// CHECK-NEXT:   %both = tg.threefry %k, %l, %high, %second word = "both" : tensor<3xui32>, tensor<3xui32>, tensor<3xui32>, tensor<3xui32>
// CHECK-NEXT:   func.return %both : tensor<3xui32>
// CHECK-NEXT: }

func.func @inverse(%x: tensor<4xf32>, %y: tensor<f64>) -> (tensor<4xf32>, tensor<f64>) {
  %a = tg.erfinv %x : tensor<4xf32>
  %b = tg.erfinv %y : tensor<f64>
  func.return %a, %b : tensor<4xf32>, tensor<f64>
}
// CHECK-LABEL: func.func @inverse(
// CHECK-SAME: %x: tensor<4xf32>, %y: tensor<f64>) -> (tensor<4xf32>, tensor<f64>) {
// CHECK-NEXT:   %a = tg.erfinv %x : tensor<4xf32>
// CHECK-NEXT:   %b = tg.erfinv %y : tensor<f64>
// CHECK-NEXT:   func.return %a, %b : tensor<4xf32>, tensor<f64>
// CHECK-NEXT: }
