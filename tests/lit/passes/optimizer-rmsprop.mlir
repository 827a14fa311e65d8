// RUN: tg-opt %s -p 'trace-optimizer{optimizer="rmsprop"}' | filecheck %s
// RUN: tg-opt %s -p 'trace-optimizer{optimizer="rmsprop(1e-2, centered=True, momentum=0.5)"}' | filecheck %s --check-prefix CENTERED
// RUN: not tg-opt %s -p 'trace-optimizer{optimizer="rmsprop(alpha=1.0)"}' 2>&1 | filecheck %s --check-prefix ERROR

func.func @loss(%a: tensor<2xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<f32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2xf32>, %gb: tensor<f32>) -> (tensor<2xf32> {tg.name = "a", tg.role = "gradient"}, tensor<f32> {tg.name = "b", tg.role = "gradient"}) {
  func.return %ga, %gb : tensor<2xf32>, tensor<f32>
}

// ERROR: tg-opt: error: trace-optimizer: rmsprop: alpha must be a number from 0 to below 1, got 1.0

// CHECK: func.func private @rmsprop(%0: tensor<2xf32> {tg.name = "gradient", tg.role = "gradient"}, %1: tensor<2xf32> {tg.name = "parameter", tg.role = "parameter"}, %2: tensor<2xf32> {tg.name = "rmsprop.v", tg.role = "state"}, %3: tensor<f32> {tg.name = "alpha", tg.role = "scalar", tg.formula = "alpha"}, %4: tensor<f32> {tg.name = "1 - alpha", tg.role = "scalar", tg.formula = "1 - alpha"}, %5: tensor<f32> {tg.name = "eps", tg.role = "scalar", tg.formula = "eps"}, %6: tensor<f32> {tg.name = "learning_rate", tg.role = "scalar", tg.formula = "learning_rate"}) -> (tensor<2xf32> {tg.name = "parameter", tg.role = "update"}, tensor<2xf32> {tg.name = "rmsprop.v", tg.role = "update"}) attributes {tg.updates = ["a", "b"], tg.stage = 0 : i64} {
// CHECK-NEXT:   %7 = tg.broadcast %3 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %8 = tg.mul %2, %7 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %9 = tg.mul %0, %0 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %10 = tg.broadcast %4 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %11 = tg.mul %9, %10 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %12 = tg.add %8, %11 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %13 = tg.sqrt %12 : tensor<2xf32>
// CHECK-NEXT:   %14 = tg.broadcast %5 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %15 = tg.add %13, %14 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %16 = tg.div %0, %15 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %17 = tg.broadcast %6 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %18 = tg.mul %16, %17 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %19 = tg.sub %1, %18 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   func.return %19, %12 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT: }

// CENTERED: func.func private @rmsprop(%0: tensor<2xf32> {tg.name = "gradient", tg.role = "gradient"}, %1: tensor<2xf32> {tg.name = "parameter", tg.role = "parameter"}, %2: tensor<2xf32> {tg.name = "rmsprop.v", tg.role = "state"}, %3: tensor<2xf32> {tg.name = "rmsprop.m", tg.role = "state"}, %4: tensor<2xf32> {tg.name = "rmsprop.momentum", tg.role = "state"}, %5: tensor<f32> {tg.name = "alpha", tg.role = "scalar", tg.formula = "alpha"}, %6: tensor<f32> {tg.name = "1 - alpha", tg.role = "scalar", tg.formula = "1 - alpha"}, %7: tensor<f32> {tg.name = "eps", tg.role = "scalar", tg.formula = "eps"}, %8: tensor<f32> {tg.name = "momentum", tg.role = "scalar", tg.formula = "momentum"}, %9: tensor<f32> {tg.name = "learning_rate", tg.role = "scalar", tg.formula = "learning_rate"}) -> (tensor<2xf32> {tg.name = "parameter", tg.role = "update"}, tensor<2xf32> {tg.name = "rmsprop.v", tg.role = "update"}, tensor<2xf32> {tg.name = "rmsprop.m", tg.role = "update"}, tensor<2xf32> {tg.name = "rmsprop.momentum", tg.role = "update"}) attributes {tg.updates = ["a", "b"], tg.stage = 0 : i64} {
// CENTERED-NEXT:   %10 = tg.broadcast %5 shape = [2] dims = [] : tensor<f32>
// CENTERED-NEXT:   %11 = tg.mul %2, %10 : tensor<2xf32>, tensor<2xf32>
// CENTERED-NEXT:   %12 = tg.mul %0, %0 : tensor<2xf32>, tensor<2xf32>
// CENTERED-NEXT:   %13 = tg.broadcast %6 shape = [2] dims = [] : tensor<f32>
// CENTERED-NEXT:   %14 = tg.mul %12, %13 : tensor<2xf32>, tensor<2xf32>
// CENTERED-NEXT:   %15 = tg.add %11, %14 : tensor<2xf32>, tensor<2xf32>
// CENTERED-NEXT:   %16 = tg.sub %0, %3 : tensor<2xf32>, tensor<2xf32>
// CENTERED-NEXT:   %17 = tg.broadcast %6 shape = [2] dims = [] : tensor<f32>
// CENTERED-NEXT:   %18 = tg.mul %16, %17 : tensor<2xf32>, tensor<2xf32>
// CENTERED-NEXT:   %19 = tg.add %3, %18 : tensor<2xf32>, tensor<2xf32>
// CENTERED-NEXT:   %20 = tg.mul %19, %19 : tensor<2xf32>, tensor<2xf32>
// CENTERED-NEXT:   %21 = tg.sub %15, %20 : tensor<2xf32>, tensor<2xf32>
// CENTERED-NEXT:   %22 = tg.constant value = dense<0.000000e+00> : tensor<2xf32>
// CENTERED-NEXT:   %23 = tg.compare %21, %22 predicate = "lt" : tensor<2xf32>, tensor<2xf32>
// CENTERED-NEXT:   %24 = tg.constant value = dense<0.000000e+00> : tensor<2xf32>
// CENTERED-NEXT:   %25 = tg.select %23, %24, %21 : tensor<2xi1>, tensor<2xf32>, tensor<2xf32>
// CENTERED-NEXT:   %26 = tg.sqrt %25 : tensor<2xf32>
// CENTERED-NEXT:   %27 = tg.broadcast %7 shape = [2] dims = [] : tensor<f32>
// CENTERED-NEXT:   %28 = tg.add %26, %27 : tensor<2xf32>, tensor<2xf32>
// CENTERED-NEXT:   %29 = tg.div %0, %28 : tensor<2xf32>, tensor<2xf32>
// CENTERED-NEXT:   %30 = tg.broadcast %8 shape = [2] dims = [] : tensor<f32>
// CENTERED-NEXT:   %31 = tg.mul %4, %30 : tensor<2xf32>, tensor<2xf32>
// CENTERED-NEXT:   %32 = tg.add %31, %29 : tensor<2xf32>, tensor<2xf32>
// CENTERED-NEXT:   %33 = tg.broadcast %9 shape = [2] dims = [] : tensor<f32>
// CENTERED-NEXT:   %34 = tg.mul %32, %33 : tensor<2xf32>, tensor<2xf32>
// CENTERED-NEXT:   %35 = tg.sub %1, %34 : tensor<2xf32>, tensor<2xf32>
// CENTERED-NEXT:   func.return %35, %15, %19, %32 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
// CENTERED-NEXT: }
