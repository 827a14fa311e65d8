// RUN: tg-opt %s -p 'trace-optimizer{optimizer="sgd"}' | filecheck %s --check-prefix PLAIN
// RUN: tg-opt %s -p 'trace-optimizer{optimizer="sgd(0.1, momentum=0.9, weight_decay=1e-2)"}' | filecheck %s --check-prefix MOMENTUM
// RUN: tg-opt %s -p 'trace-optimizer{optimizer="sgd(0.1, momentum=0.9, nesterov=True)"}' | filecheck %s --check-prefix NESTEROV
// RUN: tg-opt %s -p 'trace-optimizer{optimizer="sgd(0.1, momentum=0.5, dampening=0.5)"}' | filecheck %s --check-prefix DAMPENED
// RUN: not tg-opt %s -p 'trace-optimizer{optimizer="sgd(0.1, nesterov=True)"}' 2>&1 | filecheck %s --check-prefix ERROR
// RUN: not tg-opt %s -p 'trace-optimizer{optimizer="sgd(0.1, momentum=-1)"}' 2>&1 | filecheck %s --check-prefix RANGE
// RUN: not tg-opt %s -p 'trace-optimizer{optimizer="sgd(0.1, momentum=much)"}' 2>&1 | filecheck %s --check-prefix TYPE

// The scalar parameter shares the update function of the vector. Values that the host computes are scalar arguments.
func.func @loss(%a: tensor<2xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<f32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2xf32>, %gb: tensor<f32>) -> (tensor<2xf32> {tg.name = "a", tg.role = "gradient"}, tensor<f32> {tg.name = "b", tg.role = "gradient"}) {
  func.return %ga, %gb : tensor<2xf32>, tensor<f32>
}

// TYPE: tg-opt: error: trace-optimizer: there is no optimizer 'much'; the optimizers are Schedule, adafactor, adagrad, adam, adamw, add_decayed_weights, chain, clip, clip_by_global_norm, ema, lion, masked, muon, normalize, normalize_per_parameter, rmsprop, scale, scale_by_adagrad, scale_by_adam, scale_by_learning_rate, scale_by_lion, scale_by_rmsprop, scale_by_sgd, sgd, weight_ema

// RANGE: tg-opt: error: trace-optimizer: sgd: momentum must be a finite number that is not negative, got -1

// ERROR: tg-opt: error: trace-optimizer: sgd: nesterov needs a momentum, and no dampening

// PLAIN: func.func private @sgd(%0: tensor<2xf32> {tg.name = "gradient", tg.role = "gradient"}, %1: tensor<2xf32> {tg.name = "parameter", tg.role = "parameter"}, %2: tensor<f32> {tg.name = "learning_rate", tg.role = "scalar", tg.formula = "learning_rate"}) -> (tensor<2xf32> {tg.name = "parameter", tg.role = "update"}) attributes {tg.updates = ["a", "b"], tg.stage = 0 : i64} {
// PLAIN-NEXT:   %3 = tg.broadcast %2 shape = [2] dims = [] : tensor<f32>
// PLAIN-NEXT:   %4 = tg.mul %0, %3 : tensor<2xf32>, tensor<2xf32>
// PLAIN-NEXT:   %5 = tg.sub %1, %4 : tensor<2xf32>, tensor<2xf32>
// PLAIN-NEXT:   func.return %5 : tensor<2xf32>
// PLAIN-NEXT: }

// MOMENTUM: func.func private @sgd(%0: tensor<2xf32> {tg.name = "gradient", tg.role = "gradient"}, %1: tensor<2xf32> {tg.name = "parameter", tg.role = "parameter"}, %2: tensor<2xf32> {tg.name = "sgd.momentum", tg.role = "state"}, %3: tensor<f32> {tg.name = "weight_decay", tg.role = "scalar", tg.formula = "weight_decay"}, %4: tensor<f32> {tg.name = "momentum", tg.role = "scalar", tg.formula = "momentum"}, %5: tensor<f32> {tg.name = "learning_rate", tg.role = "scalar", tg.formula = "learning_rate"}) -> (tensor<2xf32> {tg.name = "parameter", tg.role = "update"}, tensor<2xf32> {tg.name = "sgd.momentum", tg.role = "update"}) attributes {tg.updates = ["a", "b"], tg.stage = 0 : i64} {
// MOMENTUM-NEXT:   %6 = tg.broadcast %3 shape = [2] dims = [] : tensor<f32>
// MOMENTUM-NEXT:   %7 = tg.mul %1, %6 : tensor<2xf32>, tensor<2xf32>
// MOMENTUM-NEXT:   %8 = tg.add %0, %7 : tensor<2xf32>, tensor<2xf32>
// MOMENTUM-NEXT:   %9 = tg.broadcast %4 shape = [2] dims = [] : tensor<f32>
// MOMENTUM-NEXT:   %10 = tg.mul %2, %9 : tensor<2xf32>, tensor<2xf32>
// MOMENTUM-NEXT:   %11 = tg.add %10, %8 : tensor<2xf32>, tensor<2xf32>
// MOMENTUM-NEXT:   %12 = tg.broadcast %5 shape = [2] dims = [] : tensor<f32>
// MOMENTUM-NEXT:   %13 = tg.mul %11, %12 : tensor<2xf32>, tensor<2xf32>
// MOMENTUM-NEXT:   %14 = tg.sub %1, %13 : tensor<2xf32>, tensor<2xf32>
// MOMENTUM-NEXT:   func.return %14, %11 : tensor<2xf32>, tensor<2xf32>
// MOMENTUM-NEXT: }

