// RUN: tg-opt %s --split-input-file --print-diagnostics | filecheck %s

// CHECK: @f: argument 0: role 'inptu' is not one of parameter, state, input, scalar, constant, output, gradient, update, norm, workspace, counter
// CHECK-NEXT: at {{.*}}signature-errors.mlir:5
func.func @f(%x: tensor<f32> {tg.name = "x", tg.role = "inptu"}) -> tensor<f32> {
  func.return %x : tensor<f32>
}

// -----

// CHECK: @f: argument 0: the role must be one of parameter, state, input, scalar, got 'output'
func.func @f(%x: tensor<f32> {tg.name = "x", tg.role = "output"}) -> tensor<f32> {
  func.return %x : tensor<f32>
}

// -----

// A constant is an op.
// CHECK: @f: argument 0: the role must be one of parameter, state, input, scalar, got 'constant'
func.func @f(%x: tensor<f32> {tg.name = "x", tg.role = "constant"}) -> tensor<f32> {
  func.return %x : tensor<f32>
}

// -----

// An optimizer's update, a private function, takes gradients and their norm too.
// CHECK: @f: argument 0: the role must be one of parameter, state, input, scalar, gradient, norm, got 'update'
func.func private @f(%x: tensor<f32> {tg.name = "x", tg.role = "update"}) -> tensor<f32> {
  func.return %x : tensor<f32>
}

// -----

// CHECK: @f: result 0: the role must be one of output, gradient, update, got 'parameter'
func.func @f(%x: tensor<f32>) -> (tensor<f32> {tg.name = "y", tg.role = "parameter"}) {
  func.return %x : tensor<f32>
}

// -----

// CHECK: @f: result 0: tg.role must be a string, got 3 : i64
func.func @f(%x: tensor<f32>) -> (tensor<f32> {tg.role = 3 : i64}) {
  func.return %x : tensor<f32>
}

// -----

// CHECK: @f: argument 1: parameter 'w' is there already
func.func @f(%w: tensor<f32> {tg.name = "w", tg.role = "parameter"}, %x: tensor<f32> {tg.name = "w", tg.role = "parameter"}) -> tensor<f32> {
  func.return %x : tensor<f32>
}

// -----

// The names of unnamed arguments are names too.
// CHECK: @f: argument 1: input 'arg1' is there already
func.func @f(%w: tensor<f32> {tg.name = "arg1"}, %x: tensor<f32>) -> tensor<f32> {
  func.return %x : tensor<f32>
}

// -----

// CHECK: @f: result 1: output 'y' is there already
func.func @f(%x: tensor<f32>) -> (tensor<f32> {tg.name = "y"}, tensor<f32> {tg.name = "y"}) {
  func.return %x, %x : tensor<f32>, tensor<f32>
}

// -----

// CHECK: @f: update 'w' of tensor<f32> needs a parameter or state of its name and type
func.func @f(%x: tensor<f32> {tg.name = "w", tg.role = "input"}) -> (tensor<f32> {tg.name = "w", tg.role = "update"}) {
  func.return %x : tensor<f32>
}

// -----

// CHECK: @f: update 'w' of tensor<f32> needs a parameter or state of its name and type
func.func @f(%w: tensor<2xf32> {tg.name = "w", tg.role = "parameter"}, %x: tensor<f32>) -> (tensor<f32> {tg.name = "w", tg.role = "update"}) {
  func.return %x : tensor<f32>
}

// -----

// CHECK: @f: update 'w' of memref<2xf32> needs a parameter or state of its name and type
func.func @f(%w: memref<2xf32> {tg.name = "v", tg.role = "state"}, %x: memref<2xf32> {tg.name = "w", tg.role = "update"}) {
  func.return
}

// -----

// CHECK: @f: argument 0: shapes must be static, got tensor<?xf32>
func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> {
  func.return %x : tensor<?xf32>
}

// -----

// CHECK: @g: result 0: shapes must be static, got tensor<2x?xf32>
func.func private @g(tensor<f32>) -> tensor<2x?xf32>

// -----

// CHECK: @f: argument 0: shapes must be static, got tensor<*xf32>
func.func @f(%x: tensor<*xf32>) -> tensor<*xf32> {
  func.return %x : tensor<*xf32>
}

// -----

// Gradients of several results share the parameter's name.
// CHECK: func.func @f
func.func @f(%w: tensor<f32> {tg.name = "w", tg.role = "parameter"}) -> (tensor<f32> {tg.name = "w", tg.role = "gradient"}, tensor<f32> {tg.name = "w", tg.role = "gradient"}) {
  func.return %w, %w : tensor<f32>, tensor<f32>
}

// -----

// CHECK: @f: argument 0: formula 'import os' is not an expression: invalid syntax
func.func @f(%x: tensor<f32> {tg.name = "x", tg.role = "scalar", tg.formula = "import os"}) -> tensor<f32> {
  func.return %x : tensor<f32>
}

// -----

// CHECK: @f: argument 0: only scalars have a formula, not 'input'
func.func @f(%x: tensor<f32> {tg.formula = "step"}) -> tensor<f32> {
  func.return %x : tensor<f32>
}
