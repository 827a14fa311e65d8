// RUN: tg-opt %s -p 'trace-optimizer{optimizer="adafactor(weight_decay=0.5, decay=\"a\")"}' | filecheck %s
// RUN: not tg-opt %s -p 'trace-optimizer{optimizer="adafactor(beta2_decay=0.5)"}' 2>&1 | filecheck %s --check-prefix DECAY
// RUN: not tg-opt %s -p 'trace-optimizer{optimizer="adafactor(d=0.5)"}' 2>&1 | filecheck %s --check-prefix THRESHOLD

// The second moments of a matrix are factored into those of rows and columns; other parameters keep one per element.
func.func @step(%a: tensor<2x3xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<4xf32> {tg.name = "b", tg.role = "parameter"}, %c: tensor<2x3xf32> {tg.name = "c", tg.role = "parameter"}, %ga: tensor<2x3xf32>, %gb: tensor<4xf32>, %gc: tensor<2x3xf32>) -> (tensor<2x3xf32> {tg.name = "a", tg.role = "gradient"}, tensor<4xf32> {tg.name = "b", tg.role = "gradient"}, tensor<2x3xf32> {tg.name = "c", tg.role = "gradient"}) {
  func.return %ga, %gb, %gc : tensor<2x3xf32>, tensor<4xf32>, tensor<2x3xf32>
}

// THRESHOLD: tg-opt: error: trace-optimizer: adafactor: d must be at least 1, got 0.5

// DECAY: tg-opt: error: trace-optimizer: adafactor: beta2_decay must be at most 0, got 0.5

