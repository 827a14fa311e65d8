// RUN: tg-opt %s -p 'trace-optimizer{optimizer="adagrad"}' | filecheck %s
// RUN: tg-opt %s -p 'trace-optimizer{optimizer="adagrad(lr_decay=0.5, initial_accumulator_value=2, eps=1e-3)"}' | filecheck %s --check-prefix OPTIONS
// RUN: not tg-opt %s -p 'trace-optimizer{optimizer="adagrad(lr_decay=-1)"}' 2>&1 | filecheck %s --check-prefix ERROR

// State is zero-initialized: the first step selects `initial_accumulator_value` in its place, unless that is zero.
func.func @loss(%a: tensor<2xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<f32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2xf32>, %gb: tensor<f32>) -> (tensor<2xf32> {tg.name = "a", tg.role = "gradient"}, tensor<f32> {tg.name = "b", tg.role = "gradient"}) {
  func.return %ga, %gb : tensor<2xf32>, tensor<f32>
}

// ERROR: tg-opt: error: trace-optimizer: adagrad: lr_decay must be a finite number that is not negative, got -1

// CHECK: func.func private @adagrad(%0: tensor<2xf32> {tg.name = "gradient", tg.role = "gradient"}, %1: tensor<2xf32> {tg.name = "parameter", tg.role = "parameter"}, %2: tensor<2xf32> {tg.name = "adagrad.sum", tg.role = "state"}, %3: tensor<f32> {tg.name = "eps", tg.role = "scalar", tg.formula = "eps"}, %4: tensor<f32> {tg.name = "learning_rate", tg.role = "scalar", tg.formula = "learning_rate"}) -> (tensor<2xf32> {tg.name = "parameter", tg.role = "update"}, tensor<2xf32> {tg.name = "adagrad.sum", tg.role = "update"}) attributes {tg.updates = ["a", "b"], tg.stage = 0 : i64} {
// CHECK-NEXT:   %5 = tg.mul %0, %0 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %6 = tg.add %2, %5 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %7 = tg.sqrt %6 : tensor<2xf32>
// CHECK-NEXT:   %8 = tg.broadcast %3 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %9 = tg.add %7, %8 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %10 = tg.div %0, %9 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %11 = tg.broadcast %4 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %12 = tg.mul %10, %11 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %13 = tg.sub %1, %12 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   func.return %13, %6 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT: }

// OPTIONS: func.func private @adagrad(%0: tensor<2xf32> {tg.name = "gradient", tg.role = "gradient"}, %1: tensor<2xf32> {tg.name = "parameter", tg.role = "parameter"}, %2: tensor<2xf32> {tg.name = "adagrad.sum", tg.role = "state"}, %3: tensor<f32> {tg.name = "step == 1", tg.role = "scalar", tg.formula = "step == 1"}, %4: tensor<f32> {tg.name = "eps", tg.role = "scalar", tg.formula = "eps"}, %5: tensor<f32> {tg.name = "learning_rate / (1 + (step - 1) * lr_decay)", tg.role = "scalar", tg.formula = "learning_rate / (1 + (step - 1) * lr_decay)"}) -> (tensor<2xf32> {tg.name = "parameter", tg.role = "update"}, tensor<2xf32> {tg.name = "adagrad.sum", tg.role = "update"}) attributes {tg.updates = ["a", "b"], tg.stage = 0 : i64} {
// OPTIONS-NEXT:   %6 = tg.constant value = dense<0.000000e+00> : tensor<f32>
// OPTIONS-NEXT:   %7 = tg.compare %3, %6 predicate = "ne" : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %8 = tg.broadcast %7 shape = [2] dims = [] : tensor<i1>
// OPTIONS-NEXT:   %9 = tg.constant value = dense<2.000000e+00> : tensor<2xf32>
// OPTIONS-NEXT:   %10 = tg.select %8, %9, %2 : tensor<2xi1>, tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %11 = tg.mul %0, %0 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %12 = tg.add %10, %11 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %13 = tg.sqrt %12 : tensor<2xf32>
// OPTIONS-NEXT:   %14 = tg.broadcast %4 shape = [2] dims = [] : tensor<f32>
// OPTIONS-NEXT:   %15 = tg.add %13, %14 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %16 = tg.div %0, %15 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %17 = tg.broadcast %5 shape = [2] dims = [] : tensor<f32>
// OPTIONS-NEXT:   %18 = tg.mul %16, %17 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %19 = tg.sub %1, %18 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   func.return %19, %12 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT: }
