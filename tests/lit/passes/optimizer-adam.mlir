// RUN: tg-opt %s -p 'trace-optimizer{optimizer="adam(1e-3)"}' | filecheck %s
// RUN: tg-opt %s -p 'trace-optimizer{optimizer="adam(1e-3, betas=(0.5, 0.75), eps=1e-3, weight_decay=1)"}' | filecheck %s --check-prefix OPTIONS
// RUN: tg-opt %s -p 'trace-optimizer{optimizer="adamw"}' | filecheck %s --check-prefix W
// RUN: tg-opt %s -p 'trace-optimizer{optimizer="adamw(1e-3, decay=[\"a\"])"}' | filecheck %s --check-prefix MASK
// RUN: not tg-opt %s -p 'trace-optimizer{optimizer="adam(1e-3, betas=(0.9, 1))"}' 2>&1 | filecheck %s --check-prefix ERROR

func.func @loss(%a: tensor<2xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<f32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2xf32>, %gb: tensor<f32>) -> (tensor<2xf32> {tg.name = "a", tg.role = "gradient"}, tensor<f32> {tg.name = "b", tg.role = "gradient"}) {
  func.return %ga, %gb : tensor<2xf32>, tensor<f32>
}

// ERROR: tg-opt: error: trace-optimizer: adam: betas[1] must be a number from 0 to below 1, got 1

// CHECK: func.func private @adam(%0: tensor<2xf32> {tg.name = "gradient", tg.role = "gradient"}, %1: tensor<2xf32> {tg.name = "parameter", tg.role = "parameter"}, %2: tensor<2xf32> {tg.name = "adam.m", tg.role = "state"}, %3: tensor<2xf32> {tg.name = "adam.v", tg.role = "state"}, %4: tensor<f32> {tg.name = "1 - beta1", tg.role = "scalar", tg.formula = "1 - beta1"}, %5: tensor<f32> {tg.name = "beta2", tg.role = "scalar", tg.formula = "beta2"}, %6: tensor<f32> {tg.name = "1 - beta2", tg.role = "scalar", tg.formula = "1 - beta2"}, %7: tensor<f32> {tg.name = "sqrt(1 - beta2 ** step)", tg.role = "scalar", tg.formula = "sqrt(1 - beta2 ** step)"}, %8: tensor<f32> {tg.name = "eps", tg.role = "scalar", tg.formula = "eps"}, %9: tensor<f32> {tg.name = "learning_rate / (1 - beta1 ** step)", tg.role = "scalar", tg.formula = "learning_rate / (1 - beta1 ** step)"}) -> (tensor<2xf32> {tg.name = "parameter", tg.role = "update"}, tensor<2xf32> {tg.name = "adam.m", tg.role = "update"}, tensor<2xf32> {tg.name = "adam.v", tg.role = "update"}) attributes {tg.updates = ["a", "b"], tg.stage = 0 : i64} {
// CHECK-NEXT:   %10 = tg.sub %0, %2 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %11 = tg.broadcast %4 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %12 = tg.mul %10, %11 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %13 = tg.add %2, %12 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %14 = tg.broadcast %5 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %15 = tg.mul %3, %14 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %16 = tg.mul %0, %0 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %17 = tg.broadcast %6 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %18 = tg.mul %16, %17 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %19 = tg.add %15, %18 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %20 = tg.sqrt %19 : tensor<2xf32>
// CHECK-NEXT:   %21 = tg.broadcast %7 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %22 = tg.div %20, %21 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %23 = tg.broadcast %8 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %24 = tg.add %22, %23 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %25 = tg.div %13, %24 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %26 = tg.broadcast %9 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %27 = tg.mul %26, %25 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %28 = tg.sub %1, %27 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   func.return %28, %13, %19 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT: }

