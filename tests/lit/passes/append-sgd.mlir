// RUN: tg-opt %s -p 'append-sgd' | filecheck %s --check-prefix PLAIN
// RUN: tg-opt %s -p 'append-sgd{momentum=0.9 weight-decay=1e-2}' | filecheck %s --check-prefix MOMENTUM
// RUN: tg-opt %s -p 'append-sgd{momentum=0.9 nesterov}' | filecheck %s --check-prefix NESTEROV
// RUN: tg-opt %s -p 'append-sgd{momentum=0.5 dampening=0.5}' | filecheck %s --check-prefix DAMPENED
// RUN: not tg-opt %s -p 'append-sgd{nesterov=true}' 2>&1 | filecheck %s --check-prefix ERROR
// RUN: not tg-opt %s -p 'append-sgd{momentum=-1}' 2>&1 | filecheck %s --check-prefix RANGE
// RUN: not tg-opt %s -p 'append-sgd{momentum=much}' 2>&1 | filecheck %s --check-prefix TYPE

// The step size is a scalar argument, which the host computes; gradients become updates, other results stay.
func.func @loss(%w: tensor<3xf32> {tg.name = "w", tg.role = "parameter"}, %g: tensor<3xf32>, %l: tensor<f32>) -> (tensor<f32> {tg.name = "loss", tg.role = "output"}, tensor<3xf32> {tg.name = "w", tg.role = "gradient"}) {
  func.return %l, %g : tensor<f32>, tensor<3xf32>
}

// ERROR: tg-opt: error: append-sgd: nesterov needs a momentum, and no dampening
// RANGE: tg-opt: error: append-sgd: momentum must be at least 0 and finite, got -1.0
// TYPE: tg-opt: error: append-sgd: Incompatible types: given ('much',), expected <class 'float'>

// PLAIN: func.func @loss(%w: tensor<3xf32> {tg.name = "w", tg.role = "parameter"}, %g: tensor<3xf32> {tg.name = "arg1", tg.role = "input"}, %l: tensor<f32> {tg.name = "arg2", tg.role = "input"}, %0: tensor<f32> {tg.name = "sgd.step_size", tg.role = "scalar", tg.formula = "learning_rate"}) -> (tensor<f32> {tg.name = "loss", tg.role = "output"}, tensor<3xf32> {tg.name = "w", tg.role = "update"}) {
// PLAIN-NEXT:   %1 = tg.broadcast %0 shape = [3] dims = [] : tensor<f32>
// PLAIN-NEXT:   %2 = tg.mul %g, %1 : tensor<3xf32>, tensor<3xf32>
// PLAIN-NEXT:   %3 = tg.sub %w, %2 : tensor<3xf32>, tensor<3xf32>
// PLAIN-NEXT:   func.return %l, %3 : tensor<f32>, tensor<3xf32>
// PLAIN-NEXT: }

// MOMENTUM: func.func @loss(%w: tensor<3xf32> {tg.name = "w", tg.role = "parameter"}, %g: tensor<3xf32> {tg.name = "arg1", tg.role = "input"}, %l: tensor<f32> {tg.name = "arg2", tg.role = "input"}, %0: tensor<3xf32> {tg.name = "sgd.momentum/w", tg.role = "state"}, %1: tensor<f32> {tg.name = "sgd.step_size", tg.role = "scalar", tg.formula = "learning_rate"}) -> (tensor<f32> {tg.name = "loss", tg.role = "output"}, tensor<3xf32> {tg.name = "w", tg.role = "update"}, tensor<3xf32> {tg.name = "sgd.momentum/w", tg.role = "update"}) {
// MOMENTUM-NEXT:   %2 = tg.constant value = dense<1.000000e-02> : tensor<3xf32>
// MOMENTUM-NEXT:   %3 = tg.mul %w, %2 : tensor<3xf32>, tensor<3xf32>
// MOMENTUM-NEXT:   %4 = tg.add %g, %3 : tensor<3xf32>, tensor<3xf32>
// MOMENTUM-NEXT:   %5 = tg.constant value = dense<9.000000e-01> : tensor<3xf32>
// MOMENTUM-NEXT:   %6 = tg.mul %0, %5 : tensor<3xf32>, tensor<3xf32>
// MOMENTUM-NEXT:   %7 = tg.add %6, %4 : tensor<3xf32>, tensor<3xf32>
// MOMENTUM-NEXT:   %8 = tg.broadcast %1 shape = [3] dims = [] : tensor<f32>
// MOMENTUM-NEXT:   %9 = tg.mul %7, %8 : tensor<3xf32>, tensor<3xf32>
// MOMENTUM-NEXT:   %10 = tg.sub %w, %9 : tensor<3xf32>, tensor<3xf32>
// MOMENTUM-NEXT:   func.return %l, %10, %7 : tensor<f32>, tensor<3xf32>, tensor<3xf32>
// MOMENTUM-NEXT: }

