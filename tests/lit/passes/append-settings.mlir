// RUN: tg-opt %s -p 'append-sgd{weight-decay=0.1 live="weight_decay"}' | filecheck %s
// RUN: tg-opt %s -p 'append-sgd{groups="[{\"parameters\": [\"a\"], \"values\": {\"learning_rate\": 0.5}}]"}' | filecheck %s --check-prefix GROUPS
// RUN: not tg-opt %s -p 'append-sgd{live="colour"}' 2>&1 | filecheck %s --check-prefix LIVE
// RUN: not tg-opt %s -p 'append-sgd{groups="[{\"parameters\": [\"a\"], \"values\": {\"colour\": 1}}]"}' 2>&1 | filecheck %s --check-prefix SETTING

// A live setting is a scalar of the host's; others are constants. A group has its own.
func.func @loss(%a: tensor<2xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<f32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2xf32>, %gb: tensor<f32>) -> (tensor<2xf32> {tg.name = "a", tg.role = "gradient"}, tensor<f32> {tg.name = "b", tg.role = "gradient"}) {
  func.return %ga, %gb : tensor<2xf32>, tensor<f32>
}
// CHECK: tg.name = "sgd.weight_decay", tg.role = "scalar", tg.formula = "weight_decay"
// CHECK: tg.mul %b, %1
// GROUPS: %1 = tg.constant value = dense<5.000000e-01>
// GROUPS-NEXT: tg.mul %ga, %1
// GROUPS: tg.mul %gb, %0
// LIVE: tg-opt: error: append-sgd: there is no setting 'colour' for the host to give
// SETTING: tg-opt: error: append-sgd: groups have no setting 'colour'
