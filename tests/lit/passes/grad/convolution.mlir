// RUN: tg-opt %s --split-input-file -p 'grad{wrt=0,1},simplify' | filecheck %s

// The stride becomes a dilation of the cotangent, and the window is reversed.
func.func @strided(%x: tensor<2x3x8xf32>, %w: tensor<4x3x3xf32>, %g: tensor<2x4x4xf32>) -> tensor<f32> {
  %y = tg.conv %x, %w stride = [2] low = [1] high = [1] lhs_dilation = [1] rhs_dilation = [1] groups = 1 : tensor<2x3x8xf32>, tensor<4x3x3xf32>
  %p = tg.mul %y, %g : tensor<2x4x4xf32>, tensor<2x4x4xf32>
  %loss = tg.sum %p axes = [0, 1, 2] : tensor<2x4x4xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @strided(
// CHECK-SAME: %x: tensor<2x3x8xf32> {tg.name = "arg0", tg.role = "input"}, %w: tensor<4x3x3xf32> {tg.name = "arg1", tg.role = "input"}, %g: tensor<2x4x4xf32> {tg.name = "arg2", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<2x3x8xf32> {tg.name = "arg0", tg.role = "gradient"}, tensor<4x3x3xf32> {tg.name = "arg1", tg.role = "gradient"}) {
// CHECK-NEXT:   %y = tg.conv %x, %w stride = [2] low = [1] high = [1] lhs_dilation = [1] rhs_dilation = [1] groups = 1 : tensor<2x3x8xf32>, tensor<4x3x3xf32>
// CHECK-NEXT:   %p = tg.mul %y, %g : tensor<2x4x4xf32>, tensor<2x4x4xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0, 1, 2] : tensor<2x4x4xf32>
// CHECK-NEXT:   %0 = tg.transpose %w permutation = [1, 0, 2] : tensor<4x3x3xf32>
// CHECK-NEXT:   %1 = tg.reverse %0 axes = [2] : tensor<3x4x3xf32>
// CHECK-NEXT:   %2 = tg.conv %g, %1 stride = [1] low = [1] high = [2] lhs_dilation = [2] rhs_dilation = [1] groups = 1 : tensor<2x4x4xf32>, tensor<3x4x3xf32>
// CHECK-NEXT:   %3 = tg.transpose %x permutation = [1, 0, 2] : tensor<2x3x8xf32>
// CHECK-NEXT:   %4 = tg.transpose %g permutation = [1, 0, 2] : tensor<2x4x4xf32>
// CHECK-NEXT:   %5 = tg.conv %3, %4 stride = [1] low = [1] high = [0] lhs_dilation = [1] rhs_dilation = [2] groups = 1 : tensor<3x2x8xf32>, tensor<4x2x4xf32>
// CHECK-NEXT:   %6 = tg.transpose %5 permutation = [1, 0, 2] : tensor<3x4x3xf32>
// CHECK-NEXT:   func.return %loss, %2, %6 : tensor<f32>, tensor<2x3x8xf32>, tensor<4x3x3xf32>
// CHECK-NEXT: }

// -----

// The dilation of the image becomes the stride of its derivative; groups remain groups.
func.func @groups(%x: tensor<2x4x5xf32>, %w: tensor<6x2x2xf32>, %g: tensor<2x6x6xf32>) -> tensor<f32> {
  %y = tg.conv %x, %w stride = [1] low = [-1] high = [2] lhs_dilation = [2] rhs_dilation = [4] groups = 2 : tensor<2x4x5xf32>, tensor<6x2x2xf32>
  %p = tg.mul %y, %g : tensor<2x6x6xf32>, tensor<2x6x6xf32>
  %loss = tg.sum %p axes = [0, 1, 2] : tensor<2x6x6xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @groups(
// CHECK-SAME: %x: tensor<2x4x5xf32> {tg.name = "arg0", tg.role = "input"}, %w: tensor<6x2x2xf32> {tg.name = "arg1", tg.role = "input"}, %g: tensor<2x6x6xf32> {tg.name = "arg2", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<2x4x5xf32> {tg.name = "arg0", tg.role = "gradient"}, tensor<6x2x2xf32> {tg.name = "arg1", tg.role = "gradient"}) {
// CHECK-NEXT:   %y = tg.conv %x, %w stride = [1] low = [-1] high = [2] lhs_dilation = [2] rhs_dilation = [4] groups = 2 : tensor<2x4x5xf32>, tensor<6x2x2xf32>
// CHECK-NEXT:   %p = tg.mul %y, %g : tensor<2x6x6xf32>, tensor<2x6x6xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0, 1, 2] : tensor<2x6x6xf32>
// CHECK-NEXT:   %0 = tg.reshape %w shape = [2, 3, 2, 2] : tensor<6x2x2xf32>
// CHECK-NEXT:   %1 = tg.transpose %0 permutation = [0, 2, 1, 3] : tensor<2x3x2x2xf32>
// CHECK-NEXT:   %2 = tg.reshape %1 shape = [4, 3, 2] : tensor<2x2x3x2xf32>
// CHECK-NEXT:   %3 = tg.reverse %2 axes = [2] : tensor<4x3x2xf32>
// CHECK-NEXT:   %4 = tg.conv %g, %3 stride = [2] low = [5] high = [2] lhs_dilation = [1] rhs_dilation = [4] groups = 2 : tensor<2x6x6xf32>, tensor<4x3x2xf32>
// CHECK-NEXT:   %5 = tg.reshape %x shape = [2, 2, 2, 5] : tensor<2x4x5xf32>
// CHECK-NEXT:   %6 = tg.transpose %5 permutation = [2, 1, 0, 3] : tensor<2x2x2x5xf32>
// CHECK-NEXT:   %7 = tg.reshape %6 shape = [2, 4, 5] : tensor<2x2x2x5xf32>
// CHECK-NEXT:   %8 = tg.transpose %g permutation = [1, 0, 2] : tensor<2x6x6xf32>
// CHECK-NEXT:   %9 = tg.conv %7, %8 stride = [4] low = [-1] high = [2] lhs_dilation = [2] rhs_dilation = [1] groups = 2 : tensor<2x4x5xf32>, tensor<6x2x6xf32>
// CHECK-NEXT:   %10 = tg.transpose %9 permutation = [1, 0, 2] : tensor<2x6x2xf32>
// CHECK-NEXT:   func.return %loss, %4, %10 : tensor<f32>, tensor<2x4x5xf32>, tensor<6x2x2xf32>
// CHECK-NEXT: }

// -----

// The transpose of `windows` is `fold`: it adds the cotangents of overlapping windows.
func.func @windows(%x: tensor<7xf32>, %g: tensor<3x3xf32>) -> tensor<f32> {
  %y = tg.windows %x axes = [0] size = [3] stride = [2] dilation = [1] : tensor<7xf32>
  %p = tg.mul %y, %g : tensor<3x3xf32>, tensor<3x3xf32>
  %loss = tg.sum %p axes = [0, 1] : tensor<3x3xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @windows(
// CHECK-SAME: %x: tensor<7xf32> {tg.name = "arg0", tg.role = "input"}, %g: tensor<3x3xf32> {tg.name = "arg1", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<7xf32> {tg.name = "arg0", tg.role = "gradient"}, tensor<3x3xf32> {tg.name = "arg1", tg.role = "gradient"}) {
// CHECK-NEXT:   %y = tg.windows %x axes = [0] size = [3] stride = [2] dilation = [1] : tensor<7xf32>
// CHECK-NEXT:   %p = tg.mul %y, %g : tensor<3x3xf32>, tensor<3x3xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0, 1] : tensor<3x3xf32>
// CHECK-NEXT:   %0 = tg.fold %g axes = [0] stride = [2] dilation = [1] extents = [7] : tensor<3x3xf32>
// CHECK-NEXT:   func.return %loss, %0, %y : tensor<f32>, tensor<7xf32>, tensor<3x3xf32>
// CHECK-NEXT: }

// -----

func.func @fold(%x: tensor<3x3xf32>, %g: tensor<8xf32>) -> tensor<f32> {
  %y = tg.fold %x axes = [0] stride = [2] dilation = [1] extents = [8] : tensor<3x3xf32>
  %p = tg.mul %y, %g : tensor<8xf32>, tensor<8xf32>
  %loss = tg.sum %p axes = [0] : tensor<8xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @fold(
// CHECK-SAME: %x: tensor<3x3xf32> {tg.name = "arg0", tg.role = "input"}, %g: tensor<8xf32> {tg.name = "arg1", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<3x3xf32> {tg.name = "arg0", tg.role = "gradient"}, tensor<8xf32> {tg.name = "arg1", tg.role = "gradient"}) {
// CHECK-NEXT:   %y = tg.fold %x axes = [0] stride = [2] dilation = [1] extents = [8] : tensor<3x3xf32>
// CHECK-NEXT:   %p = tg.mul %y, %g : tensor<8xf32>, tensor<8xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0] : tensor<8xf32>
// CHECK-NEXT:   %0 = tg.windows %g axes = [0] size = [3] stride = [2] dilation = [1] : tensor<8xf32>
// CHECK-NEXT:   func.return %loss, %0, %y : tensor<f32>, tensor<3x3xf32>, tensor<8xf32>
// CHECK-NEXT: }
