// RUN: tg-opt %s -p 'lower-tg-to-buf,schedule{target=lavapipe}' | filecheck %s

// A matrix product: lanes run along all places of all images, a thread takes neighbouring channels. Sums run over
// the channels innermost, for the edges of images are found out once for all channels.
func.func @image(%x: tensor<4x16x14x14xf32>, %w: tensor<32x16x3x3xf32>) -> tensor<4x32x14x14xf32> {
  %y = tg.conv %x, %w stride = [1, 1] low = [1, 1] high = [1, 1] lhs_dilation = [1, 1] rhs_dilation = [1, 1] groups = 1 : tensor<4x16x14x14xf32>, tensor<32x16x3x3xf32>
  func.return %y : tensor<4x32x14x14xf32>
}
// CHECK-LABEL: func.func @image(
// CHECK: buf.kernel grid = [4, 32, 14, 14] {{.*}}<contraction, {{.*}} row = [1], column = [0, 2, 3], {{.*}} inner = 0

// The loops of the window belong to the columns.
func.func @weights(%x: tensor<16x4x16x16xf32>, %g: tensor<32x4x14x14xf32>) -> tensor<16x32x3x3xf32> {
  %y = tg.conv %x, %g stride = [1, 1] low = [0, 0] high = [0, 0] lhs_dilation = [1, 1] rhs_dilation = [1, 1] groups = 1 : tensor<16x4x16x16xf32>, tensor<32x4x14x14xf32>
  func.return %y : tensor<16x32x3x3xf32>
}
// CHECK-LABEL: func.func @weights(
// CHECK: buf.kernel grid = [16, 32, 3, 3] {{.*}}<contraction, {{.*}} row = [1], column = [0, 2, 3]

// Each output reads its own channel: nothing is shared, a thread computes an element.
func.func @depthwise(%x: tensor<4x32x14x14xf32>, %w: tensor<32x1x3x3xf32>) -> tensor<4x32x12x12xf32> {
  %y = tg.conv %x, %w stride = [1, 1] low = [0, 0] high = [0, 0] lhs_dilation = [1, 1] rhs_dilation = [1, 1] groups = 32 : tensor<4x32x14x14xf32>, tensor<32x1x3x3xf32>
  func.return %y : tensor<4x32x12x12xf32>
}
// CHECK-LABEL: func.func @depthwise(
// CHECK: buf.kernel grid = [4, 32, 12, 12] {{.*}}<thread, 