// CHECK: func.func private @adafactor(%0: tensor<2x3xf32> {tg.name = "gradient", tg.role = "gradient"}, %1: tensor<2x3xf32> {tg.name = "parameter", tg.role = "parameter"}, %2: tensor<2x1xf32> {tg.name = "adafactor.row", tg.role = "state"}, %3: tensor<1x3xf32> {tg.name = "adafactor.column", tg.role = "state"}, %4: tensor<f32> {tg.name = "step ** beta2_decay", tg.role = "scalar", tg.formula = "step ** beta2_decay"}, %5: tensor<f32> {tg.name = "eps2", tg.role = "scalar", tg.formula = "eps2"}, %6: tensor<f32> {tg.name = "min(learning_rate, 1 / sqrt(step))", tg.role = "scalar", tg.formula = "min(learning_rate, 1 / sqrt(step))"}, %7: tensor<f32> {tg.name = "1 - learning_rate * weight_decay", tg.role = "scalar", tg.formula = "1 - learning_rate * weight_decay"}, %8: tensor<f32> {tg.name = "d", tg.role = "scalar", tg.formula = "d"}) -> (tensor<2x3xf32> {tg.name = "parameter", tg.role = "update"}, tensor<2x1xf32> {tg.name = "adafactor.row", tg.role = "update"}, tensor<1x3xf32> {tg.name = "adafactor.column", tg.role = "update"}) attributes {tg.updates = ["a"], tg.stage = 0 : i64} {
// CHECK-NEXT:   %9 = tg.mul %0, %0 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %10 = tg.sum %9 axes = [1] : tensor<2x3xf32>
// CHECK-NEXT:   %11 = tg.reshape %10 shape = [2, 1] : tensor<2xf32>
// CHECK-NEXT:   %12 = tg.constant value = dense<0.333333343> : tensor<2x1xf32>
// CHECK-NEXT:   %13 = tg.mul %11, %12 : tensor<2x1xf32>, tensor<2x1xf32>
// CHECK-NEXT:   %14 = tg.sub %13, %2 : tensor<2x1xf32>, tensor<2x1xf32>
// CHECK-NEXT:   %15 = tg.broadcast %4 shape = [2, 1] dims = [] : tensor<f32>
// CHECK-NEXT:   %16 = tg.mul %14, %15 : tensor<2x1xf32>, tensor<2x1xf32>
// CHECK-NEXT:   %17 = tg.add %2, %16 : tensor<2x1xf32>, tensor<2x1xf32>
// CHECK-NEXT:   %18 = tg.sum %9 axes = [0] : tensor<2x3xf32>
// CHECK-NEXT:   %19 = tg.reshape %18 shape = [1, 3] : tensor<3xf32>
// CHECK-NEXT:   %20 = tg.constant value = dense<5.000000e-01> : tensor<1x3xf32>
// CHECK-NEXT:   %21 = tg.mul %19, %20 : tensor<1x3xf32>, tensor<1x3xf32>
// CHECK-NEXT:   %22 = tg.sub %21, %3 : tensor<1x3xf32>, tensor<1x3xf32>
// CHECK-NEXT:   %23 = tg.broadcast %4 shape = [1, 3] dims = [] : tensor<f32>
// CHECK-NEXT:   %24 = tg.mul %22, %23 : tensor<1x3xf32>, tensor<1x3xf32>
// CHECK-NEXT:   %25 = tg.add %3, %24 : tensor<1x3xf32>, tensor<1x3xf32>
// CHECK-NEXT:   %26 = tg.reshape %17 shape = [2] : tensor<2x1xf32>
// CHECK-NEXT:   %27 = tg.broadcast %26 shape = [2, 3] dims = [0] : tensor<2xf32>
// CHECK-NEXT:   %28 = tg.reshape %25 shape = [3] : tensor<1x3xf32>
// CHECK-NEXT:   %29 = tg.broadcast %28 shape = [2, 3] dims = [1] : tensor<3xf32>
// CHECK-NEXT:   %30 = tg.mul %27, %29 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %31 = tg.sum %17 axes = [0] : tensor<2x1xf32>
// CHECK-NEXT:   %32 = tg.reshape %31 shape = [1, 1] : tensor<1xf32>
// CHECK-NEXT:   %33 = tg.constant value = dense<5.000000e-01> : tensor<1x1xf32>
// CHECK-NEXT:   %34 = tg.mul %32, %33 : tensor<1x1xf32>, tensor<1x1xf32>
// CHECK-NEXT:   %35 = tg.constant value = dense<1.1920929e-07> : tensor<1x1xf32>
// CHECK-NEXT:   %36 = tg.maximum %34, %35 : tensor<1x1xf32>, tensor<1x1xf32>
// CHECK-NEXT:   %37 = tg.reshape %36 shape = [] : tensor<1x1xf32>
// CHECK-NEXT:   %38 = tg.broadcast %37 shape = [2, 3] dims = [] : tensor<f32>
// CHECK-NEXT:   %39 = tg.div %30, %38 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %40 = tg.constant value = dense<1.42108547e-14> : tensor<2x3xf32>
// CHECK-NEXT:   %41 = tg.maximum %39, %40 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %42 = tg.sqrt %41 : tensor<2x3xf32>
// CHECK-NEXT:   %43 = tg.div %0, %42 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %44 = tg.mul %1, %1 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %45 = tg.sum %44 axes = [1] : tensor<2x3xf32>
// CHECK-NEXT:   %46 = tg.sum %45 axes = [0] : tensor<2xf32>
// CHECK-NEXT:   %47 = tg.constant value = dense<0.166666672> : tensor<f32>
// CHECK-NEXT:   %48 = tg.mul %46, %47 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %49 = tg.sqrt %48 : tensor<f32>
// CHECK-NEXT:   %50 = tg.maximum %49, %5 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %51 = tg.mul %6, %50 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %52 = tg.broadcast %7 shape = [2, 3] dims = [] : tensor<f32>
// CHECK-NEXT:   %53 = tg.mul %1, %52 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %54 = tg.mul %43, %43 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %55 = tg.sum %54 axes = [1] : tensor<2x3xf32>
// CHECK-NEXT:   %56 = tg.sum %55 axes = [0] : tensor<2xf32>
// CHECK-NEXT:   %57 = tg.constant value = dense<0.166666672> : tensor<f32>
// CHECK-NEXT:   %58 = tg.mul %56, %57 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %59 = tg.sqrt %58 : tensor<f32>
// CHECK-NEXT:   %60 = tg.div %59, %8 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %61 = tg.constant value = dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT:   %62 = tg.maximum %60, %61 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %63 = tg.div %51, %62 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %64 = tg.broadcast %63 shape = [2, 3] dims = [] : tensor<f32>
// CHECK-NEXT:   %65 = tg.mul %43, %64 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %66 = tg.sub %53, %65 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   func.return %66, %17, %25 : tensor<2x3xf32>, tensor<2x1xf32>, tensor<1x3xf32>
// CHECK-NEXT: }
// CHECK: func.func private @adafactor_1(%0: tensor<4xf32> {tg.name = "gradient", tg.role = "gradient"}, %1: tensor<4xf32> {tg.name = "parameter", tg.role = "parameter"}, %2: tensor<4xf32> {tg.name = "adafactor.v", tg.role = "state"}, %3: tensor<f32> {tg.name = "step ** beta2_decay", tg.role = "scalar", tg.formula = "step ** beta2_decay"}, %4: tensor<f32> {tg.name = "eps2", tg.role = "scalar", tg.formula = "eps2"}, %5: tensor<f32> {tg.name = "min(learning_rate, 1 / sqrt(step))", tg.role = "scalar", tg.formula = "min(learning_rate, 1 / sqrt(step))"}, %6: tensor<f32> {tg.name = "d", tg.role = "scalar", tg.formula = "d"}) -> (tensor<4xf32> {tg.name = "parameter", tg.role = "update"}, tensor<4xf32> {tg.name = "adafactor.v", tg.role = "update"}) attributes {tg.updates = ["b"], tg.stage = 0 : i64} {
// CHECK-NEXT:   %7 = tg.mul %0, %0 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %8 = tg.sub %7, %2 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %9 = tg.broadcast %3 shape = [4] dims = [] : tensor<f32>
// CHECK-NEXT:   %10 = tg.mul %8, %9 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %11 = tg.add %2, %10 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %12 = tg.constant value = dense<1.42108547e-14> : tensor<4xf32>
// CHECK-NEXT:   %13 = tg.maximum %11, %12 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %14 = tg.sqrt %13 : tensor<4xf32>
// CHECK-NEXT:   %15 = tg.div %0, %14 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %16 = tg.mul %1, %1 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %17 = tg.sum %16 axes = [0] : tensor<4xf32>
// CHECK-NEXT:   %18 = tg.constant value = dense<2.500000e-01> : tensor<f32>
// CHECK-NEXT:   %19 = tg.mul %17, %18 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %20 = tg.sqrt %19 : tensor<f32>
// CHECK-NEXT:   %21 = tg.maximum %20, %4 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %22 = tg.mul %5, %21 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %23 = tg.mul %15, %15 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %24 = tg.sum %23 axes = [0] : tensor<4xf32>
// CHECK-NEXT:   %25 = tg.constant value = dense<2.500000e-01> : tensor<f32>
// CHECK-NEXT:   %26 = tg.mul %24, %25 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %27 = tg.sqrt %26 : tensor<f32>
// CHECK-NEXT:   %28 = tg.div %27, %6 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %29 = tg.constant value = dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT:   %30 = tg.maximum %28, %29 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %31 = tg.div %22, %30 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %32 = tg.broadcast %31 shape = [4] dims = [] : tensor<f32>
// CHECK-NEXT:   %33 = tg.mul %15, %32 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %34 = tg.sub %1, %33 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   func.return %34, %11 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT: }
// CHECK: func.func private @adafactor_2(%0: tensor<2x3xf32> {tg.name = "gradient", tg.role = "gradient"}, %1: tensor<2x3xf32> {tg.name = "parameter", tg.role = "parameter"}, %2: tensor<2x1xf32> {tg.name = "adafactor.row", tg.role = "state"}, %3: tensor<1x3xf32> {tg.name = "adafactor.column", tg.role = "state"}, %4: tensor<f32> {tg.name = "step ** beta2_decay", tg.role = "scalar", tg.formula = "step ** beta2_decay"}, %5: tensor<f32> {tg.name = "eps2", tg.role = "scalar", tg.formula = "eps2"}, %6: tensor<f32> {tg.name = "min(learning_rate, 1 / sqrt(step))", tg.role = "scalar", tg.formula = "min(learning_rate, 1 / sqrt(step))"}, %7: tensor<f32> {tg.name = "d", tg.role = "scalar", tg.formula = "d"}) -> (tensor<2x3xf32> {tg.name = "parameter", tg.role = "update"}, tensor<2x1xf32> {tg.name = "adafactor.row", tg.role = "update"}, tensor<1x3xf32> {tg.name = "adafactor.column", tg.role = "update"}) attributes {tg.updates = ["c"], tg.stage = 0 : i64} {
// CHECK-NEXT:   %8 = tg.mul %0, %0 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %9 = tg.sum %8 axes = [1] : tensor<2x3xf32>
// CHECK-NEXT:   %10 = tg.reshape %9 shape = [2, 1] : tensor<2xf32>
// CHECK-NEXT:   %11 = tg.constant value = dense<0.333333343> : tensor<2x1xf32>
// CHECK-NEXT:   %12 = tg.mul %10, %11 : tensor<2x1xf32>, tensor<2x1xf32>
// CHECK-NEXT:   %13 = tg.sub %12, %2 : tensor<2x1xf32>, tensor<2x1xf32>
// CHECK-NEXT:   %14 = tg.broadcast %4 shape = [2, 1] dims = [] : tensor<f32>
// CHECK-NEXT:   %15 = tg.mul %13, %14 : tensor<2x1xf32>, tensor<2x1xf32>
// CHECK-NEXT:   %16 = tg.add %2, %15 : tensor<2x1xf32>, tensor<2x1xf32>
// CHECK-NEXT:   %17 = tg.sum %8 axes = [0] : tensor<2x3xf32>
// CHECK-NEXT:   %18 = tg.reshape %17 shape = [1, 3] : tensor<3xf32>
// CHECK-NEXT:   %19 = tg.constant value = dense<5.000000e-01> : tensor<1x3xf32>
// CHECK-NEXT:   %20 = tg.mul %18, %19 : tensor<1x3xf32>, tensor<1x3xf32>
// CHECK-NEXT:   %21 = tg.sub %20, %3 : tensor<1x3xf32>, tensor<1x3xf32>
// CHECK-NEXT:   %22 = tg.broadcast %4 shape = [1, 3] dims = [] : tensor<f32>
// CHECK-NEXT:   %23 = tg.mul %21, %22 : tensor<1x3xf32>, tensor<1x3xf32>
// CHECK-NEXT:   %24 = tg.add %3, %23 : tensor<1x3xf32>, tensor<1x3xf32>
// CHECK-NEXT:   %25 = tg.reshape %16 shape = [2] : tensor<2x1xf32>
// CHECK-NEXT:   %26 = tg.broadcast %25 shape = [2, 3] dims = [0] : tensor<2xf32>
// CHECK-NEXT:   %27 = tg.reshape %24 shape = [3] : tensor<1x3xf32>
// CHECK-NEXT:   %28 = tg.broadcast %27 shape = [2, 3] dims = [1] : tensor<3xf32>
// CHECK-NEXT:   %29 = tg.mul %26, %28 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %30 = tg.sum %16 axes = [0] : tensor<2x1xf32>
// CHECK-NEXT:   %31 = tg.reshape %30 shape = [1, 1] : tensor<1xf32>
// CHECK-NEXT:   %32 = tg.constant value = dense<5.000000e-01> : tensor<1x1xf32>
// CHECK-NEXT:   %33 = tg.mul %31, %32 : tensor<1x1xf32>, tensor<1x1xf32>
// CHECK-NEXT:   %34 = tg.constant value = dense<1.1920929e-07> : tensor<1x1xf32>
// CHECK-NEXT:   %35 = tg.maximum %33, %34 : tensor<1x1xf32>, tensor<1x1xf32>
// CHECK-NEXT:   %36 = tg.reshape %35 shape = [] : tensor<1x1xf32>
// CHECK-NEXT:   %37 = tg.broadcast %36 shape = [2, 3] dims = [] : tensor<f32>
// CHECK-NEXT:   %38 = tg.div %29, %37 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %39 = tg.constant value = dense<1.42108547e-14> : tensor<2x3xf32>
// CHECK-NEXT:   %40 = tg.maximum %38, %39 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %41 = tg.sqrt %40 : tensor<2x3xf32>
// CHECK-NEXT:   %42 = tg.div %0, %41 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %43 = tg.mul %1, %1 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %44 = tg.sum %43 axes = [1] : tensor<2x3xf32>
// CHECK-NEXT:   %45 = tg.sum %44 axes = [0] : tensor<2xf32>
// CHECK-NEXT:   %46 = tg.constant value = dense<0.166666672> : tensor<f32>
// CHECK-NEXT:   %47 = tg.mul %45, %46 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %48 = tg.sqrt %47 : tensor<f32>
// CHECK-NEXT:   %49 = tg.maximum %48, %5 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %50 = tg.mul %6, %49 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %51 = tg.mul %42, %42 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %52 = tg.sum %51 axes = [1] : tensor<2x3xf32>
// CHECK-NEXT:   %53 = tg.sum %52 axes = [0] : tensor<2xf32>
// CHECK-NEXT:   %54 = tg.constant value = dense<0.166666672> : tensor<f32>
// CHECK-NEXT:   %55 = tg.mul %53, %54 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %56 = tg.sqrt %55 : tensor<f32>
// CHECK-NEXT:   %57 = tg.div %56, %7 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %58 = tg.constant value = dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT:   %59 = tg.maximum %57, %58 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %60 = tg.div %50, %59 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %61 = tg.broadcast %60 shape = [2, 3] dims = [] : tensor<f32>
// CHECK-NEXT:   %62 = tg.mul %42, %61 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %63 = tg.sub %1, %62 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   func.return %63, %16, %24 : tensor<2x3xf32>, tensor<2x1xf32>, tensor<1x3xf32>
// CHECK-NEXT: }
