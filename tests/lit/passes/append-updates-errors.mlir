// RUN: tg-opt %s --split-input-file --print-diagnostics -p trace-optimizer{optimizer=adam},append-updates | filecheck %s

// CHECK: append-updates: @f returns no gradient; run grad first
func.func @f(%w: tensor<f32> {tg.name = "w", tg.role = "parameter"}) -> tensor<f32> {
  func.return %w : tensor<f32>
}

// -----

// CHECK: append-updates: @f has a gradient but no parameter 'x'
func.func @f(%x: tensor<f32> {tg.name = "x", tg.role = "input"}, %w: tensor<f32> {tg.name = "w", tg.role = "parameter"}) -> (tensor<f32> {tg.name = "x", tg.role = "gradient"}) {
  func.return %x : tensor<f32>
}

// -----

// CHECK: append-updates: @f: parameter 'w' is tensor<2xf32>, its gradient tensor<f32>
func.func @f(%w: tensor<2xf32> {tg.name = "w", tg.role = "parameter"}, %g: tensor<f32>) -> (tensor<f32> {tg.name = "w", tg.role = "gradient"}) {
  func.return %g : tensor<f32>
}

// -----

// CHECK: append-updates: @f has no gradient of 'v', which an optimizer updates
func.func @f(%w: tensor<f32> {tg.name = "w", tg.role = "parameter"}, %v: tensor<f32> {tg.name = "v", tg.role = "parameter"}) -> (tensor<f32> {tg.name = "w", tg.role = "gradient"}) {
  func.return %v : tensor<f32>
}

// -----

// CHECK: append-updates: @f has a state adam.m/w already
func.func @f(%w: tensor<f32> {tg.name = "w", tg.role = "parameter"}, %g: tensor<f32>, %a: tensor<f32> {tg.name = "adam.m/w", tg.role = "state"}) -> (tensor<f32> {tg.name = "w", tg.role = "gradient"}) {
  func.return %g : tensor<f32>
}

// -----

// CHECK: append-updates: @f: tg.rows must name each parameter of an optimizer exactly once, but not 'v'
func.func @f(%w: tensor<2xf32> {tg.name = "w", tg.role = "parameter"}) -> (tensor<2xf32> {tg.name = "w", tg.role = "gradient"}) attributes {tg.rows = [[["w", "v"]]]} {
  func.return %w : tensor<2xf32>
}

// -----

// CHECK: append-updates: @f: tg.rows must be an array of rows, each an array of arrays of names
func.func @f(%w: tensor<2xf32> {tg.name = "w", tg.role = "parameter"}) -> (tensor<2xf32> {tg.name = "w", tg.role = "gradient"}) attributes {tg.rows = ["w"]} {
  func.return %w : tensor<2xf32>
}
