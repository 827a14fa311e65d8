// RUN: tg-opt %s -p 'append-lion' | filecheck %s
// RUN: tg-opt %s -p 'append-lion{beta1=0.5 beta2=0.75 weight-decay=0.25}' | filecheck %s --check-prefix OPTIONS
// RUN: not tg-opt %s -p 'append-lion{beta2=1}' 2>&1 | filecheck %s --check-prefix ERROR

// Zero stays zero, and NaN NaN.
func.func @loss(%a: tensor<2xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<f32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2xf32>, %gb: tensor<f32>) -> (tensor<2xf32> {tg.name = "a", tg.role = "gradient"}, tensor<f32> {tg.name = "b", tg.role = "gradient"}) {
  func.return %ga, %gb : tensor<2xf32>, tensor<f32>
}

// ERROR: tg-opt: error: append-lion: beta2 must be at least 0 and less than 1, got 1.0

// CHECK: func.func @loss(%a: tensor<2xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<f32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2xf32> {tg.name = "arg2", tg.role = "input"}, %gb: tensor<f32> {tg.name = "arg3", tg.role = "input"}, %0: tensor<2xf32> {tg.name = "lion.m/a", tg.role = "state"}, %1: tensor<f32> {tg.name = "lion.m/b", tg.role = "state"}, %2: tensor<f32> {tg.name = "lion.step_size", tg.role = "scalar", tg.formula = "learning_rate"}) -> (tensor<2xf32> {tg.name = "a", tg.role = "update"}, tensor<f32> {tg.name = "b", tg.role = "update"}, tensor<2xf32> {tg.name = "lion.m/a", tg.role = "update"}, tensor<f32> {tg.name = "lion.m/b", tg.role = "update"}) {
// CHECK-NEXT:   %3 = tg.constant value = dense<9.000000e-01> : tensor<2xf32>
// CHECK-NEXT:   %4 = tg.mul %0, %3 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %5 = tg.constant value = dense<1.000000e-01> : tensor<2xf32>
// CHECK-NEXT:   %6 = tg.mul %ga, %5 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %7 = tg.add %4, %6 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %8 = tg.broadcast %2 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %9 = tg.constant value = dense<0.000000e+00> : tensor<2xf32>
// CHECK-NEXT:   %10 = tg.compare %7, %9 predicate = "lt" : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %11 = tg.neg %8 : tensor<2xf32>
// CHECK-NEXT:   %12 = tg.mul %8, %7 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %13 = tg.select %10, %11, %12 : tensor<2xi1>, tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %14 = tg.compare %7, %9 predicate = "gt" : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %15 = tg.select %14, %8, %13 : tensor<2xi1>, tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %16 = tg.constant value = dense<9.900000e-01> : tensor<2xf32>
// CHECK-NEXT:   %17 = tg.mul %0, %16 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %18 = tg.constant value = dense<1.000000e-02> : tensor<2xf32>
// CHECK-NEXT:   %19 = tg.mul %ga, %18 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %20 = tg.add %17, %19 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %21 = tg.sub %a, %15 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %22 = tg.constant value = dense<9.000000e-01> : tensor<f32>
// CHECK-NEXT:   %23 = tg.mul %1, %22 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %24 = tg.constant value = dense<1.000000e-01> : tensor<f32>
// CHECK-NEXT:   %25 = tg.mul %gb, %24 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %26 = tg.add %23, %25 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %27 = tg.constant value = dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT:   %28 = tg.compare %26, %27 predicate = "lt" : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %29 = tg.neg %2 : tensor<f32>
// CHECK-NEXT:   %30 = tg.mul %2, %26 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %31 = tg.select %28, %29, %30 : tensor<i1>, tensor<f32>, tensor<f32>
// CHECK-NEXT:   %32 = tg.compare %26, %27 predicate = "gt" : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %33 = tg.select %32, %2, %31 : tensor<i1>, tensor<f32>, tensor<f32>
// CHECK-NEXT:   %34 = tg.constant value = dense<9.900000e-01> : tensor<f32>
// CHECK-NEXT:   %35 = tg.mul %1, %34 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %36 = tg.constant value = dense<1.000000e-02> : tensor<f32>
// CHECK-NEXT:   %37 = tg.mul %gb, %36 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %38 = tg.add %35, %37 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %39 = tg.sub %b, %33 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   func.return %21, %39, %20, %38 : tensor<2xf32>, tensor<f32>, tensor<2xf32>, tensor<f32>
// CHECK-NEXT: }

