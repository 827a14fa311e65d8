// RUN: tg-opt %s -p 'append-rmsprop' | filecheck %s
// RUN: tg-opt %s -p 'append-rmsprop{alpha=0.5 eps=1e-3 momentum=0.75 centered weight-decay=1}' | filecheck %s --check-prefix OPTIONS
// RUN: not tg-opt %s -p 'append-rmsprop{alpha=1}' 2>&1 | filecheck %s --check-prefix ERROR

// One state, or three.
func.func @loss(%a: tensor<2xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<f32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2xf32>, %gb: tensor<f32>) -> (tensor<2xf32> {tg.name = "a", tg.role = "gradient"}, tensor<f32> {tg.name = "b", tg.role = "gradient"}) {
  func.return %ga, %gb : tensor<2xf32>, tensor<f32>
}

// ERROR: tg-opt: error: append-rmsprop: alpha must be at least 0 and less than 1, got 1.0

// CHECK: func.func @loss(%a: tensor<2xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<f32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2xf32> {tg.name = "arg2", tg.role = "input"}, %gb: tensor<f32> {tg.name = "arg3", tg.role = "input"}, %0: tensor<2xf32> {tg.name = "rmsprop.v/a", tg.role = "state"}, %1: tensor<f32> {tg.name = "rmsprop.v/b", tg.role = "state"}, %2: tensor<f32> {tg.name = "rmsprop.step_size", tg.role = "scalar", tg.formula = "learning_rate"}) -> (tensor<2xf32> {tg.name = "a", tg.role = "update"}, tensor<f32> {tg.name = "b", tg.role = "update"}, tensor<2xf32> {tg.name = "rmsprop.v/a", tg.role = "update"}, tensor<f32> {tg.name = "rmsprop.v/b", tg.role = "update"}) {
// CHECK-NEXT:   %3 = tg.mul %ga, %ga : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %4 = tg.constant value = dense<9.900000e-01> : tensor<2xf32>
// CHECK-NEXT:   %5 = tg.mul %0, %4 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %6 = tg.constant value = dense<1.000000e-02> : tensor<2xf32>
// CHECK-NEXT:   %7 = tg.mul %3, %6 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %8 = tg.add %5, %7 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %9 = tg.sqrt %8 : tensor<2xf32>
// CHECK-NEXT:   %10 = tg.constant value = dense<1.000000e-08> : tensor<2xf32>
// CHECK-NEXT:   %11 = tg.add %9, %10 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %12 = tg.div %ga, %11 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %13 = tg.broadcast %2 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %14 = tg.mul %12, %13 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %15 = tg.sub %a, %14 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %16 = tg.mul %gb, %gb : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %17 = tg.constant value = dense<9.900000e-01> : tensor<f32>
// CHECK-NEXT:   %18 = tg.mul %1, %17 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %19 = tg.constant value = dense<1.000000e-02> : tensor<f32>
// CHECK-NEXT:   %20 = tg.mul %16, %19 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %21 = tg.add %18, %20 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %22 = tg.sqrt %21 : tensor<f32>
// CHECK-NEXT:   %23 = tg.constant value = dense<1.000000e-08> : tensor<f32>
// CHECK-NEXT:   %24 = tg.add %22, %23 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %25 = tg.div %gb, %24 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %26 = tg.mul %25, %2 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %27 = tg.sub %b, %26 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   func.return %15, %27, %8, %21 : tensor<2xf32>, tensor<f32>, tensor<2xf32>, tensor<f32>
// CHECK-NEXT: }

