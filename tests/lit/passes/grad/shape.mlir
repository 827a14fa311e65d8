// RUN: tg-opt %s --split-input-file -p 'grad,simplify' | filecheck %s

func.func @reshape(%x: tensor<4x3xf32>, %w: tensor<2x6xf32>) -> tensor<f32> {
  %y = tg.reshape %x shape = [2, 6] : tensor<4x3xf32>
  %p = tg.mul %y, %w : tensor<2x6xf32>, tensor<2x6xf32>
  %loss = tg.sum %p axes = [0, 1] : tensor<2x6xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @reshape(
// CHECK-SAME: %x: tensor<4x3xf32> {tg.name = "arg0", tg.role = "input"}, %w: tensor<2x6xf32> {tg.name = "arg1", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<4x3xf32> {tg.name = "arg0", tg.role = "gradient"}) {
// CHECK-NEXT:   %y = tg.reshape %x shape = [2, 6] : tensor<4x3xf32>
// CHECK-NEXT:   %p = tg.mul %y, %w : tensor<2x6xf32>, tensor<2x6xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0, 1] : tensor<2x6xf32>
// CHECK-NEXT:   %0 = tg.reshape %w shape = [4, 3] : tensor<2x6xf32>
// CHECK-NEXT:   func.return %loss, %0 : tensor<f32>, tensor<4x3xf32>
// CHECK-NEXT: }

// -----

// The cotangent is transposed by the inverse permutation.
func.func @transpose(%x: tensor<4x3x2xf32>, %w: tensor<3x2x4xf32>) -> tensor<f32> {
  %y = tg.transpose %x permutation = [1, 2, 0] : tensor<4x3x2xf32>
  %p = tg.mul %y, %w : tensor<3x2x4xf32>, tensor<3x2x4xf32>
  %loss = tg.sum %p axes = [0, 1, 2] : tensor<3x2x4xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @transpose(
// CHECK-SAME: %x: tensor<4x3x2xf32> {tg.name = "arg0", tg.role = "input"}, %w: tensor<3x2x4xf32> {tg.name = "arg1", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<4x3x2xf32> {tg.name = "arg0", tg.role = "gradient"}) {
// CHECK-NEXT:   %y = tg.transpose %x permutation = [1, 2, 0] : tensor<4x3x2xf32>
// CHECK-NEXT:   %p = tg.mul %y, %w : tensor<3x2x4xf32>, tensor<3x2x4xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0, 1, 2] : tensor<3x2x4xf32>
// CHECK-NEXT:   %0 = tg.transpose %w permutation = [2, 0, 1] : tensor<3x2x4xf32>
// CHECK-NEXT:   func.return %loss, %0 : tensor<f32>, tensor<4x3x2xf32>
// CHECK-NEXT: }

// -----

func.func @broadcast(%x: tensor<3xf32>, %w: tensor<4x3x2xf32>) -> tensor<f32> {
  %y = tg.broadcast %x shape = [4, 3, 2] dims = [1] : tensor<3xf32>
  %p = tg.mul %y, %w : tensor<4x3x2xf32>, tensor<4x3x2xf32>
  %loss = tg.sum %p axes = [0, 1, 2] : tensor<4x3x2xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @broadcast(
// CHECK-SAME: %x: tensor<3xf32> {tg.name = "arg0", tg.role = "input"}, %w: tensor<4x3x2xf32> {tg.name = "arg1", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<3xf32> {tg.name = "arg0", tg.role = "gradient"}) {
// CHECK-NEXT:   %y = tg.broadcast %x shape = [4, 3, 2] dims = [1] : tensor<3xf32>
// CHECK-NEXT:   %p = tg.mul %y, %w : tensor<4x3x2xf32>, tensor<4x3x2xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0, 1, 2] : tensor<4x3x2xf32>
// CHECK-NEXT:   %0 = tg.sum %w axes = [0, 2] : tensor<4x3x2xf32>
// CHECK-NEXT:   func.return %loss, %0 : tensor<f32>, tensor<3xf32>
// CHECK-NEXT: }

// -----

// The cotangent is padded with zeros where the slice reads nothing.
func.func @slice(%x: tensor<7x3xf32>, %w: tensor<2x2xf32>) -> tensor<f32> {
  %y = tg.slice %x start = [1, 0] stop = [6, 2] step = [3, 1] : tensor<7x3xf32>
  %p = tg.mul %y, %w : tensor<2x2xf32>, tensor<2x2xf32>
  %loss = tg.sum %p axes = [0, 1] : tensor<2x2xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @slice(
// CHECK-SAME: %x: tensor<7x3xf32> {tg.name = "arg0", tg.role = "input"}, %w: tensor<2x2xf32> {tg.name = "arg1", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<7x3xf32> {tg.name = "arg0", tg.role = "gradient"}) {
// CHECK-NEXT:   %y = tg.slice %x start = [1, 0] stop = [6, 2] step = [3, 1] : tensor<7x3xf32>
// CHECK-NEXT:   %p = tg.mul %y, %w : tensor<2x2xf32>, tensor<2x2xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0, 1] : tensor<2x2xf32>
// CHECK-NEXT:   %0 = tg.constant value = dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT:   %1 = tg.pad %w, %0 low = [1, 0] high = [2, 1] interior = [2, 0] : tensor<2x2xf32>, tensor<f32>
// CHECK-NEXT:   func.return %loss, %1 : tensor<f32>, tensor<7x3xf32>
// CHECK-NEXT: }

// -----

func.func @reverse(%x: tensor<4x3xf32>, %w: tensor<4x3xf32>) -> tensor<f32> {
  %y = tg.reverse %x axes = [1] : tensor<4x3xf32>
  %p = tg.mul %y, %w : tensor<4x3xf32>, tensor<4x3xf32>
  %loss = tg.sum %p axes = [0, 1] : tensor<4x3xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @reverse(
// CHECK-SAME: %x: tensor<4x3xf32> {tg.name = "arg0", tg.role = "input"}, %w: tensor<4x3xf32> {tg.name = "arg1", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<4x3xf32> {tg.name = "arg0", tg.role = "gradient"}) {
// CHECK-NEXT:   %y = tg.reverse %x axes = [1] : tensor<4x3xf32>
// CHECK-NEXT:   %p = tg.mul %y, %w : tensor<4x3xf32>, tensor<4x3xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0, 1] : tensor<4x3xf32>
// CHECK-NEXT:   %0 = tg.reverse %w axes = [1] : tensor<4x3xf32>
// CHECK-NEXT:   func.return %loss, %0 : tensor<f32>, tensor<4x3xf32>
// CHECK-NEXT: }

// -----

func.func @pad(%x: tensor<4xf32>, %w: tensor<10xf32>) -> tensor<f32> {
  %zero = tg.constant value = dense<0.000000e+00> : tensor<f32>
  %y = tg.pad %x, %zero low = [1] high = [2] interior = [1] : tensor<4xf32>, tensor<f32>
  %p = tg.mul %y, %w : tensor<10xf32>, tensor<10xf32>
  %loss = tg.sum %p axes = [0] : tensor<10xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @pad(
// CHECK-SAME: %x: tensor<4xf32> {tg.name = "arg0", tg.role = "input"}, %w: tensor<10xf32> {tg.name = "arg1", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<4xf32> {tg.name = "arg0", tg.role = "gradient"}) {
// CHECK-NEXT:   %zero = tg.constant value = dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT:   %y = tg.pad %x, %zero low = [1] high = [2] interior = [1] : tensor<4xf32>, tensor<f32>
// CHECK-NEXT:   %p = tg.mul %y, %w : tensor<10xf32>, tensor<10xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0] : tensor<10xf32>
// CHECK-NEXT:   %0 = tg.slice %w start = [1] stop = [8] step = [2] : tensor<10xf32>
// CHECK-NEXT:   func.return %loss, %0 : tensor<f32>, tensor<4xf32>
// CHECK-NEXT: }
