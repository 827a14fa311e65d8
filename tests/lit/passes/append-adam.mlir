// RUN: tg-opt %s --split-input-file -p 'append-adam{function=loss}' | filecheck %s
// RUN: tg-opt %s --split-input-file -p 'append-adam{beta1=0.5 beta2=0.75 eps=1e-3 weight-decay=1}' | filecheck %s --check-prefix OPTIONS
// RUN: not tg-opt %s --split-input-file -p 'append-adam{beta2=1}' 2>&1 | filecheck %s --check-prefix ERROR

// All state of one kind comes before that of the next, then the scalars; updates come in the same order.
func.func @loss(%a: tensor<f32> {tg.name = "a", tg.role = "parameter"}, %ga: tensor<f32>, %l: tensor<f32>) -> (tensor<f32> {tg.name = "loss", tg.role = "output"}, tensor<f32> {tg.name = "a", tg.role = "gradient"}) {
  func.return %l, %ga : tensor<f32>, tensor<f32>
}

// -----

// Two parameters, one of half floats: its state and arithmetic are f32.
func.func @loss(%a: tensor<2xf16> {tg.name = "a", tg.role = "parameter"}, %b: tensor<f32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2xf16>, %gb: tensor<f32>) -> (tensor<2xf16> {tg.name = "a", tg.role = "gradient"}, tensor<f32> {tg.name = "b", tg.role = "gradient"}) {
  func.return %ga, %gb : tensor<2xf16>, tensor<f32>
}

// ERROR: tg-opt: error: append-adam: beta2 must be at least 0 and less than 1, got 1.0

// CHECK: func.func @loss(%a: tensor<f32> {tg.name = "a", tg.role = "parameter"}, %ga: tensor<f32> {tg.name = "arg1", tg.role = "input"}, %l: tensor<f32> {tg.name = "arg2", tg.role = "input"}, %0: tensor<f32> {tg.name = "adam.m/a", tg.role = "state"}, %1: tensor<f32> {tg.name = "adam.v/a", tg.role = "state"}, %2: tensor<f32> {tg.name = "adam.step_size", tg.role = "scalar", tg.formula = "learning_rate / (1 - 0.9 ** step)"}, %3: tensor<f32> {tg.name = "adam.root_correction", tg.role = "scalar", tg.formula = "sqrt(1 - 0.999 ** step)"}) -> (tensor<f32> {tg.name = "loss", tg.role = "output"}, tensor<f32> {tg.name = "a", tg.role = "update"}, tensor<f32> {tg.name = "adam.m/a", tg.role = "update"}, tensor<f32> {tg.name = "adam.v/a", tg.role = "update"}) {
// CHECK-NEXT:   %4 = tg.sub %ga, %0 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %5 = tg.constant value = dense<1.000000e-01> : tensor<f32>
// CHECK-NEXT:   %6 = tg.mul %4, %5 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %7 = tg.add %0, %6 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %8 = tg.constant value = dense<9.990000e-01> : tensor<f32>
// CHECK-NEXT:   %9 = tg.mul %1, %8 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %10 = tg.mul %ga, %ga : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %11 = tg.constant value = dense<1.000000e-03> : tensor<f32>
// CHECK-NEXT:   %12 = tg.mul %10, %11 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %13 = tg.add %9, %12 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %14 = tg.sqrt %13 : tensor<f32>
// CHECK-NEXT:   %15 = tg.div %14, %3 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %16 = tg.constant value = dense<1.000000e-08> : tensor<f32>
// CHECK-NEXT:   %17 = tg.add %15, %16 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %18 = tg.div %7, %17 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %19 = tg.mul %2, %18 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %20 = tg.sub %a, %19 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   func.return %l, %20, %7, %13 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
// CHECK-NEXT: }
// CHECK: func.func @loss(%a: tensor<2xf16> {tg.name = "a", tg.role = "parameter"}, %b: tensor<f32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2xf16> {tg.name = "arg2", tg.role = "input"}, %gb: tensor<f32> {tg.name = "arg3", tg.role = "input"}, %0: tensor<2xf32> {tg.name = "adam.m/a", tg.role = "state"}, %1: tensor<f32> {tg.name = "adam.m/b", tg.role = "state"}, %2: tensor<2xf32> {tg.name = "adam.v/a", tg.role = "state"}, %3: tensor<f32> {tg.name = "adam.v/b", tg.role = "state"}, %4: tensor<f32> {tg.name = "adam.step_size", tg.role = "scalar", tg.formula = "learning_rate / (1 - 0.9 ** step)"}, %5: tensor<f32> {tg.name = "adam.root_correction", tg.role = "scalar", tg.formula = "sqrt(1 - 0.999 ** step)"}) -> (tensor<2xf16> {tg.name = "a", tg.role = "update"}, tensor<f32> {tg.name = "b", tg.role = "update"}, tensor<2xf32> {tg.name = "adam.m/a", tg.role = "update"}, tensor<f32> {tg.name = "adam.m/b", tg.role = "update"}, tensor<2xf32> {tg.name = "adam.v/a", tg.role = "update"}, tensor<f32> {tg.name = "adam.v/b", tg.role = "update"}) {
// CHECK-NEXT:   %6 = tg.cast %a to = f32 : tensor<2xf16>
// CHECK-NEXT:   %7 = tg.cast %ga to = f32 : tensor<2xf16>
// CHECK-NEXT:   %8 = tg.sub %7, %0 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %9 = tg.constant value = dense<1.000000e-01> : tensor<2xf32>
// CHECK-NEXT:   %10 = tg.mul %8, %9 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %11 = tg.add %0, %10 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %12 = tg.constant value = dense<9.990000e-01> : tensor<2xf32>
// CHECK-NEXT:   %13 = tg.mul %2, %12 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %14 = tg.mul %7, %7 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %15 = tg.constant value = dense<1.000000e-03> : tensor<2xf32>
// CHECK-NEXT:   %16 = tg.mul %14, %15 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %17 = tg.add %13, %16 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %18 = tg.sqrt %17 : tensor<2xf32>
// CHECK-NEXT:   %19 = tg.broadcast %5 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %20 = tg.div %18, %19 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %21 = tg.broadcast %4 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %22 = tg.constant value = dense<1.000000e-08> : tensor<2xf32>
// CHECK-NEXT:   %23 = tg.add %20, %22 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %24 = tg.div %11, %23 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %25 = tg.mul %21, %24 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %26 = tg.sub %6, %25 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %27 = tg.cast %26 to = f16 : tensor<2xf32>
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
// CHECK-NEXT:   func.return %27, %44, %11, %31, %17, %37 : tensor<2xf16>, tensor<f32>, tensor<2xf32>, tensor<f32>, tensor<2xf32>, tensor<f32>
// CHECK-NEXT: }