// OPTIONS: func.func private @adam(%0: tensor<2xf32> {tg.name = "gradient", tg.role = "gradient"}, %1: tensor<2xf32> {tg.name = "parameter", tg.role = "parameter"}, %2: tensor<2xf32> {tg.name = "adam.m", tg.role = "state"}, %3: tensor<2xf32> {tg.name = "adam.v", tg.role = "state"}, %4: tensor<f32> {tg.name = "weight_decay", tg.role = "scalar", tg.formula = "weight_decay"}, %5: tensor<f32> {tg.name = "1 - beta1", tg.role = "scalar", tg.formula = "1 - beta1"}, %6: tensor<f32> {tg.name = "beta2", tg.role = "scalar", tg.formula = "beta2"}, %7: tensor<f32> {tg.name = "1 - beta2", tg.role = "scalar", tg.formula = "1 - beta2"}, %8: tensor<f32> {tg.name = "sqrt(1 - beta2 ** step)", tg.role = "scalar", tg.formula = "sqrt(1 - beta2 ** step)"}, %9: tensor<f32> {tg.name = "eps", tg.role = "scalar", tg.formula = "eps"}, %10: tensor<f32> {tg.name = "learning_rate / (1 - beta1 ** step)", tg.role = "scalar", tg.formula = "learning_rate / (1 - beta1 ** step)"}) -> (tensor<2xf32> {tg.name = "parameter", tg.role = "update"}, tensor<2xf32> {tg.name = "adam.m", tg.role = "update"}, tensor<2xf32> {tg.name = "adam.v", tg.role = "update"}) attributes {tg.updates = ["a", "b"], tg.stage = 0 : i64} {
// OPTIONS-NEXT:   %11 = tg.broadcast %4 shape = [2] dims = [] : tensor<f32>
// OPTIONS-NEXT:   %12 = tg.mul %1, %11 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %13 = tg.add %0, %12 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %14 = tg.sub %13, %2 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %15 = tg.broadcast %5 shape = [2] dims = [] : tensor<f32>
// OPTIONS-NEXT:   %16 = tg.mul %14, %15 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %17 = tg.add %2, %16 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %18 = tg.broadcast %6 shape = [2] dims = [] : tensor<f32>
// OPTIONS-NEXT:   %19 = tg.mul %3, %18 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %20 = tg.mul %13, %13 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %21 = tg.broadcast %7 shape = [2] dims = [] : tensor<f32>
// OPTIONS-NEXT:   %22 = tg.mul %20, %21 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %23 = tg.add %19, %22 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %24 = tg.sqrt %23 : tensor<2xf32>
// OPTIONS-NEXT:   %25 = tg.broadcast %8 shape = [2] dims = [] : tensor<f32>
// OPTIONS-NEXT:   %26 = tg.div %24, %25 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %27 = tg.broadcast %9 shape = [2] dims = [] : tensor<f32>
// OPTIONS-NEXT:   %28 = tg.add %26, %27 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %29 = tg.div %17, %28 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %30 = tg.broadcast %10 shape = [2] dims = [] : tensor<f32>
// OPTIONS-NEXT:   %31 = tg.mul %30, %29 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   %32 = tg.sub %1, %31 : tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT:   func.return %32, %17, %23 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
// OPTIONS-NEXT: }

// W: func.func private @adam(%0: tensor<2xf32> {tg.name = "gradient", tg.role = "gradient"}, %1: tensor<2xf32> {tg.name = "parameter", tg.role = "parameter"}, %2: tensor<2xf32> {tg.name = "adam.m", tg.role = "state"}, %3: tensor<2xf32> {tg.name = "adam.v", tg.role = "state"}, %4: tensor<f32> {tg.name = "1 - beta1", tg.role = "scalar", tg.formula = "1 - beta1"}, %5: tensor<f32> {tg.name = "beta2", tg.role = "scalar", tg.formula = "beta2"}, %6: tensor<f32> {tg.name = "1 - beta2", tg.role = "scalar", tg.formula = "1 - beta2"}, %7: tensor<f32> {tg.name = "sqrt(1 - beta2 ** step)", tg.role = "scalar", tg.formula = "sqrt(1 - beta2 ** step)"}, %8: tensor<f32> {tg.name = "eps", tg.role = "scalar", tg.formula = "eps"}, %9: tensor<f32> {tg.name = "learning_rate / (1 - beta1 ** step)", tg.role = "scalar", tg.formula = "learning_rate / (1 - beta1 ** step)"}, %10: tensor<f32> {tg.name = "1 - learning_rate * weight_decay", tg.role = "scalar", tg.formula = "1 - learning_rate * weight_decay"}) -> (tensor<2xf32> {tg.name = "parameter", tg.role = "update"}, tensor<2xf32> {tg.name = "adam.m", tg.role = "update"}, tensor<2xf32> {tg.name = "adam.v", tg.role = "update"}) attributes {tg.updates = ["a", "b"], tg.stage = 0 : i64} {
// W-NEXT:   %11 = tg.sub %0, %2 : tensor<2xf32>, tensor<2xf32>
// W-NEXT:   %12 = tg.broadcast %4 shape = [2] dims = [] : tensor<f32>
// W-NEXT:   %13 = tg.mul %11, %12 : tensor<2xf32>, tensor<2xf32>
// W-NEXT:   %14 = tg.add %2, %13 : tensor<2xf32>, tensor<2xf32>
// W-NEXT:   %15 = tg.broadcast %5 shape = [2] dims = [] : tensor<f32>
// W-NEXT:   %16 = tg.mul %3, %15 : tensor<2xf32>, tensor<2xf32>
// W-NEXT:   %17 = tg.mul %0, %0 : tensor<2xf32>, tensor<2xf32>
// W-NEXT:   %18 = tg.broadcast %6 shape = [2] dims = [] : tensor<f32>
// W-NEXT:   %19 = tg.mul %17, %18 : tensor<2xf32>, tensor<2xf32>
// W-NEXT:   %20 = tg.add %16, %19 : tensor<2xf32>, tensor<2xf32>
// W-NEXT:   %21 = tg.sqrt %20 : tensor<2xf32>
// W-NEXT:   %22 = tg.broadcast %7 shape = [2] dims = [] : tensor<f32>
// W-NEXT:   %23 = tg.div %21, %22 : tensor<2xf32>, tensor<2xf32>
// W-NEXT:   %24 = tg.broadcast %8 shape = [2] dims = [] : tensor<f32>
// W-NEXT:   %25 = tg.add %23, %24 : tensor<2xf32>, tensor<2xf32>
// W-NEXT:   %26 = tg.div %14, %25 : tensor<2xf32>, tensor<2xf32>
// W-NEXT:   %27 = tg.broadcast %9 shape = [2] dims = [] : tensor<f32>
// W-NEXT:   %28 = tg.mul %27, %26 : tensor<2xf32>, tensor<2xf32>
// W-NEXT:   %29 = tg.broadcast %10 shape = [2] dims = [] : tensor<f32>
// W-NEXT:   %30 = tg.mul %1, %29 : tensor<2xf32>, tensor<2xf32>
// W-NEXT:   %31 = tg.sub %30, %28 : tensor<2xf32>, tensor<2xf32>
// W-NEXT:   func.return %31, %14, %20 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
// W-NEXT: }

