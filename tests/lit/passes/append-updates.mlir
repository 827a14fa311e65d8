// RUN: tg-opt %s --split-input-file -p 'trace-optimizer{optimizer="adam"},append-updates{function=loss}' | filecheck %s
// RUN: not tg-opt %s --split-input-file -p 'trace-optimizer{optimizer=adam function=step}' 2>&1 | filecheck %s --check-prefix ROLES
// RUN: not tg-opt %s --split-input-file -p 'append-updates' 2>&1 | filecheck %s --check-prefix EMPTY

// New arguments are grouped by kind: all first moments, all second moments, then scalars. Updates have the same order.
func.func @loss(%a: tensor<f32> {tg.name = "a", tg.role = "parameter"}, %ga: tensor<f32>, %l: tensor<f32>) -> (tensor<f32> {tg.name = "loss", tg.role = "output"}, tensor<f32> {tg.name = "a", tg.role = "gradient"}) {
  func.return %l, %ga : tensor<f32>, tensor<f32>
}

// -----

// Two parameters: the f16 one has f32 state and is updated in f32, then rounded.
func.func @loss(%a: tensor<2xf16> {tg.name = "a", tg.role = "parameter"}, %b: tensor<f32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2xf16>, %gb: tensor<f32>) -> (tensor<2xf16> {tg.name = "a", tg.role = "gradient"}, tensor<f32> {tg.name = "b", tg.role = "gradient"}) {
  func.return %ga, %gb : tensor<2xf16>, tensor<f32>
}

// EMPTY: tg-opt: error: append-updates: @loss: the module has no update functions; run trace-optimizer first

// ROLES: tg-opt: error: trace-optimizer: expected a function @step, the module has loss

