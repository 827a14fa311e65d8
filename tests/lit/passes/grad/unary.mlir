// RUN: tg-opt %s --split-input-file -p 'grad,simplify' | filecheck %s

// Every loss is the sum of %w times the op's result, so %w is the result's cotangent.

func.func @neg(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<f32> {
  %y = tg.neg %x : tensor<4xf32>
  %p = tg.mul %y, %w : tensor<4xf32>, tensor<4xf32>
  %loss = tg.sum %p axes = [0] : tensor<4xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @neg(
// CHECK-SAME: %x: tensor<4xf32> {tg.name = "arg0", tg.role = "input"}, %w: tensor<4xf32> {tg.name = "arg1", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<4xf32> {tg.name = "arg0", tg.role = "gradient"}) {
// CHECK-NEXT:   %y = tg.neg %x : tensor<4xf32>
// CHECK-NEXT:   %p = tg.mul %y, %w : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0] : tensor<4xf32>
// CHECK-NEXT:   %0 = tg.neg %w : tensor<4xf32>
// CHECK-NEXT:   func.return %loss, %0 : tensor<f32>, tensor<4xf32>
// CHECK-NEXT: }

// -----

// The derivative at 0 is 0.
func.func @abs(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<f32> {
  %y = tg.abs %x : tensor<4xf32>
  %p = tg.mul %y, %w : tensor<4xf32>, tensor<4xf32>
  %loss = tg.sum %p axes = [0] : tensor<4xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @abs(
// CHECK-SAME: %x: tensor<4xf32> {tg.name = "arg0", tg.role = "input"}, %w: tensor<4xf32> {tg.name = "arg1", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<4xf32> {tg.name = "arg0", tg.role = "gradient"}) {
// CHECK-NEXT:   %y = tg.abs %x : tensor<4xf32>
// CHECK-NEXT:   %p = tg.mul %y, %w : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0] : tensor<4xf32>
// CHECK-NEXT:   %0 = tg.constant value = dense<0.000000e+00> : tensor<4xf32>
// CHECK-NEXT:   %1 = tg.compare %x, %0 predicate = "lt" : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %2 = tg.neg %w : tensor<4xf32>
// CHECK-NEXT:   %3 = tg.select %1, %2, %0 : tensor<4xi1>, tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %4 = tg.compare %x, %0 predicate = "gt" : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %5 = tg.select %4, %w, %3 : tensor<4xi1>, tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   func.return %loss, %5 : tensor<f32>, tensor<4xf32>
// CHECK-NEXT: }

// -----

// The derivative uses the result instead of computing it again.
func.func @exp(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<f32> {
  %y = tg.exp %x : tensor<4xf32>
  %p = tg.mul %y, %w : tensor<4xf32>, tensor<4xf32>
  %loss = tg.sum %p axes = [0] : tensor<4xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @exp(
// CHECK-SAME: %x: tensor<4xf32> {tg.name = "arg0", tg.role = "input"}, %w: tensor<4xf32> {tg.name = "arg1", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<4xf32> {tg.name = "arg0", tg.role = "gradient"}) {
// CHECK-NEXT:   %y = tg.exp %x : tensor<4xf32>
// CHECK-NEXT:   %p = tg.mul %y, %w : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0] : tensor<4xf32>
// CHECK-NEXT:   %0 = tg.mul %w, %y : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   func.return %loss, %0 : tensor<f32>, tensor<4xf32>
// CHECK-NEXT: }

// -----

func.func @log(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<f32> {
  %y = tg.log %x : tensor<4xf32>
  %p = tg.mul %y, %w : tensor<4xf32>, tensor<4xf32>
  %loss = tg.sum %p axes = [0] : tensor<4xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @log(
// CHECK-SAME: %x: tensor<4xf32> {tg.name = "arg0", tg.role = "input"}, %w: tensor<4xf32> {tg.name = "arg1", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<4xf32> {tg.name = "arg0", tg.role = "gradient"}) {
// CHECK-NEXT:   %y = tg.log %x : tensor<4xf32>
// CHECK-NEXT:   %p = tg.mul %y, %w : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0] : tensor<4xf32>
// CHECK-NEXT:   %0 = tg.div %w, %x : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   func.return %loss, %0 : tensor<f32>, tensor<4xf32>
// CHECK-NEXT: }

// -----

func.func @sqrt(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<f32> {
  %y = tg.sqrt %x : tensor<4xf32>
  %p = tg.mul %y, %w : tensor<4xf32>, tensor<4xf32>
  %loss = tg.sum %p axes = [0] : tensor<4xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @sqrt(
// CHECK-SAME: %x: tensor<4xf32> {tg.name = "arg0", tg.role = "input"}, %w: tensor<4xf32> {tg.name = "arg1", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<4xf32> {tg.name = "arg0", tg.role = "gradient"}) {
// CHECK-NEXT:   %y = tg.sqrt %x : tensor<4xf32>
// CHECK-NEXT:   %p = tg.mul %y, %w : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0] : tensor<4xf32>
// CHECK-NEXT:   %0 = tg.constant value = dense<5.000000e-01> : tensor<4xf32>
// CHECK-NEXT:   %1 = tg.mul %w, %0 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %2 = tg.div %1, %y : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   func.return %loss, %2 : tensor<f32>, tensor<4xf32>
// CHECK-NEXT: }

// -----

func.func @sin(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<f32> {
  %y = tg.sin %x : tensor<4xf32>
  %p = tg.mul %y, %w : tensor<4xf32>, tensor<4xf32>
  %loss = tg.sum %p axes = [0] : tensor<4xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @sin(
// CHECK-SAME: %x: tensor<4xf32> {tg.name = "arg0", tg.role = "input"}, %w: tensor<4xf32> {tg.name = "arg1", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<4xf32> {tg.name = "arg0", tg.role = "gradient"}) {
// CHECK-NEXT:   %y = tg.sin %x : tensor<4xf32>
// CHECK-NEXT:   %p = tg.mul %y, %w : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0] : tensor<4xf32>
// CHECK-NEXT:   %0 = tg.cos %x : tensor<4xf32>
// CHECK-NEXT:   %1 = tg.mul %w, %0 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   func.return %loss, %1 : tensor<f32>, tensor<4xf32>
// CHECK-NEXT: }

// -----

func.func @cos(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<f32> {
  %y = tg.cos %x : tensor<4xf32>
  %p = tg.mul %y, %w : tensor<4xf32>, tensor<4xf32>
  %loss = tg.sum %p axes = [0] : tensor<4xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @cos(
// CHECK-SAME: %x: tensor<4xf32> {tg.name = "arg0", tg.role = "input"}, %w: tensor<4xf32> {tg.name = "arg1", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<4xf32> {tg.name = "arg0", tg.role = "gradient"}) {
// CHECK-NEXT:   %y = tg.cos %x : tensor<4xf32>
// CHECK-NEXT:   %p = tg.mul %y, %w : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0] : tensor<4xf32>
// CHECK-NEXT:   %0 = tg.sin %x : tensor<4xf32>
// CHECK-NEXT:   %1 = tg.mul %w, %0 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %2 = tg.neg %1 : tensor<4xf32>
// CHECK-NEXT:   func.return %loss, %2 : tensor<f32>, tensor<4xf32>
// CHECK-NEXT: }

// -----

func.func @tanh(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<f32> {
  %y = tg.tanh %x : tensor<4xf32>
  %p = tg.mul %y, %w : tensor<4xf32>, tensor<4xf32>
  %loss = tg.sum %p axes = [0] : tensor<4xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @tanh(
// CHECK-SAME: %x: tensor<4xf32> {tg.name = "arg0", tg.role = "input"}, %w: tensor<4xf32> {tg.name = "arg1", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<4xf32> {tg.name = "arg0", tg.role = "gradient"}) {
// CHECK-NEXT:   %y = tg.tanh %x : tensor<4xf32>
// CHECK-NEXT:   %p = tg.mul %y, %w : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0] : tensor<4xf32>
// CHECK-NEXT:   %0 = tg.constant value = dense<1.000000e+00> : tensor<4xf32>
// CHECK-NEXT:   %1 = tg.mul %y, %y : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %2 = tg.sub %0, %1 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %3 = tg.mul %w, %2 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   func.return %loss, %3 : tensor<f32>, tensor<4xf32>
// CHECK-NEXT: }

// -----

func.func @sigmoid(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<f32> {
  %y = tg.sigmoid %x : tensor<4xf32>
  %p = tg.mul %y, %w : tensor<4xf32>, tensor<4xf32>
  %loss = tg.sum %p axes = [0] : tensor<4xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @sigmoid(
// CHECK-SAME: %x: tensor<4xf32> {tg.name = "arg0", tg.role = "input"}, %w: tensor<4xf32> {tg.name = "arg1", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<4xf32> {tg.name = "arg0", tg.role = "gradient"}) {
// CHECK-NEXT:   %y = tg.sigmoid %x : tensor<4xf32>
// CHECK-NEXT:   %p = tg.mul %y, %w : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0] : tensor<4xf32>
// CHECK-NEXT:   %0 = tg.constant value = dense<1.000000e+00> : tensor<4xf32>
// CHECK-NEXT:   %1 = tg.sub %0, %y : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %2 = tg.mul %y, %1 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %3 = tg.mul %w, %2 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   func.return %loss, %3 : tensor<f32>, tensor<4xf32>
// CHECK-NEXT: }

// -----

// The derivative needs the result only, not the operand.
func.func @relu(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<f32> {
  %y = tg.relu %x : tensor<4xf32>
  %p = tg.mul %y, %w : tensor<4xf32>, tensor<4xf32>
  %loss = tg.sum %p axes = [0] : tensor<4xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @relu(
// CHECK-SAME: %x: tensor<4xf32> {tg.name = "arg0", tg.role = "input"}, %w: tensor<4xf32> {tg.name = "arg1", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<4xf32> {tg.name = "arg0", tg.role = "gradient"}) {
// CHECK-NEXT:   %y = tg.relu %x : tensor<4xf32>
// CHECK-NEXT:   %p = tg.mul %y, %w : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0] : tensor<4xf32>
// CHECK-NEXT:   %0 = tg.constant value = dense<0.000000e+00> : tensor<4xf32>
// CHECK-NEXT:   %1 = tg.compare %y, %0 predicate = "le" : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %2 = tg.select %1, %0, %w : tensor<4xi1>, tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   func.return %loss, %2 : tensor<f32>, tensor<4xf32>
// CHECK-NEXT: }

// -----

// A constant to the derivative: the gradient is zero.
func.func @stop_gradient(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<f32> {
  %y = tg.stop_gradient %x : tensor<4xf32>
  %p = tg.mul %y, %w : tensor<4xf32>, tensor<4xf32>
  %loss = tg.sum %p axes = [0] : tensor<4xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @stop_gradient(
// CHECK-SAME: %x: tensor<4xf32> {tg.name = "arg0", tg.role = "input"}, %w: tensor<4xf32> {tg.name = "arg1", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<4xf32> {tg.name = "arg0", tg.role = "gradient"}) {
// CHECK-NEXT:   %y = tg.stop_gradient %x : tensor<4xf32>
// CHECK-NEXT:   %p = tg.mul %y, %w : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0] : tensor<4xf32>
// CHECK-NEXT:   %0 = tg.constant value = dense<0.000000e+00> : tensor<4xf32>
// CHECK-NEXT:   func.return %loss, %0 : tensor<f32>, tensor<4xf32>
// CHECK-NEXT: }

// -----

func.func @cast(%x: tensor<4xf16>, %w: tensor<4xf32>) -> tensor<f32> {
  %y = tg.cast %x to = f32 : tensor<4xf16>
  %p = tg.mul %y, %w : tensor<4xf32>, tensor<4xf32>
  %loss = tg.sum %p axes = [0] : tensor<4xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @cast(
// CHECK-SAME: %x: tensor<4xf16> {tg.name = "arg0", tg.role = "input"}, %w: tensor<4xf32> {tg.name = "arg1", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<4xf16> {tg.name = "arg0", tg.role = "gradient"}) {
// CHECK-NEXT:   %y = tg.cast %x to = f32 : tensor<4xf16>
// CHECK-NEXT:   %p = tg.mul %y, %w : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0] : tensor<4xf32>
// CHECK-NEXT:   %0 = tg.cast %w to = f16 : tensor<4xf32>
// CHECK-NEXT:   func.return %loss, %0 : tensor<f32>, tensor<4xf16>
// CHECK-NEXT: }

// -----

// Integers have no derivative: the gradient is zero.
func.func @cast_to_integer(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<f32> {
  %i = tg.cast %x to = i32 : tensor<4xf32>
  %y = tg.cast %i to = f32 : tensor<4xi32>
  %p = tg.mul %y, %w : tensor<4xf32>, tensor<4xf32>
  %loss = tg.sum %p axes = [0] : tensor<4xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @cast_to_integer(
// CHECK-SAME: %x: tensor<4xf32> {tg.name = "arg0", tg.role = "input"}, %w: tensor<4xf32> {tg.name = "arg1", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<4xf32> {tg.name = "arg0", tg.role = "gradient"}) {
// CHECK-NEXT:   %i = tg.cast %x to = i32 : tensor<4xf32>
// CHECK-NEXT:   %y = tg.cast %i to = f32 : tensor<4xi32>
// CHECK-NEXT:   %p = tg.mul %y, %w : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0] : tensor<4xf32>
// CHECK-NEXT:   %0 = tg.constant value = dense<0.000000e+00> : tensor<4xf32>
// CHECK-NEXT:   func.return %loss, %0 : tensor<f32>, tensor<4xf32>
// CHECK-NEXT: }
