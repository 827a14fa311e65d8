// RUN: tg-opt %s --split-input-file -p 'grad{wrt=0,1},simplify' | filecheck %s

func.func @product(%a: tensor<4x3xf32>, %b: tensor<3x5xf32>, %w: tensor<4x5xf32>) -> tensor<f32> {
  %y = tg.dot_general %a, %b lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<4x3xf32>, tensor<3x5xf32>
  %p = tg.mul %y, %w : tensor<4x5xf32>, tensor<4x5xf32>
  %loss = tg.sum %p axes = [0, 1] : tensor<4x5xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @product(
// CHECK-SAME: %a: tensor<4x3xf32> {tg.name = "arg0", tg.role = "input"}, %b: tensor<3x5xf32> {tg.name = "arg1", tg.role = "input"}, %w: tensor<4x5xf32> {tg.name = "arg2", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<4x3xf32> {tg.name = "arg0", tg.role = "gradient"}, tensor<3x5xf32> {tg.name = "arg1", tg.role = "gradient"}) {
// CHECK-NEXT:   %y = tg.dot_general %a, %b lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<4x3xf32>, tensor<3x5xf32>
// CHECK-NEXT:   %p = tg.mul %y, %w : tensor<4x5xf32>, tensor<4x5xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0, 1] : tensor<4x5xf32>
// CHECK-NEXT:   %0 = tg.dot_general %w, %b lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [1] : tensor<4x5xf32>, tensor<3x5xf32>
// CHECK-NEXT:   %1 = tg.dot_general %a, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [0] rhs_contracting = [0] : tensor<4x3xf32>, tensor<4x5xf32>
// CHECK-NEXT:   func.return %loss, %0, %1 : tensor<f32>, tensor<4x3xf32>, tensor<3x5xf32>
// CHECK-NEXT: }

// -----

// The batch axis is transposed back to its position in the operand.
func.func @batched(%a: tensor<4x2x3xf32>, %b: tensor<2x3x5xf32>, %w: tensor<2x4x5xf32>) -> tensor<f32> {
  %y = tg.dot_general %a, %b lhs_batch = [1] rhs_batch = [0] lhs_contracting = [2] rhs_contracting = [1] : tensor<4x2x3xf32>, tensor<2x3x5xf32>
  %p = tg.mul %y, %w : tensor<2x4x5xf32>, tensor<2x4x5xf32>
  %loss = tg.sum %p axes = [0, 1, 2] : tensor<2x4x5xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @batched(
// CHECK-SAME: %a: tensor<4x2x3xf32> {tg.name = "arg0", tg.role = "input"}, %b: tensor<2x3x5xf32> {tg.name = "arg1", tg.role = "input"}, %w: tensor<2x4x5xf32> {tg.name = "arg2", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<4x2x3xf32> {tg.name = "arg0", tg.role = "gradient"}, tensor<2x3x5xf32> {tg.name = "arg1", tg.role = "gradient"}) {
// CHECK-NEXT:   %y = tg.dot_general %a, %b lhs_batch = [1] rhs_batch = [0] lhs_contracting = [2] rhs_contracting = [1] : tensor<4x2x3xf32>, tensor<2x3x5xf32>
// CHECK-NEXT:   %p = tg.mul %y, %w : tensor<2x4x5xf32>, tensor<2x4x5xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0, 1, 2] : tensor<2x4x5xf32>
// CHECK-NEXT:   %0 = tg.dot_general %w, %b lhs_batch = [0] rhs_batch = [0] lhs_contracting = [2] rhs_contracting = [2] : tensor<2x4x5xf32>, tensor<2x3x5xf32>
// CHECK-NEXT:   %1 = tg.dot_general %a, %w lhs_batch = [1] rhs_batch = [0] lhs_contracting = [0] rhs_contracting = [1] : tensor<4x2x3xf32>, tensor<2x4x5xf32>
// CHECK-NEXT:   %2 = tg.transpose %0 permutation = [1, 0, 2] : tensor<2x4x3xf32>
// CHECK-NEXT:   func.return %loss, %2, %1 : tensor<f32>, tensor<4x2x3xf32>, tensor<2x3x5xf32>
// CHECK-NEXT: }

// -----

// The derivative by the padding value: the sum of the cotangent, less that of the operand's part.
func.func @pad_value(%x: tensor<4xf32>, %v: tensor<f32>, %w: tensor<10xf32>) -> tensor<f32> {
  %y = tg.pad %x, %v low = [1] high = [2] interior = [1] : tensor<4xf32>, tensor<f32>
  %p = tg.mul %y, %w : tensor<10xf32>, tensor<10xf32>
  %loss = tg.sum %p axes = [0] : tensor<10xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @pad_value(
// CHECK-SAME: %x: tensor<4xf32> {tg.name = "arg0", tg.role = "input"}, %v: tensor<f32> {tg.name = "arg1", tg.role = "input"}, %w: tensor<10xf32> {tg.name = "arg2", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<4xf32> {tg.name = "arg0", tg.role = "gradient"}, tensor<f32> {tg.name = "arg1", tg.role = "gradient"}) {
// CHECK-NEXT:   %y = tg.pad %x, %v low = [1] high = [2] interior = [1] : tensor<4xf32>, tensor<f32>
// CHECK-NEXT:   %p = tg.mul %y, %w : tensor<10xf32>, tensor<10xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0] : tensor<10xf32>
// CHECK-NEXT:   %0 = tg.slice %w start = [1] stop = [8] step = [2] : tensor<10xf32>
// CHECK-NEXT:   %1 = tg.sum %w axes = [0] : tensor<10xf32>
// CHECK-NEXT:   %2 = tg.sum %0 axes = [0] : tensor<4xf32>
// CHECK-NEXT:   %3 = tg.sub %1, %2 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   func.return %loss, %0, %3 : tensor<f32>, tensor<4xf32>, tensor<f32>
// CHECK-NEXT: }

// -----

func.func @outer(%a: tensor<4xf32>, %b: tensor<5xf32>, %w: tensor<4x5xf32>) -> tensor<f32> {
  %y = tg.dot_general %a, %b lhs_batch = [] rhs_batch = [] lhs_contracting = [] rhs_contracting = [] : tensor<4xf32>, tensor<5xf32>
  %p = tg.mul %y, %w : tensor<4x5xf32>, tensor<4x5xf32>
  %loss = tg.sum %p axes = [0, 1] : tensor<4x5xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @outer(
// CHECK-SAME: %a: tensor<4xf32> {tg.name = "arg0", tg.role = "input"}, %b: tensor<5xf32> {tg.name = "arg1", tg.role = "input"}, %w: tensor<4x5xf32> {tg.name = "arg2", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<4xf32> {tg.name = "arg0", tg.role = "gradient"}, tensor<5xf32> {tg.name = "arg1", tg.role = "gradient"}) {
// CHECK-NEXT:   %y = tg.dot_general %a, %b lhs_batch = [] rhs_batch = [] lhs_contracting = [] rhs_contracting = [] : tensor<4xf32>, tensor<5xf32>
// CHECK-NEXT:   %p = tg.mul %y, %w : tensor<4x5xf32>, tensor<4x5xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0, 1] : tensor<4x5xf32>
// CHECK-NEXT:   %0 = tg.dot_general %w, %b lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<4x5xf32>, tensor<5xf32>
// CHECK-NEXT:   %1 = tg.dot_general %a, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [0] rhs_contracting = [0] : tensor<4xf32>, tensor<4x5xf32>
// CHECK-NEXT:   func.return %loss, %0, %1 : tensor<f32>, tensor<4xf32>, tensor<5xf32>
// CHECK-NEXT: }
