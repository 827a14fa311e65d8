// RUN: tg-opt %s -p 'append-adagrad' | filecheck %s
// RUN: tg-opt %s -p 'append-adagrad{lr-decay=0.5 initial-accumulator-value=2 eps=1e-3}' | filecheck %s --check-prefix OPTIONS
// RUN: not tg-opt %s -p 'append-adagrad{lr-decay=-1}' 2>&1 | filecheck %s --check-prefix ERROR

// What the sum starts from is added at the first step.
func.func @loss(%a: tensor<2xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<f32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2xf32>, %gb: tensor<f32>) -> (tensor<2xf32> {tg.name = "a", tg.role = "gradient"}, tensor<f32> {tg.name = "b", tg.role = "gradient"}) {
  func.return %ga, %gb : tensor<2xf32>, tensor<f32>
}

// ERROR: tg-opt: error: append-adagrad: lr_decay must be at least 0 and finite, got -1.0

// CHECK: func.func @loss(%a: tensor<2xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<f32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2xf32> {tg.name = "arg2", tg.role = "input"}, %gb: tensor<f32> {tg.name = "arg3", tg.role = "input"}, %0: tensor<2xf32> {tg.name = "adagrad.sum/a", tg.role = "state"}, %1: tensor<f32> {tg.name = "adagrad.sum/b", tg.role = "state"}, %2: tensor<f32> {tg.name = "adagrad.step_size", tg.role = "scalar", tg.formula = "learning_rate"}) -> (tensor<2xf32> {tg.name = "a", tg.role = "update"}, tensor<f32> {tg.name = "b", tg.role = "update"}, tensor<2xf32> {tg.name = "adagrad.sum/a", tg.role = "update"}, tensor<f32> {tg.name = "adagrad.sum/b", tg.role = "update"}) {
// CHECK-NEXT:   %3 = tg.mul %ga, %ga : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %4 = tg.add %0, %3 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %5 = tg.sqrt %4 : tensor<2xf32>
// CHECK-NEXT:   %6 = tg.constant value = dense<1.000000e-10> : tensor<2xf32>
// CHECK-NEXT:   %7 = tg.add %5, %6 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %8 = tg.div %ga, %7 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %9 = tg.broadcast %2 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %10 = tg.mul %8, %9 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %11 = tg.sub %a, %10 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %12 = tg.mul %gb, %gb : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %13 = tg.add %1, %12 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %14 = tg.sqrt %13 : tensor<f32>
// CHECK-NEXT:   %15 = tg.constant value = dense<1.000000e-10> : tensor<f32>
// CHECK-NEXT:   %16 = tg.add %14, %15 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %17 = tg.div %gb, %16 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %18 = tg.mul %17, %2 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %19 = tg.sub %b, %18 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   func.return %11, %19, %4, %13 : tensor<2xf32>, tensor<f32>, tensor<2xf32>, tensor<f32>
// CHECK-NEXT: }

// OPTIONS: func.func @loss(%a: tensor<2xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<f32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2xf32> {tg.name = "arg2", tg.role = "input"}, %gb: tensor<f32> {tg.name = "arg3", tg.role = "input"}, %0: tensor<2xf32> {tg.name = "adagrad.sum/a", tg.role = "state"}, %1: tensor<f32> {tg.name = "adagrad.sum/b", tg.role = "state"}, %2: tensor<f32> {tg.name = "adagrad.step_size", tg.role = "scalar", tg.formula = "learning_rate / (1 + (step - 1) * 0.5)"}, %3: tensor<f32> {tg.name = "adagrad.initial", tg.role = "scalar", tg.formula = "2.0 if step == 1 else 0.0"}) -> (tensor<2xf32> {tg.name = "a", tg.role = "update"}, tensor<f32> {tg.name = "b", tg.role = "update"}, tensor<2xf32> {tg.name = "adagrad.sum/a", tg.role = "update"}, tensor<f32> {tg.name = "adagrad.sum/b", tg.role = "update"}) {
// OPTIONS-NEXT:   %4 = tg.broadcast %3 shape = [2] dims = [] : tensor<f32>
// OPTIONS-NEXT:   %5 = tg.add %0, %4 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %6 = tg.mul %ga, %ga : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %7 = tg.add %5, %6 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %8 = tg.sqrt %7 : tensor<2xf32>
// OPTIONS-NEXT:   %9 = tg.constant value = dense<1.000000e-03> : tensor<2xf32>
// OPTIONS-NEXT:   %10 = tg.add %8, %9 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %11 = tg.div %ga, %10 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %12 = tg.broadcast %2 shape = [2] dims = [] : tensor<f32>
// OPTIONS-NEXT:   %13 = tg.mul %11, %12 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %14 = tg.sub %a, %13 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %15 = tg.add %1, %3 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %16 = tg.mul %gb, %gb : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %17 = tg.add %15, %16 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %18 = tg.sqrt %17 : tensor<f32>
// OPTIONS-NEXT:   %19 = tg.constant value = dense<1.000000e-03> : tensor<f32>
// OPTIONS-NEXT:   %20 = tg.add %18, %19 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %21 = tg.div %gb, %20 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %22 = tg.mul %21, %2 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %23 = tg.sub %b, %22 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   func.return %14, %23, %7, %17 : tensor<2xf32>, tensor<f32>, tensor<2xf32>, tensor<f32>
// OPTIONS-NEXT: }
