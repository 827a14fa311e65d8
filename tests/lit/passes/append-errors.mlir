// RUN: tg-opt %s --split-input-file --verify-diagnostics -p append-sgd | filecheck %s
// RUN: tg-opt %s --split-input-file --verify-diagnostics -p append-adam | filecheck %s --check-prefix ADAM

// CHECK: append-sgd: @f returns no gradient; run grad first
// ADAM: append-adam: @f returns no gradient; run grad first
func.func @f(%w: tensor<f32> {tg.name = "w", tg.role = "parameter"}) -> tensor<f32> {
  func.return %w : tensor<f32>
}

// -----

// CHECK: append-sgd: @f has a gradient but no parameter 'x'
// ADAM: append-adam: @f has a gradient but no parameter 'x'
func.func @f(%x: tensor<f32> {tg.name = "x", tg.role = "input"}) -> (tensor<f32> {tg.name = "x", tg.role = "gradient"}) {
  func.return %x : tensor<f32>
}

// -----

// CHECK: append-sgd: @f: parameter 'w' is tensor<2xf32>, its gradient tensor<f32>
// ADAM: append-adam: @f: parameter 'w' is tensor<2xf32>, its gradient tensor<f32>
func.func @f(%w: tensor<2xf32> {tg.name = "w", tg.role = "parameter"}, %g: tensor<f32>) -> (tensor<f32> {tg.name = "w", tg.role = "gradient"}) {
  func.return %g : tensor<f32>
}

// -----

// CHECK: append-sgd: @f has a scalar sgd.step_size already
// ADAM: append-adam: @f has a scalar adam.step_size already
func.func @f(%w: tensor<f32> {tg.name = "w", tg.role = "parameter"}, %g: tensor<f32>, %a: tensor<f32> {tg.name = "sgd.step_size", tg.role = "scalar"}, %b: tensor<f32> {tg.name = "adam.step_size", tg.role = "scalar"}) -> (tensor<f32> {tg.name = "w", tg.role = "gradient"}) {
  func.return %g : tensor<f32>
}
