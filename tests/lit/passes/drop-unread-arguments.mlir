// RUN: tg-opt %s --split-input-file -p drop-unread-arguments | filecheck %s
// RUN: tg-opt %s --split-input-file -p 'drop-unread-arguments{roles=input}' | filecheck %s --check-prefix INPUT
// RUN: not tg-opt %s --split-input-file -p 'drop-unread-arguments{roles=weight}' 2>&1 | filecheck %s --check-prefix ROLE
// RUN: tg-opt %s --split-input-file -p drop-unread-arguments --verify-numerics-each | filecheck %s

// ROLE: role 'weight' is not one of parameter, state

// What is read, returned or replaced stays, in its order: `b` is returned as it is, and `m` has an update.
// CHECK-LABEL: func.func @step(
// CHECK-SAME: %x: tensor<2xf32> {tg.name = "x", tg.role = "input"},
// CHECK-SAME: %w: tensor<2xf32> {tg.name = "w", tg.role = "parameter"},
// CHECK-SAME: %b: tensor<2xf32> {tg.name = "b", tg.role = "parameter"},
// CHECK-SAME: %m: tensor<2xf32> {tg.name = "m", tg.role = "state"},
// CHECK-SAME: %unread: tensor<3xf32> {tg.name = "unread", tg.role = "input"}) ->
// CHECK-NEXT: %0 = tg.mul %x, %w
// INPUT-LABEL: func.func @step(
// INPUT-SAME: %m: tensor<2xf32> {tg.name = "m", tg.role = "state"},
// INPUT-SAME: %rate: tensor<f32> {tg.name = "rate", tg.role = "scalar", tg.formula = "0.1"}) ->
func.func @step(
  %x: tensor<2xf32> {tg.name = "x", tg.role = "input"},
  %w: tensor<2xf32> {tg.name = "w", tg.role = "parameter"},
  %other: tensor<4x4xf32> {tg.name = "other", tg.role = "parameter"},
  %b: tensor<2xf32> {tg.name = "b", tg.role = "parameter"},
  %old: tensor<2xf32> {tg.name = "old", tg.role = "state"},
  %m: tensor<2xf32> {tg.name = "m", tg.role = "state"},
  %rate: tensor<f32> {tg.name = "rate", tg.role = "scalar", tg.formula = "0.1"},
  %unread: tensor<3xf32> {tg.name = "unread", tg.role = "input"}
) -> (
  tensor<2xf32> {tg.name = "y", tg.role = "output"},
  tensor<2xf32> {tg.name = "z", tg.role = "output"},
  tensor<2xf32> {tg.name = "m", tg.role = "update"}
) {
  %0 = tg.mul %x, %w : tensor<2xf32>, tensor<2xf32>
  func.return %0, %b, %x : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}

// -----

// Names are optional: a function without any takes inputs.
// CHECK-LABEL: func.func @plain(%a: tensor<2xf32>, %b: tensor<2xf32>) -> tensor<2xf32>
// INPUT-LABEL: func.func @plain(%a: tensor<2xf32> {tg.name = "arg0", tg.role = "input"}) ->
func.func @plain(%a: tensor<2xf32>, %b: tensor<2xf32>) -> tensor<2xf32> {
  func.return %a : tensor<2xf32>
}
