// RUN: tg-opt %s -p 'append-adafactor{weight-decay=0.5 decay="a"},simplify' | filecheck %s
// RUN: tg-opt %s -p 'append-adafactor{eps1=1e-3 clip-norm=1}' | filecheck %s --check-prefix CLIPPED
// RUN: not tg-opt %s -p 'append-adafactor{beta2-decay=0.5}' 2>&1 | filecheck %s --check-prefix DECAY
// RUN: not tg-opt %s -p 'append-adafactor{d=0.5}' 2>&1 | filecheck %s --check-prefix THRESHOLD

// A matrix has state of a row and of a column, others of their own shape.
func.func @step(%a: tensor<2x3xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<4xf32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2x3xf32>, %gb: tensor<4xf32>) -> (tensor<2x3xf32> {tg.name = "a", tg.role = "gradient"}, tensor<4xf32> {tg.name = "b", tg.role = "gradient"}) {
  func.return %ga, %gb : tensor<2x3xf32>, tensor<4xf32>
}

// DECAY: tg-opt: error: append-adafactor: beta2_decay must be at most 0 and finite, got 0.5
// THRESHOLD: tg-opt: error: append-adafactor: d must be at least 1, got 0.5

// CHECK: func.func @step(%a: tensor<2x3xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<4xf32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2x3xf32> {tg.name = "arg2", tg.role = "input"}, %gb: tensor<4xf32> {tg.name = "arg3", tg.role = "input"}, %0: tensor<2x1xf32> {tg.name = "adafactor.row/a", tg.role = "state"}, %1: tensor<1x3xf32> {tg.name = "adafactor.column/a", tg.role = "state"}, %2: tensor<4xf32> {tg.name = "adafactor.v/b", tg.role = "state"}, %3: tensor<f32> {tg.name = "adafactor.new", tg.role = "scalar", tg.formula = "step ** -0.8"}, %4: tensor<f32> {tg.name = "adafactor.rate", tg.role = "scalar", tg.formula = "min(learning_rate, 1 / sqrt(step))"}, %5: tensor<f32> {tg.name = "adafactor.kept", tg.role = "scalar", tg.formula = "1 - learning_rate * 0.5"}) -> (tensor<2x3xf32> {tg.name = "a", tg.role = "update"}, tensor<4xf32> {tg.name = "b", tg.role = "update"}, tensor<2x1xf32> {tg.name = "adafactor.row/a", tg.role = "update"}, tensor<1x3xf32> {tg.name = "adafactor.column/a", tg.role = "update"}, tensor<4xf32> {tg.name = "adafactor.v/b", tg.role = "update"}) {
// CHECK-NEXT:   %6 = tg.mul %ga, %ga : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %7 = tg.sum %6 axes = [1] : tensor<2x3xf32>
// CHECK-NEXT:   %8 = tg.constant value = dense<0.333333343> : tensor<2xf32>
// CHECK-NEXT:   %9 = tg.mul %7, %8 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %10 = tg.reshape %9 shape = [2, 1] : tensor<2xf32>
// CHECK-NEXT:   %11 = tg.sum %6 axes = [0] : tensor<2x3xf32>
// CHECK-NEXT:   %12 = tg.constant value = dense<5.000000e-01> : tensor<3xf32>
// CHECK-NEXT:   %13 = tg.mul %11, %12 : tensor<3xf32>, tensor<3xf32>
// CHECK-NEXT:   %14 = tg.reshape %13 shape = [1, 3] : tensor<3xf32>
// CHECK-NEXT:   %15 = tg.broadcast %3 shape = [2, 1] dims = [] : tensor<f32>
// CHECK-NEXT:   %16 = tg.sub %10, %0 : tensor<2x1xf32>, tensor<2x1xf32>
// CHECK-NEXT:   %17 = tg.mul %16, %15 : tensor<2x1xf32>, tensor<2x1xf32>
// CHECK-NEXT:   %18 = tg.add %0, %17 : tensor<2x1xf32>, tensor<2x1xf32>
// CHECK-NEXT:   %19 = tg.broadcast %3 shape = [1, 3] dims = [] : tensor<f32>
// CHECK-NEXT:   %20 = tg.sub %14, %1 : tensor<1x3xf32>, tensor<1x3xf32>
// CHECK-NEXT:   %21 = tg.mul %20, %19 : tensor<1x3xf32>, tensor<1x3xf32>
// CHECK-NEXT:   %22 = tg.add %1, %21 : tensor<1x3xf32>, tensor<1x3xf32>
// CHECK-NEXT:   %23 = tg.reshape %18 shape = [2] : tensor<2x1xf32>
// CHECK-NEXT:   %24 = tg.broadcast %23 shape = [2, 3] dims = [0] : tensor<2xf32>
// CHECK-NEXT:   %25 = tg.reshape %22 shape = [3] : tensor<1x3xf32>
// CHECK-NEXT:   %26 = tg.broadcast %25 shape = [2, 3] dims = [1] : tensor<3xf32>
// CHECK-NEXT:   %27 = tg.mul %24, %26 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %28 = tg.sum %18 axes = [0] : tensor<2x1xf32>
// CHECK-NEXT:   %29 = tg.constant value = dense<5.000000e-01> : tensor<1xf32>
// CHECK-NEXT:   %30 = tg.mul %28, %29 : tensor<1xf32>, tensor<1xf32>
// CHECK-NEXT:   %31 = tg.reshape %30 shape = [1, 1] : tensor<1xf32>
// CHECK-NEXT:   %32 = tg.constant value = dense<1.1920929e-07> : tensor<1x1xf32>
// CHECK-NEXT:   %33 = tg.maximum %31, %32 : tensor<1x1xf32>, tensor<1x1xf32>
// CHECK-NEXT:   %34 = tg.reshape %33 shape = [] : tensor<1x1xf32>
// CHECK-NEXT:   %35 = tg.broadcast %34 shape = [2, 3] dims = [] : tensor<f32>
// CHECK-NEXT:   %36 = tg.div %27, %35 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %37 = tg.constant value = dense<1.42108547e-14> : tensor<2x3xf32>
// CHECK-NEXT:   %38 = tg.maximum %36, %37 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %39 = tg.sqrt %38 : tensor<2x3xf32>
// CHECK-NEXT:   %40 = tg.div %ga, %39 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %41 = tg.mul %a, %a : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %42 = tg.sum %41 axes = [1] : tensor<2x3xf32>
// CHECK-NEXT:   %43 = tg.sum %42 axes = [0] : tensor<2xf32>
// CHECK-NEXT:   %44 = tg.constant value = dense<0.166666672> : tensor<f32>
// CHECK-NEXT:   %45 = tg.mul %43, %44 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %46 = tg.sqrt %45 : tensor<f32>
// CHECK-NEXT:   %47 = tg.constant value = dense<1.000000e-03> : tensor<f32>
// CHECK-NEXT:   %48 = tg.maximum %46, %47 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %49 = tg.mul %4, %48 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %50 = tg.mul %40, %40 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %51 = tg.sum %50 axes = [1] : tensor<2x3xf32>
// CHECK-NEXT:   %52 = tg.sum %51 axes = [0] : tensor<2xf32>
// CHECK-NEXT:   %53 = tg.mul %52, %44 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %54 = tg.sqrt %53 : tensor<f32>
// CHECK-NEXT:   %55 = tg.constant value = dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT:   %56 = tg.maximum %54, %55 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %57 = tg.div %49, %56 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %58 = tg.broadcast %57 shape = [2, 3] dims = [] : tensor<f32>
// CHECK-NEXT:   %59 = tg.mul %40, %58 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %60 = tg.broadcast %5 shape = [2, 3] dims = [] : tensor<f32>
// CHECK-NEXT:   %61 = tg.mul %a, %60 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %62 = tg.sub %61, %59 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %63 = tg.mul %gb, %gb : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %64 = tg.broadcast %3 shape = [4] dims = [] : tensor<f32>
// CHECK-NEXT:   %65 = tg.sub %63, %2 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %66 = tg.mul %65, %64 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %67 = tg.add %2, %66 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %68 = tg.constant value = dense<1.42108547e-14> : tensor<4xf32>
// CHECK-NEXT:   %69 = tg.maximum %67, %68 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %70 = tg.sqrt %69 : tensor<4xf32>
// CHECK-NEXT:   %71 = tg.div %gb, %70 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %72 = tg.mul %b, %b : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %73 = tg.sum %72 axes = [0] : tensor<4xf32>
// CHECK-NEXT:   %74 = tg.constant value = dense<2.500000e-01> : tensor<f32>
// CHECK-NEXT:   %75 = tg.mul %73, %74 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %76 = tg.sqrt %75 : tensor<f32>
// CHECK-NEXT:   %77 = tg.maximum %76, %47 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %78 = tg.mul %4, %77 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %79 = tg.mul %71, %71 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %80 = tg.sum %79 axes = [0] : tensor<4xf32>
// CHECK-NEXT:   %81 = tg.mul %80, %74 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %82 = tg.sqrt %81 : tensor<f32>
// CHECK-NEXT:   %83 = tg.maximum %82, %55 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %84 = tg.div %78, %83 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %85 = tg.broadcast %84 shape = [4] dims = [] : tensor<f32>
// CHECK-NEXT:   %86 = tg.mul %71, %85 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %87 = tg.sub %b, %86 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   func.return %62, %87, %18, %22, %67 : tensor<2x3xf32>, tensor<4xf32>, tensor<2x1xf32>, tensor<1x3xf32>, tensor<4xf32>
// CHECK-NEXT: }

// CLIPPED: tg.pack %ga, %gb offsets = [0, 64] size = 1024
// CLIPPED: tg.slice %5 start = [0] stop = [6] step = [1]
// CLIPPED: tg.constant value = dense<1.000000e-03> : tensor<f32>
// CLIPPED: tg.slice %5 start = [64] stop = [68] step = [1]