// NESTEROV: func.func private @sgd(%0: tensor<2xf32> {tg.name = "gradient", tg.role = "gradient"}, %1: tensor<2xf32> {tg.name = "parameter", tg.role = "parameter"}, %2: tensor<2xf32> {tg.name = "sgd.momentum", tg.role = "state"}, %3: tensor<f32> {tg.name = "momentum", tg.role = "scalar", tg.formula = "momentum"}, %4: tensor<f32> {tg.name = "learning_rate", tg.role = "scalar", tg.formula = "learning_rate"}) -> (tensor<2xf32> {tg.name = "parameter", tg.role = "update"}, tensor<2xf32> {tg.name = "sgd.momentum", tg.role = "update"}) attributes {tg.updates = ["a", "b"], tg.stage = 0 : i64} {
// NESTEROV-NEXT:   %5 = tg.broadcast %3 shape = [2] dims = [] : tensor<f32>
// NESTEROV-NEXT:   %6 = tg.mul %2, %5 : tensor<2xf32>, tensor<2xf32>
// NESTEROV-NEXT:   %7 = tg.add %6, %0 : tensor<2xf32>, tensor<2xf32>
// NESTEROV-NEXT:   %8 = tg.broadcast %3 shape = [2] dims = [] : tensor<f32>
// NESTEROV-NEXT:   %9 = tg.mul %7, %8 : tensor<2xf32>, tensor<2xf32>
// NESTEROV-NEXT:   %10 = tg.add %0, %9 : tensor<2xf32>, tensor<2xf32>
// NESTEROV-NEXT:   %11 = tg.broadcast %4 shape = [2] dims = [] : tensor<f32>
// NESTEROV-NEXT:   %12 = tg.mul %10, %11 : tensor<2xf32>, tensor<2xf32>
// NESTEROV-NEXT:   %13 = tg.sub %1, %12 : tensor<2xf32>, tensor<2xf32>
// NESTEROV-NEXT:   func.return %13, %7 : tensor<2xf32>, tensor<2xf32>
// NESTEROV-NEXT: }

// DAMPENED: func.func private @sgd(%0: tensor<2xf32> {tg.name = "gradient", tg.role = "gradient"}, %1: tensor<2xf32> {tg.name = "parameter", tg.role = "parameter"}, %2: tensor<2xf32> {tg.name = "sgd.momentum", tg.role = "state"}, %3: tensor<f32> {tg.name = "1.0 if step == 1 else 1 - dampening", tg.role = "scalar", tg.formula = "1.0 if step == 1 else 1 - dampening"}, %4: tensor<f32> {tg.name = "momentum", tg.role = "scalar", tg.formula = "momentum"}, %5: tensor<f32> {tg.name = "learning_rate", tg.role = "scalar", tg.formula = "learning_rate"}) -> (tensor<2xf32> {tg.name = "parameter", tg.role = "update"}, tensor<2xf32> {tg.name = "sgd.momentum", tg.role = "update"}) attributes {tg.updates = ["a", "b"], tg.stage = 0 : i64} {
// DAMPENED-NEXT:   %6 = tg.broadcast %3 shape = [2] dims = [] : tensor<f32>
// DAMPENED-NEXT:   %7 = tg.mul %0, %6 : tensor<2xf32>, tensor<2xf32>
// DAMPENED-NEXT:   %8 = tg.broadcast %4 shape = [2] dims = [] : tensor<f32>
// DAMPENED-NEXT:   %9 = tg.mul %2, %8 : tensor<2xf32>, tensor<2xf32>
// DAMPENED-NEXT:   %10 = tg.add %9, %7 : tensor<2xf32>, tensor<2xf32>
// DAMPENED-NEXT:   %11 = tg.broadcast %5 shape = [2] dims = [] : tensor<f32>
// DAMPENED-NEXT:   %12 = tg.mul %10, %11 : tensor<2xf32>, tensor<2xf32>
// DAMPENED-NEXT:   %13 = tg.sub %1, %12 : tensor<2xf32>, tensor<2xf32>
// DAMPENED-NEXT:   func.return %13, %10 : tensor<2xf32>, tensor<2xf32>
// DAMPENED-NEXT: }
