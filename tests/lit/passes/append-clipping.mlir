// RUN: tg-opt %s -p 'append-sgd{clip-norm=2.5 learning-rate="learning_rate / sqrt(step)"}' | filecheck %s
// RUN: not tg-opt %s -p 'append-sgd{clip-norm=0}' 2>&1 | filecheck %s --check-prefix ERROR

// The norm is that of all gradients; the learning rate is a formula.
func.func @loss(%a: tensor<2xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<f32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2xf32>, %gb: tensor<f32>) -> (tensor<2xf32> {tg.name = "a", tg.role = "gradient"}, tensor<f32> {tg.name = "b", tg.role = "gradient"}) {
  func.return %ga, %gb : tensor<2xf32>, tensor<f32>
}

// ERROR: tg-opt: error: append-sgd: clip_norm must be more than 0 and finite, got 0.0

// CHECK: func.func @loss(%a: tensor<2xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<f32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2xf32> {tg.name = "arg2", tg.role = "input"}, %gb: tensor<f32> {tg.name = "arg3", tg.role = "input"}, %0: tensor<f32> {tg.name = "sgd.step_size", tg.role = "scalar", tg.formula = "(learning_rate / sqrt(step))"}) -> (tensor<2xf32> {tg.name = "a", tg.role = "update"}, tensor<f32> {tg.name = "b", tg.role = "update"}) {
// CHECK-NEXT:   %1 = tg.mul %ga, %ga : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %2 = tg.sum %1 axes = [0] : tensor<2xf32>
// CHECK-NEXT:   %3 = tg.mul %gb, %gb : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %4 = tg.add %2, %3 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %5 = tg.sqrt %4 : tensor<f32>
// CHECK-NEXT:   %6 = tg.constant value = dense<2.500000e+00> : tensor<f32>
// CHECK-NEXT:   %7 = tg.constant value = dense<1.000000e-06> : tensor<f32>
// CHECK-NEXT:   %8 = tg.add %5, %7 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %9 = tg.div %6, %8 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %10 = tg.constant value = dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT:   %11 = tg.compare %9, %10 predicate = "gt" : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %12 = tg.select %11, %10, %9 : tensor<i1>, tensor<f32>, tensor<f32>
// CHECK-NEXT:   %13 = tg.broadcast %12 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %14 = tg.mul %ga, %13 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %15 = tg.broadcast %0 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %16 = tg.mul %14, %15 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %17 = tg.sub %a, %16 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %18 = tg.mul %gb, %12 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %19 = tg.mul %18, %0 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %20 = tg.sub %b, %19 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   func.return %17, %20 : tensor<2xf32>, tensor<f32>
// CHECK-NEXT: }