// OPTIONS: func.func @loss(%a: tensor<2xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<f32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2xf32> {tg.name = "arg2", tg.role = "input"}, %gb: tensor<f32> {tg.name = "arg3", tg.role = "input"}, %0: tensor<2xf32> {tg.name = "lion.m/a", tg.role = "state"}, %1: tensor<f32> {tg.name = "lion.m/b", tg.role = "state"}, %2: tensor<f32> {tg.name = "lion.step_size", tg.role = "scalar", tg.formula = "learning_rate"}, %3: tensor<f32> {tg.name = "lion.kept", tg.role = "scalar", tg.formula = "1 - learning_rate * 0.25"}) -> (tensor<2xf32> {tg.name = "a", tg.role = "update"}, tensor<f32> {tg.name = "b", tg.role = "update"}, tensor<2xf32> {tg.name = "lion.m/a", tg.role = "update"}, tensor<f32> {tg.name = "lion.m/b", tg.role = "update"}) {
// OPTIONS-NEXT:   %4 = tg.broadcast %3 shape = [2] dims = [] : tensor<f32>
// OPTIONS-NEXT:   %5 = tg.mul %a, %4 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %6 = tg.constant value = dense<5.000000e-01> : tensor<2xf32>
// OPTIONS-NEXT:   %7 = tg.mul %0, %6 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %8 = tg.constant value = dense<5.000000e-01> : tensor<2xf32>
// OPTIONS-NEXT:   %9 = tg.mul %ga, %8 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %10 = tg.add %7, %9 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %11 = tg.broadcast %2 shape = [2] dims = [] : tensor<f32>
// OPTIONS-NEXT:   %12 = tg.constant value = dense<0.000000e+00> : tensor<2xf32>
// OPTIONS-NEXT:   %13 = tg.compare %10, %12 predicate = "lt" : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %14 = tg.neg %11 : tensor<2xf32>
// OPTIONS-NEXT:   %15 = tg.mul %11, %10 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %16 = tg.select %13, %14, %15 : tensor<2xi1>, tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %17 = tg.compare %10, %12 predicate = "gt" : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %18 = tg.select %17, %11, %16 : tensor<2xi1>, tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %19 = tg.constant value = dense<7.500000e-01> : tensor<2xf32>
// OPTIONS-NEXT:   %20 = tg.mul %0, %19 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %21 = tg.constant value = dense<2.500000e-01> : tensor<2xf32>
// OPTIONS-NEXT:   %22 = tg.mul %ga, %21 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %23 = tg.add %20, %22 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %24 = tg.sub %5, %18 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %25 = tg.mul %b, %3 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %26 = tg.constant value = dense<5.000000e-01> : tensor<f32>
// OPTIONS-NEXT:   %27 = tg.mul %1, %26 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %28 = tg.constant value = dense<5.000000e-01> : tensor<f32>
// OPTIONS-NEXT:   %29 = tg.mul %gb, %28 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %30 = tg.add %27, %29 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %31 = tg.constant value = dense<0.000000e+00> : tensor<f32>
// OPTIONS-NEXT:   %32 = tg.compare %30, %31 predicate = "lt" : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %33 = tg.neg %2 : tensor<f32>
// OPTIONS-NEXT:   %34 = tg.mul %2, %30 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %35 = tg.select %32, %33, %34 : tensor<i1>, tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %36 = tg.compare %30, %31 predicate = "gt" : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %37 = tg.select %36, %2, %35 : tensor<i1>, tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %38 = tg.constant value = dense<7.500000e-01> : tensor<f32>
// OPTIONS-NEXT:   %39 = tg.mul %1, %38 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %40 = tg.constant value = dense<2.500000e-01> : tensor<f32>
// OPTIONS-NEXT:   %41 = tg.mul %gb, %40 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %42 = tg.add %39, %41 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %43 = tg.sub %25, %37 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   func.return %24, %43, %23, %42 : tensor<2xf32>, tensor<f32>, tensor<2xf32>, tensor<f32>
// OPTIONS-NEXT: }
