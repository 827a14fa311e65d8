// RUN: tg-opt %s -p 'append-sgd{parameters="a" host="one_" live="weight_decay" weight-decay=0.5},append-sgd{parameters="b" host="two_"}' | filecheck %s
// RUN: not tg-opt %s -p 'append-sgd{parameters="c"}' 2>&1 | filecheck %s --check-prefix MISSING

// Several optimizers, one for each part of the parameters: a pass leaves the gradients of others, and its scalars are
// called by what the host calls its settings.
func.func @loss(%a: tensor<2xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<2xf32> {tg.name = "b", tg.role = "parameter"}) -> (tensor<2xf32> {tg.name = "a", tg.role = "gradient"}, tensor<2xf32> {tg.name = "b", tg.role = "gradient"}) {
  func.return %b, %a : tensor<2xf32>, tensor<2xf32>
}
// CHECK: func.func @loss(
// CHECK-SAME: tg.name = "one_sgd.weight_decay", tg.role = "scalar", tg.formula = "one_weight_decay"
// CHECK-SAME: tg.name = "two_sgd.step_size", tg.role = "scalar", tg.formula = "two_learning_rate"
// CHECK-SAME: -> (tensor<2xf32> {tg.name = "a", tg.role = "update"}, tensor<2xf32> {tg.name = "b", tg.role = "update"}) {
// MISSING: append-sgd: @loss returns no gradient of 'c', which it is to update