// OPTIONS: func.func @loss(%a: tensor<f32> {tg.name = "a", tg.role = "parameter"}, %ga: tensor<f32> {tg.name = "arg1", tg.role = "input"}, %l: tensor<f32> {tg.name = "arg2", tg.role = "input"}, %0: tensor<f32> {tg.name = "adam.m/a", tg.role = "state"}, %1: tensor<f32> {tg.name = "adam.v/a", tg.role = "state"}, %2: tensor<f32> {tg.name = "adam.step_size", tg.role = "scalar", tg.formula = "learning_rate / (1 - 0.5 ** step)"}, %3: tensor<f32> {tg.name = "adam.root_correction", tg.role = "scalar", tg.formula = "sqrt(1 - 0.75 ** step)"}) -> (tensor<f32> {tg.name = "loss", tg.role = "output"}, tensor<f32> {tg.name = "a", tg.role = "update"}, tensor<f32> {tg.name = "adam.m/a", tg.role = "update"}, tensor<f32> {tg.name = "adam.v/a", tg.role = "update"}) {
// OPTIONS-NEXT:   %4 = tg.constant value = dense<1.000000e+00> : tensor<f32>
// OPTIONS-NEXT:   %5 = tg.mul %a, %4 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %6 = tg.add %ga, %5 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %7 = tg.sub %6, %0 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %8 = tg.constant value = dense<5.000000e-01> : tensor<f32>
// OPTIONS-NEXT:   %9 = tg.mul %7, %8 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %10 = tg.add %0, %9 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %11 = tg.constant value = dense<7.500000e-01> : tensor<f32>
// OPTIONS-NEXT:   %12 = tg.mul %1, %11 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %13 = tg.mul %6, %6 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %14 = tg.constant value = dense<2.500000e-01> : tensor<f32>
// OPTIONS-NEXT:   %15 = tg.mul %13, %14 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %16 = tg.add %12, %15 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %17 = tg.sqrt %16 : tensor<f32>
// OPTIONS-NEXT:   %18 = tg.div %17, %3 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %19 = tg.constant value = dense<1.000000e-03> : tensor<f32>
// OPTIONS-NEXT:   %20 = tg.add %18, %19 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %21 = tg.div %10, %20 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %22 = tg.mul %2, %21 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %23 = tg.sub %a, %22 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   func.return %l, %23, %10, %16 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
// OPTIONS-NEXT: }
// OPTIONS: func.func @loss(%a: tensor<2xf16> {tg.name = "a", tg.role = "parameter"}, %b: tensor<f32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2xf16> {tg.name = "arg2", tg.role = "input"}, %gb: tensor<f32> {tg.name = "arg3", tg.role = "input"}, %0: tensor<2xf32> {tg.name = "adam.m/a", tg.role = "state"}, %1: tensor<f32> {tg.name = "adam.m/b", tg.role = "state"}, %2: tensor<2xf32> {tg.name = "adam.v/a", tg.role = "state"}, %3: tensor<f32> {tg.name = "adam.v/b", tg.role = "state"}, %4: tensor<f32> {tg.name = "adam.step_size", tg.role = "scalar", tg.formula = "learning_rate / (1 - 0.5 ** step)"}, %5: tensor<f32> {tg.name = "adam.root_correction", tg.role = "scalar", tg.formula = "sqrt(1 - 0.75 ** step)"}) -> (tensor<2xf16> {tg.name = "a", tg.role = "update"}, tensor<f32> {tg.name = "b", tg.role = "update"}, tensor<2xf32> {tg.name = "adam.m/a", tg.role = "update"}, tensor<f32> {tg.name = "adam.m/b", tg.role = "update"}, tensor<2xf32> {tg.name = "adam.v/a", tg.role = "update"}, tensor<f32> {tg.name = "adam.v/b", tg.role = "update"}) {
// OPTIONS-NEXT:   %6 = tg.cast %a to = f32 : tensor<2xf16>
// OPTIONS-NEXT:   %7 = tg.cast %ga to = f32 : tensor<2xf16>
// OPTIONS-NEXT:   %8 = tg.constant value = dense<1.000000e+00> : tensor<2xf32>
// OPTIONS-NEXT:   %9 = tg.mul %6, %8 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %10 = tg.add %7, %9 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %11 = tg.sub %10, %0 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %12 = tg.constant value = dense<5.000000e-01> : tensor<2xf32>
// OPTIONS-NEXT:   %13 = tg.mul %11, %12 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %14 = tg.add %0, %13 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %15 = tg.constant value = dense<7.500000e-01> : tensor<2xf32>
// OPTIONS-NEXT:   %16 = tg.mul %2, %15 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %17 = tg.mul %10, %10 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %18 = tg.constant value = dense<2.500000e-01> : tensor<2xf32>
// OPTIONS-NEXT:   %19 = tg.mul %17, %18 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %20 = tg.add %16, %19 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %21 = tg.sqrt %20 : tensor<2xf32>
// OPTIONS-NEXT:   %22 = tg.broadcast %5 shape = [2] dims = [] : tensor<f32>
// OPTIONS-NEXT:   %23 = tg.div %21, %22 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %24 = tg.broadcast %4 shape = [2] dims = [] : tensor<f32>
// OPTIONS-NEXT:   %25 = tg.constant value = dense<1.000000e-03> : tensor<2xf32>
// OPTIONS-NEXT:   %26 = tg.add %23, %25 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %27 = tg.div %14, %26 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %28 = tg.mul %24, %27 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %29 = tg.sub %6, %28 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %30 = tg.cast %29 to = f16 : tensor<2xf32>
// OPTIONS-NEXT:   %31 = tg.constant value = dense<1.000000e+00> : tensor<f32>
// OPTIONS-NEXT:   %32 = tg.mul %b, %31 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %33 = tg.add %gb, %32 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %34 = tg.sub %33, %1 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %35 = tg.constant value = dense<5.000000e-01> : tensor<f32>
// OPTIONS-NEXT:   %36 = tg.mul %34, %35 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %37 = tg.add %1, %36 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %38 = tg.constant value = dense<7.500000e-01> : tensor<f32>
// OPTIONS-NEXT:   %39 = tg.mul %3, %38 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %40 = tg.mul %33, %33 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %41 = tg.constant value = dense<2.500000e-01> : tensor<f32>
// OPTIONS-NEXT:   %42 = tg.mul %40, %41 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %43 = tg.add %39, %42 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %44 = tg.sqrt %43 : tensor<f32>
// OPTIONS-NEXT:   %45 = tg.div %44, %5 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %46 = tg.constant value = dense<1.000000e-03> : tensor<f32>
// OPTIONS-NEXT:   %47 = tg.add %45, %46 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %48 = tg.div %37, %47 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %49 = tg.mul %4, %48 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   %50 = tg.sub %b, %49 : tensor<f32>, tensor<f32>
// OPTIONS-NEXT:   func.return %30, %50, %14, %37, %20, %43 : tensor<2xf16>, tensor<f32>, tensor<2xf32>, tensor<f32>, tensor<2xf32>, tensor<f32>
// OPTIONS-NEXT: }
