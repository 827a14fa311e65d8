// RUN: TG_ROUNDTRIP

// The result's spatial extents follow from the padded images, the windows and the stride.
func.func @conv(%x: tensor<8x3x32x32xf32>, %w: tensor<16x3x3x3xf32>) -> tensor<8x16x16x16xf32> {
  %y = tg.conv %x, %w stride = [2, 2] low = [1, 1] high = [1, 1] lhs_dilation = [1, 1] rhs_dilation = [1, 1] groups = 1 : tensor<8x3x32x32xf32>, tensor<16x3x3x3xf32>
  func.return %y : tensor<8x16x16x16xf32>
}
// CHECK-LABEL: func.func @conv(
// CHECK-SAME: %x: tensor<8x3x32x32xf32>, %w: tensor<16x3x3x3xf32>) -> tensor<8x16x16x16xf32> {
// CHECK-NEXT:   %y = tg.conv %x, %w stride = [2, 2] low = [1, 1] high = [1, 1] lhs_dilation = [1, 1] rhs_dilation = [1, 1] groups = 1 : tensor<8x3x32x32xf32>, tensor<16x3x3x3xf32>
// CHECK-NEXT:   func.return %y : tensor<8x16x16x16xf32>
// CHECK-NEXT: }

// Negative padding crops the images; `lhs_dilation` dilates the images, and `rhs_dilation` the windows.
func.func @holes(%x: tensor<1x4x5xf32>, %w: tensor<6x2x2xf32>) -> tensor<1x6x7xf32> {
  %y = tg.conv %x, %w stride = [1] low = [-1] high = [2] lhs_dilation = [2] rhs_dilation = [3] groups = 2 : tensor<1x4x5xf32>, tensor<6x2x2xf32>
  func.return %y : tensor<1x6x7xf32>
}
// CHECK-LABEL: func.func @holes(
// CHECK-SAME: %x: tensor<1x4x5xf32>, %w: tensor<6x2x2xf32>) -> tensor<1x6x7xf32> {
// CHECK-NEXT:   %y = tg.conv %x, %w stride = [1] low = [-1] high = [2] lhs_dilation = [2] rhs_dilation = [3] groups = 2 : tensor<1x4x5xf32>, tensor<6x2x2xf32>
// CHECK-NEXT:   func.return %y : tensor<1x6x7xf32>
// CHECK-NEXT: }

func.func @windows(%x: tensor<2x7x6xf32>) -> (tensor<2x3x2x3x2xf32>, tensor<2x7x6xf32>) {
  %windows = tg.windows %x axes = [1, 2] size = [3, 2] stride = [2, 3] dilation = [1, 2] : tensor<2x7x6xf32>
  %fold = tg.fold %windows axes = [1, 2] stride = [2, 3] dilation = [1, 2] extents = [7, 6] : tensor<2x3x2x3x2xf32>
  func.return %windows, %fold : tensor<2x3x2x3x2xf32>, tensor<2x7x6xf32>
}
// CHECK-LABEL: func.func @windows(
// CHECK-SAME: %x: tensor<2x7x6xf32>) -> (tensor<2x3x2x3x2xf32>, tensor<2x7x6xf32>) {
// CHECK-NEXT:   %windows = tg.windows %x axes = [1, 2] size = [3, 2] stride = [2, 3] dilation = [1, 2] : tensor<2x7x6xf32>
// CHECK-NEXT:   %fold = tg.fold %windows axes = [1, 2] stride = [2, 3] dilation = [1, 2] extents = [7, 6] : tensor<2x3x2x3x2xf32>
// CHECK-NEXT:   func.return %windows, %fold : tensor<2x3x2x3x2xf32>, tensor<2x7x6xf32>
// CHECK-NEXT: }
