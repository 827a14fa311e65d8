// RUN: tg-opt %s -p 'append-adamw{weight-decay=0.5 decay="a"}' | filecheck %s
// RUN: tg-opt %s -p 'append-adamw{weight-decay=0}' | filecheck %s --check-prefix OPTIONS
// RUN: not tg-opt %s -p 'append-adamw{eps=-1}' 2>&1 | filecheck %s --check-prefix ERROR

// Only one of the parameters decays, by a scalar of the host's.
func.func @loss(%a: tensor<2xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<f32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2xf32>, %gb: tensor<f32>) -> (tensor<2xf32> {tg.name = "a", tg.role = "gradient"}, tensor<f32> {tg.name = "b", tg.role = "gradient"}) {
  func.return %ga, %gb : tensor<2xf32>, tensor<f32>
}

// ERROR: tg-opt: error: append-adamw: eps must be at least 0 and finite, got -1.0

// CHECK: func.func @loss(%a: tensor<2xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<f32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2xf32> {tg.name = "arg2", tg.role = "input"}, %gb: tensor<f32> {tg.name = "arg3", tg.role = "input"}, %0: tensor<2xf32> {tg.name = "adam.m/a", tg.role = "state"}, %1: tensor<f32> {tg.name = "adam.m/b", tg.role = "state"}, %2: tensor<2xf32> {tg.name = "adam.v/a", tg.role = "state"}, %3: tensor<f32> {tg.name = "adam.v/b", tg.role = "state"}, %4: tensor<f32> {tg.name = "adam.step_size", tg.role = "scalar", tg.formula = "learning_rate / (1 - 0.9 ** step)"}, %5: tensor<f32> {tg.name = "adam.root_correction", tg.role = "scalar", tg.formula = "sqrt(1 - 0.999 ** step)"}, %6: tensor<f32> {tg.name = "adam.kept", tg.role = "scalar", tg.formula = "1 - learning_rate * 0.5"}) -> (tensor<2xf32> {tg.name = "a", tg.role = "update"}, tensor<f32> {tg.name = "b", tg.role = "update"}, tensor<2xf32> {tg.name = "adam.m/a", tg.role = "update"}, tensor<f32> {tg.name = "adam.m/b", tg.role = "update"}, tensor<2xf32> {tg.name = "adam.v/a", tg.role = "update"}, tensor<f32> {tg.name = "adam.v/b", tg.role = "update"}) {
// CHECK-NEXT:   %7 = tg.broadcast %6 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %8 = tg.mul %a, %7 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %9 = tg.sub %ga, %0 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %10 = tg.constant value = dense<1.000000e-01> : tensor<2xf32>
// CHECK-NEXT:   %11 = tg.mul %9, %10 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %12 = tg.add %0, %11 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %13 = tg.constant value = dense<9.990000e-01> : tensor<2xf32>
// CHECK-NEXT:   %14 = tg.mul %2, %13 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %15 = tg.mul %ga, %ga : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %16 = tg.constant value = dense<1.000000e-03> : tensor<2xf32>
// CHECK-NEXT:   %17 = tg.mul %15, %16 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %18 = tg.add %14, %17 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %19 = tg.sqrt %18 : tensor<2xf32>
// CHECK-NEXT:   %20 = tg.broadcast %5 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %21 = tg.div %19, %20 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %22 = tg.broadcast %4 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %23 = tg.constant value = dense<1.000000e-08> : tensor<2xf32>
// CHECK-NEXT:   %24 = tg.add %21, %23 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %25 = tg.div %12, %24 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %26 = tg.mul %22, %25 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %27 = tg.sub %8, %26 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %28 = tg.sub %gb, %1 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %29 = tg.constant value = dense<1.000000e-01> : tensor<f32>
// CHECK-NEXT:   %30 = tg.mul %28, %29 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %31 = tg.add %1, %30 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %32 = tg.constant value = dense<9.990000e-01> : tensor<f32>
// CHECK-NEXT:   %33 = tg.mul %3, %32 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %34 = tg.mul %gb, %gb : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %35 = tg.constant value = dense<1.000000e-03> : tensor<f32>
// CHECK-NEXT:   %36 = tg.mul %34, %35 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %37 = tg.add %33, %36 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %38 = tg.sqrt %37 : tensor<f32>
// CHECK-NEXT:   %39 = tg.div %38, %5 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %40 = tg.constant value = dense<1.000000e-08> : tensor<f32>
// CHECK-NEXT:   %41 = tg.add %39, %40 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %42 = tg.div %31, %41 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %43 = tg.mul %4, %42 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %44 = tg.sub %b, %43 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   func.return %27, %44, %12, %31, %18, %37 : tensor<2xf32>, tensor<f32>, tensor<2xf32>, tensor<f32>, tensor<2xf32>, tensor<f32>
// CHECK-NEXT: }

