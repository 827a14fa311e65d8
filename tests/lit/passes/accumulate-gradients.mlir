// RUN: tg-opt %s --split-input-file -p 'accumulate-gradients{steps=4}' | filecheck %s
// RUN: tg-opt %s --split-input-file -p 'accumulate-gradients{steps=4 last=false}' | filecheck %s --check-prefix SUM
// RUN: tg-opt %s --split-input-file -p 'trace-optimizer{optimizer=sgd function=step},accumulate-gradients{steps=4 function=step},append-updates{function=step}' | filecheck %s --check-prefix UPDATE
// RUN: not tg-opt %s --split-input-file -p 'accumulate-gradients{steps=1}' 2>&1 | filecheck %s --check-prefix STEPS
// RUN: not tg-opt %s --split-input-file -p 'accumulate-gradients' 2>&1 | filecheck %s --check-prefix MISSING
// RUN: not tg-opt %s --split-input-file -p 'accumulate-gradients{steps=2},accumulate-gradients{steps=2}' 2>&1 | filecheck %s --check-prefix TWICE

// The last micro-batch returns mean gradients; the others (SUM) add theirs to sums, which the first one resets.
func.func @step(%w: tensor<2xf32> {tg.name = "w", tg.role = "parameter"}, %g: tensor<2xf32>, %l: tensor<f32>) -> (tensor<f32> {tg.name = "loss", tg.role = "output"}, tensor<2xf32> {tg.name = "w", tg.role = "gradient"}) {
  func.return %l, %g : tensor<f32>, tensor<2xf32>
}

// -----

// Gradients in f16 are accumulated in f32, and their mean remains f32.
func.func @step(%w: tensor<2xf16> {tg.name = "w", tg.role = "parameter"}, %g: tensor<2xf16>) -> (tensor<2xf16> {tg.name = "w", tg.role = "gradient"}) {
  func.return %g : tensor<2xf16>
}

// CHECK: func.func @step(%w: tensor<2xf32> {tg.name = "w", tg.role = "parameter"}, %g: tensor<2xf32> {tg.name = "arg1", tg.role = "input"}, %l: tensor<f32> {tg.name = "arg2", tg.role = "input"}, %0: tensor<2xf32> {tg.name = "accumulated/w", tg.role = "state"}) -> (tensor<f32> {tg.name = "loss", tg.role = "output"}, tensor<2xf32> {tg.name = "w", tg.role = "gradient"}) {
// CHECK-NEXT:   %1 = tg.add %0, %g : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %2 = tg.constant value = dense<2.500000e-01> : tensor<2xf32>
// CHECK-NEXT:   %3 = tg.mul %1, %2 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   func.return %l, %3 : tensor<f32>, tensor<2xf32>
// CHECK-NEXT: }
// CHECK: func.func @step(%w: tensor<2xf16> {tg.name = "w", tg.role = "parameter"}, %g: tensor<2xf16> {tg.name = "arg1", tg.role = "input"}, %0: tensor<2xf32> {tg.name = "accumulated/w", tg.role = "state"}) -> (tensor<2xf32> {tg.name = "w", tg.role = "gradient"}) {
// CHECK-NEXT:   %1 = tg.cast %g to = f32 : tensor<2xf16>
// CHECK-NEXT:   %2 = tg.add %0, %1 : tensor<2xf32>, tensor<2xf32>

// SUM: %0: tensor<2xf32> {tg.name = "accumulated/w", tg.role = "state"}, %1: tensor<f32> {tg.name = "accumulated.kept", tg.role = "scalar", tg.formula = "0.0 if micro_step == 1 else 1.0"}) -> (tensor<f32> {tg.name = "loss", tg.role = "output"}, tensor<2xf32> {tg.name = "accumulated/w", tg.role = "update"}) {
// SUM-NEXT:   %2 = tg.constant value = dense<0.000000e+00> : tensor<f32>
// SUM-NEXT:   %3 = tg.compare %1, %2 predicate = "gt" : tensor<f32>, tensor<f32>
// SUM-NEXT:   %4 = tg.broadcast %3 shape = [2] dims = [] : tensor<i1>
// SUM-NEXT:   %5 = tg.constant value = dense<0.000000e+00> : tensor<2xf32>
// SUM-NEXT:   %6 = tg.select %4, %0, %5 : tensor<2xi1>, tensor<2xf32>, tensor<2xf32>
// SUM-NEXT:   %7 = tg.add %6, %g : tensor<2xf32>, tensor<2xf32>
// SUM-NEXT:   func.return %l, %7 : tensor<f32>, tensor<2xf32>
// SUM-NEXT: }

// UPDATE: tg.name = "accumulated/w", tg.role = "state"}, %1: tensor<f32> {tg.name = "learning_rate"
// UPDATE-SAME: -> (tensor<f32> {tg.name = "loss", tg.role = "output"}, tensor<2xf32> {tg.name = "w", tg.role = "update"}) {
// UPDATE: tensor<2xf16> {tg.name = "w", tg.role = "update"}) {
// UPDATE:   tg.mul %3, %4
// UPDATE-NOT: to = f16
// UPDATE:   tg.sub
// UPDATE-NEXT: to = f16

// STEPS: tg-opt: error: accumulate-gradients: steps must be at least 2, got 1
// MISSING: steps
// TWICE: tg-opt: error: accumulate-gradients: @step has a state accumulated/w already