// OPTIONS: func.func @loss(%a: tensor<2xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<f32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2xf32> {tg.name = "arg2", tg.role = "input"}, %gb: tensor<f32> {tg.name = "arg3", tg.role = "input"}, %0: tensor<2xf32> {tg.name = "rmsprop.v/a", tg.role = "state"}, %1: tensor<f32> {tg.name = "rmsprop.v/b", tg.role = "state"}, %2: tensor<2xf32> {tg.name = "rmsprop.m/a", tg.role = "state"}, %3: tensor<f32> {tg.name = "rmsprop.m/b", tg.role = "state"}, %4: tensor<2xf32> {tg.name = "rmsprop.momentum/a", tg.role = "state"}, %5: tensor<f32> {tg.name = "rmsprop.momentum/b", tg.role = "state"}, %6: tensor<f32> {tg.name = "rmsprop.step_size", tg.role = "scalar", tg.formula = "learning_rate"}) -> (tensor<2xf32> {tg.name = "a", tg.role = "update"}, tensor<f32> {tg.name = "b", tg.role = "update"}, tensor<2xf32> {tg.name = "rmsprop.v/a", tg.role = "update"}, tensor<f32> {tg.name = "rmsprop.v/b", tg.role = "update"}, tensor<2xf32> {tg.name = "rmsprop.m/a", tg.role = "update"}, tensor<f32> {tg.name = "rmsprop.m/b", tg.role = "update"}, tensor<2xf32> {tg.name = "rmsprop.momentum/a", tg.role = "update"}, tensor<f32> {tg.name = "rmsprop.momentum/b", tg.role = "update"}) {
// OPTIONS-NEXT:   %7 = tg.constant value = dense<1.000000e+00> : tensor<2xf32>
// OPTIONS-NEXT:   %8 = tg.mul %a, %7 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %9 = tg.add %ga, %8 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %10 = tg.mul %9, %9 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %11 = tg.constant value = dense<5.000000e-01> : tensor<2xf32>
// OPTIONS-NEXT:   %12 = tg.mul %0, %11 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %13 = tg.constant value = dense<5.000000e-01> : tensor<2xf32>
// OPTIONS-NEXT:   %14 = tg.mul %10, %13 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %15 = tg.add %12, %14 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %16 = tg.sub %9, %2 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %17 = tg.constant value = dense<5.000000e-01> : tensor<2xf32>
// OPTIONS-NEXT:   %18 = tg.mul %16, %17 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %19 = tg.add %2, %18 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %20 = tg.mul %19, %19 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %21 = tg.sub %15, %20 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %22 = tg.constant value = dense<0.000000e+00> : tensor<2xf32>
// OPTIONS-NEXT:   %23 = tg.compare %21, %22 predicate = "lt" : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %24 = tg.select %23, %22, %21 : tensor<2xi1>, tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %25 = tg.sqrt %24 : tensor<2xf32>
// OPTIONS-NEXT:   %26 = tg.constant value = dense<1.000000e-03> : tensor<2xf32>
// OPTIONS-NEXT:   %27 = tg.add %25, %26 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %28 = tg.div %9, %27 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %29 = tg.constant value = dense<7.500000e-01> : tensor<2xf32>
// OPTIONS-NEXT:   %30 = tg.mul %4, %29 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %31 = tg.add %30, %28 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %32 = tg.broadcast %6 shape = [2] dims = [] : tensor<f32>
// OPTIONS-NEXT:   %33 = tg.mul %31, %32 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %34 = tg.sub %a, %33 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %35 = tg.constant value = dense<1.000000e+00> : tensor<f32>
// OPTIONS-NEXT:   %36 = tg.mul %b, %35 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %37 = tg.add %gb, %36 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %38 = tg.mul %37, %37 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %39 = tg.constant value = dense<5.000000e-01> : tensor<f32>
// OPTIONS-NEXT:   %40 = tg.mul %1, %39 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %41 = tg.constant value = dense<5.000000e-01> : tensor<f32>
// OPTIONS-NEXT:   %42 = tg.mul %38, %41 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %43 = tg.add %40, %42 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %44 = tg.sub %37, %3 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %45 = tg.constant value = dense<5.000000e-01> : tensor<f32>
// OPTIONS-NEXT:   %46 = tg.mul %44, %45 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %47 = tg.add %3, %46 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %48 = tg.mul %47, %47 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %49 = tg.sub %43, %48 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %50 = tg.constant value = dense<0.000000e+00> : tensor<f32>
// OPTIONS-NEXT:   %51 = tg.compare %49, %50 predicate = "lt" : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %52 = tg.select %51, %50, %49 : tensor<i1>, tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %53 = tg.sqrt %52 : tensor<f32>
// OPTIONS-NEXT:   %54 = tg.constant value = dense<1.000000e-03> : tensor<f32>
// OPTIONS-NEXT:   %55 = tg.add %53, %54 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %56 = tg.div %37, %55 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %57 = tg.constant value = dense<7.500000e-01> : tensor<f32>
// OPTIONS-NEXT:   %58 = tg.mul %5, %57 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %59 = tg.add %58, %56 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %60 = tg.mul %59, %6 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %61 = tg.sub %b, %60 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   func.return %34, %61, %15, %43, %19, %47, %31, %59 : tensor<2xf32>, tensor<f32>, tensor<2xf32>, tensor<f32>, tensor<2xf32>, tensor<f32>, tensor<2xf32>, tensor<f32>
// OPTIONS-NEXT: }