// OPTIONS: func.func @loss(%a: tensor<2xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<f32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2xf32> {tg.name = "arg2", tg.role = "input"}, %gb: tensor<f32> {tg.name = "arg3", tg.role = "input"}, %0: tensor<2xf32> {tg.name = "adam.m/a", tg.role = "state"}, %1: tensor<f32> {tg.name = "adam.m/b", tg.role = "state"}, %2: tensor<2xf32> {tg.name = "adam.v/a", tg.role = "state"}, %3: tensor<f32> {tg.name = "adam.v/b", tg.role = "state"}, %4: tensor<f32> {tg.name = "adam.step_size", tg.role = "scalar", tg.formula = "learning_rate / (1 - 0.9 ** step)"}, %5: tensor<f32> {tg.name = "adam.root_correction", tg.role = "scalar", tg.formula = "sqrt(1 - 0.999 ** step)"}) -> (tensor<2xf32> {tg.name = "a", tg.role = "update"}, tensor<f32> {tg.name = "b", tg.role = "update"}, tensor<2xf32> {tg.name = "adam.m/a", tg.role = "update"}, tensor<f32> {tg.name = "adam.m/b", tg.role = "update"}, tensor<2xf32> {tg.name = "adam.v/a", tg.role = "update"}, tensor<f32> {tg.name = "adam.v/b", tg.role = "update"}) {
// OPTIONS-NEXT:   %6 = tg.sub %ga, %0 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %7 = tg.constant value = dense<1.000000e-01> : tensor<2xf32>
// OPTIONS-NEXT:   %8 = tg.mul %6, %7 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %9 = tg.add %0, %8 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %10 = tg.constant value = dense<9.990000e-01> : tensor<2xf32>
// OPTIONS-NEXT:   %11 = tg.mul %2, %10 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %12 = tg.mul %ga, %ga : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %13 = tg.constant value = dense<1.000000e-03> : tensor<2xf32>
// OPTIONS-NEXT:   %14 = tg.mul %12, %13 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %15 = tg.add %11, %14 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %16 = tg.sqrt %15 : tensor<2xf32>
// OPTIONS-NEXT:   %17 = tg.broadcast %5 shape = [2] dims = [] : tensor<f32>
// OPTIONS-NEXT:   %18 = tg.div %16, %17 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %19 = tg.broadcast %4 shape = [2] dims = [] : tensor<f32>
// OPTIONS-NEXT:   %20 = tg.constant value = dense<1.000000e-08> : tensor<2xf32>
// OPTIONS-NEXT:   %21 = tg.add %18, %20 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %22 = tg.div %9, %21 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %23 = tg.mul %19, %22 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %24 = tg.sub %a, %23 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %25 = tg.sub %gb, %1 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %26 = tg.constant value = dense<1.000000e-01> : tensor<f32>
// OPTIONS-NEXT:   %27 = tg.mul %25, %26 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %28 = tg.add %1, %27 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %29 = tg.constant value = dense<9.990000e-01> : tensor<f32>
// OPTIONS-NEXT:   %30 = tg.mul %3, %29 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %31 = tg.mul %gb, %gb : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %32 = tg.constant value = dense<1.000000e-03> : tensor<f32>
// OPTIONS-NEXT:   %33 = tg.mul %31, %32 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %34 = tg.add %30, %33 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %35 = tg.sqrt %34 : tensor<f32>
// OPTIONS-NEXT:   %36 = tg.div %35, %5 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %37 = tg.constant value = dense<1.000000e-08> : tensor<f32>
// OPTIONS-NEXT:   %38 = tg.add %36, %37 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %39 = tg.div %28, %38 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %40 = tg.mul %4, %39 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %41 = tg.sub %b, %40 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   func.return %24, %41, %9, %28, %15, %34 : tensor<2xf32>, tensor<f32>, tensor<2xf32>, tensor<f32>, tensor<2xf32>, tensor<f32>
// OPTIONS-NEXT: }
