// RUN: tg-opt %s --split-input-file --parsing-diagnostics --print-diagnostics | filecheck %s

func.func @f(%x: tensor<1x3x8xf32>, %w: tensor<4x2x3xf32>) {
  // CHECK: tg.conv: 3 channels are not 1 groups of 2, or 4 outputs are not divisible by 1
  %0 = tg.conv %x, %w stride = [1] low = [0] high = [0] lhs_dilation = [1] rhs_dilation = [1] groups = 1 : tensor<1x3x8xf32>, tensor<4x2x3xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8xf32>, %w: tensor<4x3x3xf32>) {
  // CHECK: tg.conv: stride, low, high and dilations must name each of the 1 spatial axes
  %0 = tg.conv %x, %w stride = [1, 1] low = [0] high = [0] lhs_dilation = [1] rhs_dilation = [1] groups = 1 : tensor<1x3x8xf32>, tensor<4x3x3xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8xf32>, %w: tensor<4x3x3xf32>) {
  // CHECK: tg.conv: strides and dilations must be at least 1
  %0 = tg.conv %x, %w stride = [0] low = [0] high = [0] lhs_dilation = [1] rhs_dilation = [1] groups = 1 : tensor<1x3x8xf32>, tensor<4x3x3xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8xf32>, %w: tensor<4x3xf32>) {
  // CHECK: tg.conv: needs [batch, channels, ...] and [out, channels, ...], got tensor<1x3x8xf32> and tensor<4x3xf32>
  %0 = tg.conv %x, %w stride = [1] low = [0] high = [0] lhs_dilation = [1] rhs_dilation = [1] groups = 1 : tensor<1x3x8xf32>, tensor<4x3xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8xf32>, %w: tensor<4x3x3xi32>) {
  // CHECK: tg.conv: element types differ: tensor<1x3x8xf32> and tensor<4x3x3xi32>
  %0 = tg.conv %x, %w stride = [1] low = [0] high = [0] lhs_dilation = [1] rhs_dilation = [1] groups = 1 : tensor<1x3x8xf32>, tensor<4x3x3xi32>
  func.return
}

// -----

func.func @f(%x: tensor<8xf32>) {
  // CHECK: tg.windows: sizes, strides and dilations must be at least 1
  %0 = tg.windows %x axes = [0] size = [0] stride = [1] dilation = [1] : tensor<8xf32>
  func.return
}

// -----

func.func @f(%x: tensor<8xf32>) {
  // CHECK: tg.windows: axes [1] must be distinct axes of a tensor of rank 1
  %0 = tg.windows %x axes = [1] size = [2] stride = [1] dilation = [1] : tensor<8xf32>
  func.return
}

// -----

func.func @f(%x: tensor<3x2xf32>) {
  // CHECK: tg.fold: extent 8 holds 4 windows of 2, 2 apart, not 3 (axis 0)
  %0 = tg.fold %x axes = [0] stride = [2] dilation = [1] extents = [8] : tensor<3x2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<3x2xi1>) {
  // CHECK: tg.fold: takes numbers, not i1
  %0 = tg.fold %x axes = [0] stride = [2] dilation = [1] extents = [6] : tensor<3x2xi1>
  func.return
}
