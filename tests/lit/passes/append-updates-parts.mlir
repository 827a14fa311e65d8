// RUN: tg-opt %s -p 'trace-optimizer{optimizer="sgd(0.1, weight_decay=0.5)" parameters="a" host="one_"},trace-optimizer{optimizer="sgd" parameters="b" host="two_"},append-updates' | filecheck %s
// RUN: not tg-opt %s -p 'trace-optimizer{optimizer="sgd" parameters="c"}' 2>&1 | filecheck %s --check-prefix MISSING
// RUN: not tg-opt %s -p 'trace-optimizer{optimizer=sgd},trace-optimizer{optimizer=adam parameters="b"},append-updates' 2>&1 | filecheck %s --check-prefix TWICE

// TWICE: tg-opt: error: append-updates: @loss: two optimizers update 'b'
// Each optimizer updates a subset of the parameters; the prefix `host` keeps the names of their scalars apart.
func.func @loss(%a: tensor<2xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<2xf32> {tg.name = "b", tg.role = "parameter"}) -> (tensor<2xf32> {tg.name = "a", tg.role = "gradient"}, tensor<2xf32> {tg.name = "b", tg.role = "gradient"}) {
  func.return %b, %a : tensor<2xf32>, tensor<2xf32>
}

// MISSING: tg-opt: error: trace-optimizer: @loss has no parameter 'c'

// CHECK: func.func @loss(%a: tensor<2xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<2xf32> {tg.name = "b", tg.role = "parameter"}, %0: tensor<f32> {tg.name = "one_weight_decay", tg.role = "scalar", tg.formula = "one_weight_decay"}, %1: tensor<f32> {tg.name = "one_learning_rate", tg.role = "scalar", tg.formula = "one_learning_rate"}, %2: tensor<f32> {tg.name = "two_learning_rate", tg.role = "scalar", tg.formula = "two_learning_rate"}) -> (tensor<2xf32> {tg.name = "a", tg.role = "update"}, tensor<2xf32> {tg.name = "b", tg.role = "update"}) {
// CHECK-NEXT:   %3 = tg.broadcast %0 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %4 = tg.mul %a, %3 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %5 = tg.add %b, %4 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %6 = tg.broadcast %1 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %7 = tg.mul %5, %6 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %8 = tg.sub %a, %7 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %9 = tg.broadcast %2 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %10 = tg.mul %a, %9 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %11 = tg.sub %b, %10 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   func.return %8, %11 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT: }