// MASK: func.func private @adam(%0: tensor<2xf32> {tg.name = "gradient", tg.role = "gradient"}, %1: tensor<2xf32> {tg.name = "parameter", tg.role = "parameter"}, %2: tensor<2xf32> {tg.name = "adam.m", tg.role = "state"}, %3: tensor<2xf32> {tg.name = "adam.v", tg.role = "state"}, %4: tensor<f32> {tg.name = "1 - beta1", tg.role = "scalar", tg.formula = "1 - beta1"}, %5: tensor<f32> {tg.name = "beta2", tg.role = "scalar", tg.formula = "beta2"}, %6: tensor<f32> {tg.name = "1 - beta2", tg.role = "scalar", tg.formula = "1 - beta2"}, %7: tensor<f32> {tg.name = "sqrt(1 - beta2 ** step)", tg.role = "scalar", tg.formula = "sqrt(1 - beta2 ** step)"}, %8: tensor<f32> {tg.name = "eps", tg.role = "scalar", tg.formula = "eps"}, %9: tensor<f32> {tg.name = "learning_rate / (1 - beta1 ** step)", tg.role = "scalar", tg.formula = "learning_rate / (1 - beta1 ** step)"}, %10: tensor<f32> {tg.name = "1 - learning_rate * weight_decay", tg.role = "scalar", tg.formula = "1 - learning_rate * weight_decay"}) -> (tensor<2xf32> {tg.name = "parameter", tg.role = "update"}, tensor<2xf32> {tg.name = "adam.m", tg.role = "update"}, tensor<2xf32> {tg.name = "adam.v", tg.role = "update"}) attributes {tg.updates = ["a"], tg.stage = 0 : i64} {
// MASK-NEXT:   %11 = tg.sub %0, %2 : tensor<2xf32>, tensor<2xf32>
// MASK-NEXT:   %12 = tg.broadcast %4 shape = [2] dims = [] : tensor<f32>
// MASK-NEXT:   %13 = tg.mul %11, %12 : tensor<2xf32>, tensor<2xf32>
// MASK-NEXT:   %14 = tg.add %2, %13 : tensor<2xf32>, tensor<2xf32>
// MASK-NEXT:   %15 = tg.broadcast %5 shape = [2] dims = [] : tensor<f32>
// MASK-NEXT:   %16 = tg.mul %3, %15 : tensor<2xf32>, tensor<2xf32>
// MASK-NEXT:   %17 = tg.mul %0, %0 : tensor<2xf32>, tensor<2xf32>
// MASK-NEXT:   %18 = tg.broadcast %6 shape = [2] dims = [] : tensor<f32>
// MASK-NEXT:   %19 = tg.mul %17, %18 : tensor<2xf32>, tensor<2xf32>
// MASK-NEXT:   %20 = tg.add %16, %19 : tensor<2xf32>, tensor<2xf32>
// MASK-NEXT:   %21 = tg.sqrt %20 : tensor<2xf32>
// MASK-NEXT:   %22 = tg.broadcast %7 shape = [2] dims = [] : tensor<f32>
// MASK-NEXT:   %23 = tg.div %21, %22 : tensor<2xf32>, tensor<2xf32>
// MASK-NEXT:   %24 = tg.broadcast %8 shape = [2] dims = [] : tensor<f32>
// MASK-NEXT:   %25 = tg.add %23, %24 : tensor<2xf32>, tensor<2xf32>
// MASK-NEXT:   %26 = tg.div %14, %25 : tensor<2xf32>, tensor<2xf32>
// MASK-NEXT:   %27 = tg.broadcast %9 shape = [2] dims = [] : tensor<f32>
// MASK-NEXT:   %28 = tg.mul %27, %26 : tensor<2xf32>, tensor<2xf32>
// MASK-NEXT:   %29 = tg.broadcast %10 shape = [2] dims = [] : tensor<f32>
// MASK-NEXT:   %30 = tg.mul %1, %29 : tensor<2xf32>, tensor<2xf32>
// MASK-NEXT:   %31 = tg.sub %30, %28 : tensor<2xf32>, tensor<2xf32>
// MASK-NEXT:   func.return %31, %14, %20 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
// MASK-NEXT: }
// MASK: func.func private @adam_1(%0: tensor<f32> {tg.name = "gradient", tg.role = "gradient"}, %1: tensor<f32> {tg.name = "parameter", tg.role = "parameter"}, %2: tensor<f32> {tg.name = "adam.m", tg.role = "state"}, %3: tensor<f32> {tg.name = "adam.v", tg.role = "state"}, %4: tensor<f32> {tg.name = "1 - beta1", tg.role = "scalar", tg.formula = "1 - beta1"}, %5: tensor<f32> {tg.name = "beta2", tg.role = "scalar", tg.formula = "beta2"}, %6: tensor<f32> {tg.name = "1 - beta2", tg.role = "scalar", tg.formula = "1 - beta2"}, %7: tensor<f32> {tg.name = "sqrt(1 - beta2 ** step)", tg.role = "scalar", tg.formula = "sqrt(1 - beta2 ** step)"}, %8: tensor<f32> {tg.name = "eps", tg.role = "scalar", tg.formula = "eps"}, %9: tensor<f32> {tg.name = "learning_rate / (1 - beta1 ** step)", tg.role = "scalar", tg.formula = "learning_rate / (1 - beta1 ** step)"}) -> (tensor<f32> {tg.name = "parameter", tg.role = "update"}, tensor<f32> {tg.name = "adam.m", tg.role = "update"}, tensor<f32> {tg.name = "adam.v", tg.role = "update"}) attributes {tg.updates = ["b"], tg.stage = 0 : i64} {
// MASK-NEXT:   %10 = tg.sub %0, %2 : tensor<f32>, tensor<f32>
// MASK-NEXT:   %11 = tg.mul %10, %4 : tensor<f32>, tensor<f32>
// MASK-NEXT:   %12 = tg.add %2, %11 : tensor<f32>, tensor<f32>
// MASK-NEXT:   %13 = tg.mul %3, %5 : tensor<f32>, tensor<f32>
// MASK-NEXT:   %14 = tg.mul %0, %0 : tensor<f32>, tensor<f32>
// MASK-NEXT:   %15 = tg.mul %14, %6 : tensor<f32>, tensor<f32>
// MASK-NEXT:   %16 = tg.add %13, %15 : tensor<f32>, tensor<f32>
// MASK-NEXT:   %17 = tg.sqrt %16 : tensor<f32>
// MASK-NEXT:   %18 = tg.div %17, %7 : tensor<f32>, tensor<f32>
// MASK-NEXT:   %19 = tg.add %18, %8 : tensor<f32>, tensor<f32>
// MASK-NEXT:   %20 = tg.div %12, %19 : tensor<f32>, tensor<f32>
// MASK-NEXT:   %21 = tg.mul %9, %20 : tensor<f32>, tensor<f32>
// MASK-NEXT:   %22 = tg.sub %1, %21 : tensor<f32>, tensor<f32>
// MASK-NEXT:   func.return %22, %12, %16 : tensor<f32>, tensor<f32>, tensor<f32>
// MASK-NEXT: }