// CHECK: func.func @loss(%a: tensor<f32> {tg.name = "a", tg.role = "parameter"}, %ga: tensor<f32> {tg.name = "arg1", tg.role = "input"}, %l: tensor<f32> {tg.name = "arg2", tg.role = "input"}, %0: tensor<f32> {tg.name = "adam.m/a", tg.role = "state"}, %1: tensor<f32> {tg.name = "adam.v/a", tg.role = "state"}, %2: tensor<f32> {tg.name = "1 - beta1", tg.role = "scalar", tg.formula = "1 - beta1"}, %3: tensor<f32> {tg.name = "beta2", tg.role = "scalar", tg.formula = "beta2"}, %4: tensor<f32> {tg.name = "1 - beta2", tg.role = "scalar", tg.formula = "1 - beta2"}, %5: tensor<f32> {tg.name = "sqrt(1 - beta2 ** step)", tg.role = "scalar", tg.formula = "sqrt(1 - beta2 ** step)"}, %6: tensor<f32> {tg.name = "eps", tg.role = "scalar", tg.formula = "eps"}, %7: tensor<f32> {tg.name = "learning_rate / (1 - beta1 ** step)", tg.role = "scalar", tg.formula = "learning_rate / (1 - beta1 ** step)"}) -> (tensor<f32> {tg.name = "loss", tg.role = "output"}, tensor<f32> {tg.name = "a", tg.role = "update"}, tensor<f32> {tg.name = "adam.m/a", tg.role = "update"}, tensor<f32> {tg.name = "adam.v/a", tg.role = "update"}) {
// CHECK-NEXT:   %8 = tg.sub %ga, %0 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %9 = tg.mul %8, %2 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %10 = tg.add %0, %9 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %11 = tg.mul %1, %3 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %12 = tg.mul %ga, %ga : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %13 = tg.mul %12, %4 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %14 = tg.add %11, %13 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %15 = tg.sqrt %14 : tensor<f32>
// CHECK-NEXT:   %16 = tg.div %15, %5 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %17 = tg.add %16, %6 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %18 = tg.div %10, %17 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %19 = tg.mul %7, %18 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %20 = tg.sub %a, %19 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   func.return %l, %20, %10, %14 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
// CHECK-NEXT: }
// CHECK: func.func @loss(%a: tensor<2xf16> {tg.name = "a", tg.role = "parameter"}, %b: tensor<f32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2xf16> {tg.name = "arg2", tg.role = "input"}, %gb: tensor<f32> {tg.name = "arg3", tg.role = "input"}, %0: tensor<2xf32> {tg.name = "adam.m/a", tg.role = "state"}, %1: tensor<f32> {tg.name = "adam.m/b", tg.role = "state"}, %2: tensor<2xf32> {tg.name = "adam.v/a", tg.role = "state"}, %3: tensor<f32> {tg.name = "adam.v/b", tg.role = "state"}, %4: tensor<f32> {tg.name = "1 - beta1", tg.role = "scalar", tg.formula = "1 - beta1"}, %5: tensor<f32> {tg.name = "beta2", tg.role = "scalar", tg.formula = "beta2"}, %6: tensor<f32> {tg.name = "1 - beta2", tg.role = "scalar", tg.formula = "1 - beta2"}, %7: tensor<f32> {tg.name = "sqrt(1 - beta2 ** step)", tg.role = "scalar", tg.formula = "sqrt(1 - beta2 ** step)"}, %8: tensor<f32> {tg.name = "eps", tg.role = "scalar", tg.formula = "eps"}, %9: tensor<f32> {tg.name = "learning_rate / (1 - beta1 ** step)", tg.role = "scalar", tg.formula = "learning_rate / (1 - beta1 ** step)"}) -> (tensor<2xf16> {tg.name = "a", tg.role = "update"}, tensor<f32> {tg.name = "b", tg.role = "update"}, tensor<2xf32> {tg.name = "adam.m/a", tg.role = "update"}, tensor<f32> {tg.name = "adam.m/b", tg.role = "update"}, tensor<2xf32> {tg.name = "adam.v/a", tg.role = "update"}, tensor<f32> {tg.name = "adam.v/b", tg.role = "update"}) {
// CHECK-NEXT:   %10 = tg.cast %a to = f32 : tensor<2xf16>
// CHECK-NEXT:   %11 = tg.cast %ga to = f32 : tensor<2xf16>
// CHECK-NEXT:   %12 = tg.sub %11, %0 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %13 = tg.broadcast %4 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %14 = tg.mul %12, %13 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %15 = tg.add %0, %14 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %16 = tg.broadcast %5 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %17 = tg.mul %2, %16 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %18 = tg.mul %11, %11 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %19 = tg.broadcast %6 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %20 = tg.mul %18, %19 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %21 = tg.add %17, %20 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %22 = tg.sqrt %21 : tensor<2xf32>
// CHECK-NEXT:   %23 = tg.broadcast %7 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %24 = tg.div %22, %23 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %25 = tg.broadcast %8 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %26 = tg.add %24, %25 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %27 = tg.div %15, %26 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %28 = tg.broadcast %9 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %29 = tg.mul %28, %27 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %30 = tg.sub %10, %29 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %31 = tg.cast %30 to = f16 : tensor<2xf32>
// CHECK-NEXT:   %32 = tg.sub %gb, %1 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %33 = tg.mul %32, %4 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %34 = tg.add %1, %33 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %35 = tg.mul %3, %5 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %36 = tg.mul %gb, %gb : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %37 = tg.mul %36, %6 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %38 = tg.add %35, %37 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %39 = tg.sqrt %38 : tensor<f32>
// CHECK-NEXT:   %40 = tg.div %39, %7 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %41 = tg.add %40, %8 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %42 = tg.div %34, %41 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %43 = tg.mul %9, %42 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %44 = tg.sub %b, %43 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   func.return %31, %44, %15, %34, %21, %38 : tensor<2xf16>, tensor<f32>, tensor<2xf32>, tensor<f32>, tensor<2xf32>, tensor<f32>
// CHECK-NEXT: }
