// RUN: tg-opt %s -p 'trace-optimizer{optimizer="lion"}' | filecheck %s
// RUN: tg-opt %s -p 'trace-optimizer{optimizer="lion(betas=(0.5, 0.75), weight_decay=0.25)"}' | filecheck %s --check-prefix OPTIONS
// RUN: not tg-opt %s -p 'trace-optimizer{optimizer="lion(betas=(0.9, 1))"}' 2>&1 | filecheck %s --check-prefix ERROR

func.func @loss(%a: tensor<2xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<f32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2xf32>, %gb: tensor<f32>) -> (tensor<2xf32> {tg.name = "a", tg.role = "gradient"}, tensor<f32> {tg.name = "b", tg.role = "gradient"}) {
  func.return %ga, %gb : tensor<2xf32>, tensor<f32>
}

// ERROR: tg-opt: error: trace-optimizer: lion: betas[1] must be a number from 0 to below 1, got 1

// CHECK: func.func private @lion(%0: tensor<2xf32> {tg.name = "gradient", tg.role = "gradient"}, %1: tensor<2xf32> {tg.name = "parameter", tg.role = "parameter"}, %2: tensor<2xf32> {tg.name = "lion.m", tg.role = "state"}, %3: tensor<f32> {tg.name = "beta1", tg.role = "scalar", tg.formula = "beta1"}, %4: tensor<f32> {tg.name = "1 - beta1", tg.role = "scalar", tg.formula = "1 - beta1"}, %5: tensor<f32> {tg.name = "beta2", tg.role = "scalar", tg.formula = "beta2"}, %6: tensor<f32> {tg.name = "1 - beta2", tg.role = "scalar", tg.formula = "1 - beta2"}, %7: tensor<f32> {tg.name = "learning_rate", tg.role = "scalar", tg.formula = "learning_rate"}) -> (tensor<2xf32> {tg.name = "parameter", tg.role = "update"}, tensor<2xf32> {tg.name = "lion.m", tg.role = "update"}) attributes {tg.updates = ["a", "b"], tg.stage = 0 : i64} {
// CHECK-NEXT:   %8 = tg.broadcast %3 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %9 = tg.mul %2, %8 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %10 = tg.broadcast %4 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %11 = tg.mul %0, %10 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %12 = tg.add %9, %11 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %13 = tg.stop_gradient %12 : tensor<2xf32>
// CHECK-NEXT:   %14 = tg.constant value = dense<0.000000e+00> : tensor<2xf32>
// CHECK-NEXT:   %15 = tg.compare %13, %14 predicate = "eq" : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %16 = tg.constant value = dense<0.000000e+00> : tensor<2xf32>
// CHECK-NEXT:   %17 = tg.select %15, %16, %13 : tensor<2xi1>, tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %18 = tg.constant value = dense<0.000000e+00> : tensor<2xf32>
// CHECK-NEXT:   %19 = tg.compare %13, %18 predicate = "lt" : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %20 = tg.constant value = dense<-1.000000e+00> : tensor<2xf32>
// CHECK-NEXT:   %21 = tg.select %19, %20, %17 : tensor<2xi1>, tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %22 = tg.constant value = dense<0.000000e+00> : tensor<2xf32>
// CHECK-NEXT:   %23 = tg.compare %13, %22 predicate = "gt" : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %24 = tg.constant value = dense<1.000000e+00> : tensor<2xf32>
// CHECK-NEXT:   %25 = tg.select %23, %24, %21 : tensor<2xi1>, tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %26 = tg.broadcast %5 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %27 = tg.mul %2, %26 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %28 = tg.broadcast %6 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %29 = tg.mul %0, %28 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %30 = tg.add %27, %29 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %31 = tg.broadcast %7 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %32 = tg.mul %25, %31 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %33 = tg.sub %1, %32 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   func.return %33, %30 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT: }

// OPTIONS: func.func private @lion(%0: tensor<2xf32> {tg.name = "gradient", tg.role = "gradient"}, %1: tensor<2xf32> {tg.name = "parameter", tg.role = "parameter"}, %2: tensor<2xf32> {tg.name = "lion.m", tg.role = "state"}, %3: tensor<f32> {tg.name = "beta1", tg.role = "scalar", tg.formula = "beta1"}, %4: tensor<f32> {tg.name = "1 - beta1", tg.role = "scalar", tg.formula = "1 - beta1"}, %5: tensor<f32> {tg.name = "beta2", tg.role = "scalar", tg.formula = "beta2"}, %6: tensor<f32> {tg.name = "1 - beta2", tg.role = "scalar", tg.formula = "1 - beta2"}, %7: tensor<f32> {tg.name = "1 - learning_rate * weight_decay", tg.role = "scalar", tg.formula = "1 - learning_rate * weight_decay"}, %8: tensor<f32> {tg.name = "learning_rate", tg.role = "scalar", tg.formula = "learning_rate"}) -> (tensor<2xf32> {tg.name = "parameter", tg.role = "update"}, tensor<2xf32> {tg.name = "lion.m", tg.role = "update"}) attributes {tg.updates = ["a", "b"], tg.stage = 0 : i64} {
// OPTIONS-NEXT:   %9 = tg.broadcast %3 shape = [2] dims = [] : tensor<f32>
// OPTIONS-NEXT:   %10 = tg.mul %2, %9 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %11 = tg.broadcast %4 shape = [2] dims = [] : tensor<f32>
// OPTIONS-NEXT:   %12 = tg.mul %0, %11 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %13 = tg.add %10, %12 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %14 = tg.stop_gradient %13 : tensor<2xf32>
// OPTIONS-NEXT:   %15 = tg.constant value = dense<0.000000e+00> : tensor<2xf32>
// OPTIONS-NEXT:   %16 = tg.compare %14, %15 predicate = "eq" : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %17 = tg.constant value = dense<0.000000e+00> : tensor<2xf32>
// OPTIONS-NEXT:   %18 = tg.select %16, %17, %14 : tensor<2xi1>, tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %19 = tg.constant value = dense<0.000000e+00> : tensor<2xf32>
// OPTIONS-NEXT:   %20 = tg.compare %14, %19 predicate = "lt" : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %21 = tg.constant value = dense<-1.000000e+00> : tensor<2xf32>
// OPTIONS-NEXT:   %22 = tg.select %20, %21, %18 : tensor<2xi1>, tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %23 = tg.constant value = dense<0.000000e+00> : tensor<2xf32>
// OPTIONS-NEXT:   %24 = tg.compare %14, %23 predicate = "gt" : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %25 = tg.constant value = dense<1.000000e+00> : tensor<2xf32>
// OPTIONS-NEXT:   %26 = tg.select %24, %25, %22 : tensor<2xi1>, tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %27 = tg.broadcast %5 shape = [2] dims = [] : tensor<f32>
// OPTIONS-NEXT:   %28 = tg.mul %2, %27 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %29 = tg.broadcast %6 shape = [2] dims = [] : tensor<f32>
// OPTIONS-NEXT:   %30 = tg.mul %0, %29 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %31 = tg.add %28, %30 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %32 = tg.broadcast %7 shape = [2] dims = [] : tensor<f32>
// OPTIONS-NEXT:   %33 = tg.mul %1, %32 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %34 = tg.broadcast %8 shape = [2] dims = [] : tensor<f32>
// OPTIONS-NEXT:   %35 = tg.mul %26, %34 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %36 = tg.sub %33, %35 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   func.return %36, %31 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT: }