// NESTEROV: func.func @loss(%w: tensor<3xf32> {tg.name = "w", tg.role = "parameter"}, %g: tensor<3xf32> {tg.name = "arg1", tg.role = "input"}, %l: tensor<f32> {tg.name = "arg2", tg.role = "input"}, %0: tensor<3xf32> {tg.name = "sgd.momentum/w", tg.role = "state"}, %1: tensor<f32> {tg.name = "sgd.step_size", tg.role = "scalar", tg.formula = "learning_rate"}) -> (tensor<f32> {tg.name = "loss", tg.role = "output"}, tensor<3xf32> {tg.name = "w", tg.role = "update"}, tensor<3xf32> {tg.name = "sgd.momentum/w", tg.role = "update"}) {
// NESTEROV-NEXT:   %2 = tg.constant value = dense<9.000000e-01> : tensor<3xf32>
// NESTEROV-NEXT:   %3 = tg.mul %0, %2 : tensor<3xf32>, tensor<3xf32>
// NESTEROV-NEXT:   %4 = tg.add %3, %g : tensor<3xf32>, tensor<3xf32>
// NESTEROV-NEXT:   %5 = tg.constant value = dense<9.000000e-01> : tensor<3xf32>
// NESTEROV-NEXT:   %6 = tg.mul %4, %5 : tensor<3xf32>, tensor<3xf32>
// NESTEROV-NEXT:   %7 = tg.add %g, %6 : tensor<3xf32>, tensor<3xf32>
// NESTEROV-NEXT:   %8 = tg.broadcast %1 shape = [3] dims = [] : tensor<f32>
// NESTEROV-NEXT:   %9 = tg.mul %7, %8 : tensor<3xf32>, tensor<3xf32>
// NESTEROV-NEXT:   %10 = tg.sub %w, %9 : tensor<3xf32>, tensor<3xf32>
// NESTEROV-NEXT:   func.return %l, %10, %4 : tensor<f32>, tensor<3xf32>, tensor<3xf32>
// NESTEROV-NEXT: }

// DAMPENED: func.func @loss(%w: tensor<3xf32> {tg.name = "w", tg.role = "parameter"}, %g: tensor<3xf32> {tg.name = "arg1", tg.role = "input"}, %l: tensor<f32> {tg.name = "arg2", tg.role = "input"}, %0: tensor<3xf32> {tg.name = "sgd.momentum/w", tg.role = "state"}, %1: tensor<f32> {tg.name = "sgd.step_size", tg.role = "scalar", tg.formula = "learning_rate"}, %2: tensor<f32> {tg.name = "sgd.gradient_scale", tg.role = "scalar", tg.formula = "1.0 if step == 1 else 1 - 0.5"}) -> (tensor<f32> {tg.name = "loss", tg.role = "output"}, tensor<3xf32> {tg.name = "w", tg.role = "update"}, tensor<3xf32> {tg.name = "sgd.momentum/w", tg.role = "update"}) {
// DAMPENED-NEXT:   %3 = tg.broadcast %2 shape = [3] dims = [] : tensor<f32>
// DAMPENED-NEXT:   %4 = tg.mul %g, %3 : tensor<3xf32>, tensor<3xf32>
// DAMPENED-NEXT:   %5 = tg.constant value = dense<5.000000e-01> : tensor<3xf32>
// DAMPENED-NEXT:   %6 = tg.mul %0, %5 : tensor<3xf32>, tensor<3xf32>
// DAMPENED-NEXT:   %7 = tg.add %6, %4 : tensor<3xf32>, tensor<3xf32>
// DAMPENED-NEXT:   %8 = tg.broadcast %1 shape = [3] dims = [] : tensor<f32>
// DAMPENED-NEXT:   %9 = tg.mul %7, %8 : tensor<3xf32>, tensor<3xf32>
// DAMPENED-NEXT:   %10 = tg.sub %w, %9 : tensor<3xf32>, tensor<3xf32>
// DAMPENED-NEXT:   func.return %l, %10, %7 : tensor<f32>, tensor<3xf32>, tensor<3xf32>
// DAMPENED-NEXT: }
