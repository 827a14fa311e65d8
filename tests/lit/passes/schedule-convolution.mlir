// RUN: tg-opt %s -p 'lower-tg-to-buf,schedule{target=lavapipe}' | filecheck %s

// As a matrix product: rows are output channels, columns are all positions of all images. The loop over input channels
// is innermost, so that the bounds of the image are checked once for all channels.
func.func @image(%x: tensor<4x16x14x14xf32>, %w: tensor<32x16x3x3xf32>) -> tensor<4x32x14x14xf32> {
  %y = tg.conv %x, %w stride = [1, 1] low = [1, 1] high = [1, 1] lhs_dilation = [1, 1] rhs_dilation = [1, 1] groups = 1 : tensor<4x16x14x14xf32>, tensor<32x16x3x3xf32>
  func.return %y : tensor<4x32x14x14xf32>
}
// CHECK-LABEL: func.func @image(
// CHECK: buf.kernel grid = [4, 32, 14, 14] {{.*}}<contraction, {{.*}} row = [1], column = [0, 2, 3], {{.*}} inner = 0

// In the gradient of the weights, the loops over the window are columns.
func.func @weights(%x: tensor<16x4x16x16xf32>, %g: tensor<32x4x14x14xf32>) -> tensor<16x32x3x3xf32> {
  %y = tg.conv %x, %g stride = [1, 1] low = [0, 0] high = [0, 0] lhs_dilation = [1, 1] rhs_dilation = [1, 1] groups = 1 : tensor<16x4x16x16xf32>, tensor<32x4x14x14xf32>
  func.return %y : tensor<16x32x3x3xf32>
}
// CHECK-LABEL: func.func @weights(
// CHECK: buf.kernel grid = [16, 32, 3, 3] {{.*}}<contraction, {{.*}} row = [1], column = [0, 2, 3]

// A depthwise convolution has no reuse across channels: one thread per element.
func.func @depthwise(%x: tensor<4x32x14x14xf32>, %w: tensor<32x1x3x3xf32>) -> tensor<4x32x12x12xf32> {
  %y = tg.conv %x, %w stride = [1, 1] low = [0, 0] high = [0, 0] lhs_dilation = [1, 1] rhs_dilation = [1, 1] groups = 32 : tensor<4x32x14x14xf32>, tensor<32x1x3x3xf32>
  func.return %y : tensor<4x32x12x12xf32>
}
// CHECK-LABEL: func.func @depthwise(
// CHECK: buf.kernel grid = [4, 32, 12, 12] {{.*}}<thread, 
