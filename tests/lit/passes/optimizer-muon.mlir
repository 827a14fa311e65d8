// RUN: tg-opt %s -p 'trace-optimizer{optimizer="muon(ns_steps=1, others=sgd(1e-3, momentum=0.9))"}' | filecheck %s
// RUN: tg-opt %s -p 'trace-optimizer{optimizer="muon(ns_steps=1, others=sgd(1e-3, momentum=0.9))"},pack-updates,append-updates,simplify' | filecheck %s --check-prefix ROWS
// RUN: not tg-opt %s -p 'trace-optimizer{optimizer="muon"}' 2>&1 | filecheck %s --check-prefix ALONE
// RUN: not tg-opt %s -p 'trace-optimizer{optimizer="muon(others=muon())"}' 2>&1 | filecheck %s --check-prefix OTHERS
// RUN: not tg-opt %s -p 'trace-optimizer{optimizer="muon(others=sgd(1e-3, clip_norm=1))"}' 2>&1 | filecheck %s --check-prefix CLIPPED
// RUN: not tg-opt %s -p 'trace-optimizer{optimizer="muon(others=clip(1))"}' 2>&1 | filecheck %s --check-prefix NONE
// RUN: not tg-opt %s -p 'trace-optimizer{optimizer="muon(ns_steps=100)"}' 2>&1 | filecheck %s --check-prefix STEPS
// RUN: not tg-opt %s -p 'trace-optimizer{optimizer="muon(adjust_lr_fn=\"no\")"}' 2>&1 | filecheck %s --check-prefix ADJUST

// Matrices of equal shape are orthogonalized as one batch (ROWS); `others` updates the remaining parameters.
func.func @step(%a: tensor<2x3xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<4xf32> {tg.name = "b", tg.role = "parameter"}, %c: tensor<2x3xf32> {tg.name = "c", tg.role = "parameter"}, %ga: tensor<2x3xf32>, %gb: tensor<4xf32>, %gc: tensor<2x3xf32>) -> (tensor<2x3xf32> {tg.name = "a", tg.role = "gradient"}, tensor<4xf32> {tg.name = "b", tg.role = "gradient"}, tensor<2x3xf32> {tg.name = "c", tg.role = "gradient"}) {
  func.return %ga, %gb, %gc : tensor<2x3xf32>, tensor<4xf32>, tensor<2x3xf32>
}

// ADJUST: tg-opt: error: trace-optimizer: muon: adjust_lr_fn must be 'original' or 'match_rms_adamw', got 'no'

// STEPS: tg-opt: error: trace-optimizer: muon: ns_steps must be an integer from 0 to 99, got 100

// NONE: tg-opt: error: trace-optimizer: muon: others must be another optimizer, without links or clip_norm, which go with muon, got Transformation(name='clip', settings={'max_delta': 1.0}, schedule=None, only=None, batched=False)

// CLIPPED: tg-opt: error: trace-optimizer: muon: others must be another optimizer, without links or clip_norm, which go with muon, got Optimizer(name='sgd', settings={'learning_rate': 0.001, 'momentum': 0.0, 'dampening': 0.0, 'weight_decay': 0.0}, schedule=None, clip_norm=1.0, decay=None, groups={}, links=(), only=None, others=None, rank=None, state=None)

// OTHERS: tg-opt: error: trace-optimizer: muon: others must be another optimizer, without links or clip_norm, which go with muon, got Optimizer(name='muon', settings={'learning_rate': 0.001, 'weight_decay': 0.1, 'momentum': 0.95, 'eps': 1e-07}, schedule=None, clip_norm=None, decay=None, groups={}, links=(), only=None, others=None, rank=2, state=None)

// ALONE: tg-opt: error: trace-optimizer: muon: 'b' of shape [4] does not have 2 axes; give others=, an optimizer for the rest, such as others=tg.optim.adamw(3e-4)

// CHECK: func.func private @muon(%0: tensor<2x3xf32> {tg.name = "gradient", tg.role = "gradient"}, %1: tensor<2x3xf32> {tg.name = "parameter", tg.role = "parameter"}, %2: tensor<2x3xf32> {tg.name = "muon.m", tg.role = "state"}, %3: tensor<f32> {tg.name = "momentum", tg.role = "scalar", tg.formula = "momentum"}, %4: tensor<f32> {tg.name = "1 - momentum", tg.role = "scalar", tg.formula = "1 - momentum"}) -> (tensor<2x3xf32> {tg.name = "gradient", tg.role = "gradient"}, tensor<2x3xf32> {tg.name = "muon.m", tg.role = "update"}) attributes {tg.updates = ["a", "c"], tg.stage = 0 : i64, tg.batched} {
// CHECK-NEXT:   %5 = tg.broadcast %3 shape = [2, 3] dims = [] : tensor<f32>
// CHECK-NEXT:   %6 = tg.mul %2, %5 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %7 = tg.broadcast %4 shape = [2, 3] dims = [] : tensor<f32>
// CHECK-NEXT:   %8 = tg.mul %0, %7 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %9 = tg.add %6, %8 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %10 = tg.broadcast %3 shape = [2, 3] dims = [] : tensor<f32>
// CHECK-NEXT:   %11 = tg.mul %9, %10 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %12 = tg.broadcast %4 shape = [2, 3] dims = [] : tensor<f32>
// CHECK-NEXT:   %13 = tg.mul %0, %12 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %14 = tg.add %11, %13 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   func.return %14, %9 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT: }
// CHECK: func.func private @muon_1(%0: tensor<2x3xf32> {tg.name = "gradient", tg.role = "gradient"}, %1: tensor<2x3xf32> {tg.name = "parameter", tg.role = "parameter"}, %2: tensor<f32> {tg.name = "eps", tg.role = "scalar", tg.formula = "eps"}) -> (tensor<2x3xf32> {tg.name = "gradient", tg.role = "gradient"}) attributes {tg.updates = ["a", "c"], tg.stage = 1 : i64, tg.batched} {
// CHECK-NEXT:   %3 = tg.mul %0, %0 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %4 = tg.sum %3 axes = [1] : tensor<2x3xf32>
// CHECK-NEXT:   %5 = tg.sum %4 axes = [0] : tensor<2xf32>
// CHECK-NEXT:   %6 = tg.sqrt %5 : tensor<f32>
// CHECK-NEXT:   %7 = tg.maximum %6, %2 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %8 = tg.broadcast %7 shape = [2, 3] dims = [] : tensor<f32>
// CHECK-NEXT:   %9 = tg.div %0, %8 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %10 = tg.dot_general %9, %9 lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [1] : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %11 = tg.constant value = dense<3.444500e+00> : tensor<2x3xf32>
// CHECK-NEXT:   %12 = tg.mul %9, %11 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %13 = tg.constant value = dense<-4.775000e+00> : tensor<2x2xf32>
// CHECK-NEXT:   %14 = tg.mul %10, %13 : tensor<2x2xf32>, tensor<2x2xf32>
// CHECK-NEXT:   %15 = tg.dot_general %10, %10 lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<2x2xf32>, tensor<2x2xf32>
// CHECK-NEXT:   %16 = tg.constant value = dense<2.031500e+00> : tensor<2x2xf32>
// CHECK-NEXT:   %17 = tg.mul %15, %16 : tensor<2x2xf32>, tensor<2x2xf32>
// CHECK-NEXT:   %18 = tg.add %14, %17 : tensor<2x2xf32>, tensor<2x2xf32>
// CHECK-NEXT:   %19 = tg.dot_general %18, %9 lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<2x2xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %20 = tg.add %12, %19 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %21 = tg.constant value = dense<1.22474492> : tensor<2x3xf32>
// CHECK-NEXT:   %22 = tg.mul %20, %21 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   func.return %22 : tensor<2x3xf32>
// CHECK-NEXT: }
// CHECK: func.func private @muon_2(%0: tensor<2x3xf32> {tg.name = "gradient", tg.role = "gradient"}, %1: tensor<2x3xf32> {tg.name = "parameter", tg.role = "parameter"}, %2: tensor<f32> {tg.name = "1 - learning_rate * weight_decay", tg.role = "scalar", tg.formula = "1 - learning_rate * weight_decay"}, %3: tensor<f32> {tg.name = "learning_rate", tg.role = "scalar", tg.formula = "learning_rate"}) -> (tensor<2x3xf32> {tg.name = "parameter", tg.role = "update"}) attributes {tg.updates = ["a", "c"], tg.stage = 2 : i64, tg.batched} {
// CHECK-NEXT:   %4 = tg.broadcast %2 shape = [2, 3] dims = [] : tensor<f32>
// CHECK-NEXT:   %5 = tg.mul %1, %4 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %6 = tg.broadcast %3 shape = [2, 3] dims = [] : tensor<f32>
// CHECK-NEXT:   %7 = tg.mul %0, %6 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %8 = tg.sub %5, %7 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   func.return %8 : tensor<2x3xf32>
// CHECK-NEXT: }
// CHECK: func.func private @sgd(%0: tensor<4xf32> {tg.name = "gradient", tg.role = "gradient"}, %1: tensor<4xf32> {tg.name = "parameter", tg.role = "parameter"}, %2: tensor<4xf32> {tg.name = "sgd.momentum", tg.role = "state"}, %3: tensor<f32> {tg.name = "others_momentum", tg.role = "scalar", tg.formula = "others_momentum"}, %4: tensor<f32> {tg.name = "others_learning_rate", tg.role = "scalar", tg.formula = "others_learning_rate"}) -> (tensor<4xf32> {tg.name = "parameter", tg.role = "update"}, tensor<4xf32> {tg.name = "sgd.momentum", tg.role = "update"}) attributes {tg.updates = ["b"], tg.stage = 3 : i64} {
// CHECK-NEXT:   %5 = tg.broadcast %3 shape = [4] dims = [] : tensor<f32>
// CHECK-NEXT:   %6 = tg.mul %2, %5 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %7 = tg.add %6, %0 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %8 = tg.broadcast %4 shape = [4] dims = [] : tensor<f32>
// CHECK-NEXT:   %9 = tg.mul %7, %8 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %10 = tg.sub %1, %9 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   func.return %10, %7 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT: }

// ROWS: func.func @step(%a: tensor<2x3xf32> {tg.name = "a", tg.role = "parameter"}, %c: tensor<2x3xf32> {tg.name = "c", tg.role = "parameter"}, %b: tensor<4xf32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2x3xf32> {tg.name = "arg3", tg.role = "input"}, %gb: tensor<4xf32> {tg.name = "arg4", tg.role = "input"}, %gc: tensor<2x3xf32> {tg.name = "arg5", tg.role = "input"}, %0: tensor<2x3xf32> {tg.name = "muon.m/a", tg.role = "state"}, %1: tensor<2x3xf32> {tg.name = "muon.m/c", tg.role = "state"}, %2: tensor<4xf32> {tg.name = "sgd.momentum/b", tg.role = "state"}, %3: tensor<f32> {tg.name = "momentum", tg.role = "scalar", tg.formula = "momentum"}, %4: tensor<f32> {tg.name = "1 - momentum", tg.role = "scalar", tg.formula = "1 - momentum"}, %5: tensor<f32> {tg.name = "eps", tg.role = "scalar", tg.formula = "eps"}, %6: tensor<f32> {tg.name = "1 - learning_rate * weight_decay", tg.role = "scalar", tg.formula = "1 - learning_rate * weight_decay"}, %7: tensor<f32> {tg.name = "learning_rate", tg.role = "scalar", tg.formula = "learning_rate"}, %8: tensor<f32> {tg.name = "others_momentum", tg.role = "scalar", tg.formula = "others_momentum"}, %9: tensor<f32> {tg.name = "others_learning_rate", tg.role = "scalar", tg.formula = "others_learning_rate"}) -> (tensor<2x3xf32> {tg.name = "a", tg.role = "update"}, tensor<4xf32> {tg.name = "b", tg.role = "update"}, tensor<2x3xf32> {tg.name = "c", tg.role = "update"}, tensor<2x3xf32> {tg.name = "muon.m/a", tg.role = "update"}, tensor<2x3xf32> {tg.name = "muon.m/c", tg.role = "update"}, tensor<4xf32> {tg.name = "sgd.momentum/b", tg.role = "update"}) {
// ROWS-NEXT:   %10 = tg.pack %ga, %gc, %gb offsets = [0, 64, 128] size = 1024 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<4xf32>
// ROWS-NEXT:   %11 = tg.slice %10 start = [0] stop = [70] step = [1] : tensor<1024xf32>
// ROWS-NEXT:   %12 = tg.pack %a, %c offsets = [0, 64] size = 70 : tensor<2x3xf32>, tensor<2x3xf32>
// ROWS-NEXT:   %13 = tg.pack %0, %1 offsets = [0, 64] size = 70 : tensor<2x3xf32>, tensor<2x3xf32>
// ROWS-NEXT:   %14 = tg.broadcast %3 shape = [70] dims = [] : tensor<f32>
// ROWS-NEXT:   %15 = tg.mul %13, %14 : tensor<70xf32>, tensor<70xf32>
// ROWS-NEXT:   %16 = tg.broadcast %4 shape = [70] dims = [] : tensor<f32>
// ROWS-NEXT:   %17 = tg.mul %11, %16 : tensor<70xf32>, tensor<70xf32>
// ROWS-NEXT:   %18 = tg.add %15, %17 : tensor<70xf32>, tensor<70xf32>
// ROWS-NEXT:   %19 = tg.mul %18, %14 : tensor<70xf32>, tensor<70xf32>
// ROWS-NEXT:   %20 = tg.add %19, %17 : tensor<70xf32>, tensor<70xf32>
// ROWS-NEXT:   %21 = tg.slice %18 start = [0] stop = [6] step = [1] : tensor<70xf32>
// ROWS-NEXT:   %22 = tg.reshape %21 shape = [2, 3] : tensor<6xf32>
// ROWS-NEXT:   %23 = tg.slice %18 start = [64] stop = [70] step = [1] : tensor<70xf32>
// ROWS-NEXT:   %24 = tg.reshape %23 shape = [2, 3] : tensor<6xf32>
// ROWS-NEXT:   %25 = tg.constant value = dense<0.000000e+00> : tensor<f32>
// ROWS-NEXT:   %26 = tg.pad %20, %25 low = [0] high = [58] interior = [0] : tensor<70xf32>, tensor<f32>
// ROWS-NEXT:   %27 = tg.reshape %26 shape = [2, 64] : tensor<128xf32>
// ROWS-NEXT:   %28 = tg.slice %27 start = [0, 0] stop = [2, 6] step = [1, 1] : tensor<2x64xf32>
// ROWS-NEXT:   %29 = tg.reshape %28 shape = [2, 2, 3] : tensor<2x6xf32>
// ROWS-NEXT:   %30 = tg.mul %29, %29 : tensor<2x2x3xf32>, tensor<2x2x3xf32>
// ROWS-NEXT:   %31 = tg.sum %30 axes = [2] : tensor<2x2x3xf32>
// ROWS-NEXT:   %32 = tg.sum %31 axes = [1] : tensor<2x2xf32>
// ROWS-NEXT:   %33 = tg.sqrt %32 : tensor<2xf32>
// ROWS-NEXT:   %34 = tg.broadcast %5 shape = [2] dims = [] : tensor<f32>
// ROWS-NEXT:   %35 = tg.maximum %33, %34 : tensor<2xf32>, tensor<2xf32>
// ROWS-NEXT:   %36 = tg.broadcast %35 shape = [2, 2, 3] dims = [0] : tensor<2xf32>
// ROWS-NEXT:   %37 = tg.div %29, %36 : tensor<2x2x3xf32>, tensor<2x2x3xf32>
// ROWS-NEXT:   %38 = tg.dot_general %37, %37 lhs_batch = [0] rhs_batch = [0] lhs_contracting = [2] rhs_contracting = [2] : tensor<2x2x3xf32>, tensor<2x2x3xf32>
// ROWS-NEXT:   %39 = tg.constant value = dense<3.444500e+00> : tensor<2x2x3xf32>
// ROWS-NEXT:   %40 = tg.mul %37, %39 : tensor<2x2x3xf32>, tensor<2x2x3xf32>
// ROWS-NEXT:   %41 = tg.constant value = dense<-4.775000e+00> : tensor<2x2x2xf32>
// ROWS-NEXT:   %42 = tg.mul %38, %41 : tensor<2x2x2xf32>, tensor<2x2x2xf32>
// ROWS-NEXT:   %43 = tg.dot_general %38, %38 lhs_batch = [0] rhs_batch = [0] lhs_contracting = [2] rhs_contracting = [1] : tensor<2x2x2xf32>, tensor<2x2x2xf32>
// ROWS-NEXT:   %44 = tg.constant value = dense<2.031500e+00> : tensor<2x2x2xf32>
// ROWS-NEXT:   %45 = tg.mul %43, %44 : tensor<2x2x2xf32>, tensor<2x2x2xf32>
// ROWS-NEXT:   %46 = tg.add %42, %45 : tensor<2x2x2xf32>, tensor<2x2x2xf32>
// ROWS-NEXT:   %47 = tg.dot_general %46, %37 lhs_batch = [0] rhs_batch = [0] lhs_contracting = [2] rhs_contracting = [1] : tensor<2x2x2xf32>, tensor<2x2x3xf32>
// ROWS-NEXT:   %48 = tg.add %40, %47 : tensor<2x2x3xf32>, tensor<2x2x3xf32>
// ROWS-NEXT:   %49 = tg.constant value = dense<1.22474492> : tensor<2x2x3xf32>
// ROWS-NEXT:   %50 = tg.mul %48, %49 : tensor<2x2x3xf32>, tensor<2x2x3xf32>
// ROWS-NEXT:   %51 = tg.reshape %50 shape = [2, 6] : tensor<2x2x3xf32>
// ROWS-NEXT:   %52 = tg.pad %51, %25 low = [0, 0] high = [0, 58] interior = [0, 0] : tensor<2x6xf32>, tensor<f32>
// ROWS-NEXT:   %53 = tg.reshape %52 shape = [128] : tensor<2x64xf32>
// ROWS-NEXT:   %54 = tg.slice %53 start = [0] stop = [70] step = [1] : tensor<128xf32>
// ROWS-NEXT:   %55 = tg.broadcast %6 shape = [70] dims = [] : tensor<f32>
// ROWS-NEXT:   %56 = tg.mul %12, %55 : tensor<70xf32>, tensor<70xf32>
// ROWS-NEXT:   %57 = tg.broadcast %7 shape = [70] dims = [] : tensor<f32>
// ROWS-NEXT:   %58 = tg.mul %54, %57 : tensor<70xf32>, tensor<70xf32>
// ROWS-NEXT:   %59 = tg.sub %56, %58 : tensor<70xf32>, tensor<70xf32>
// ROWS-NEXT:   %60 = tg.slice %59 start = [0] stop = [6] step = [1] : tensor<70xf32>
// ROWS-NEXT:   %61 = tg.reshape %60 shape = [2, 3] : tensor<6xf32>
// ROWS-NEXT:   %62 = tg.slice %59 start = [64] stop = [70] step = [1] : tensor<70xf32>
// ROWS-NEXT:   %63 = tg.reshape %62 shape = [2, 3] : tensor<6xf32>
// ROWS-NEXT:   %64 = tg.slice %10 start = [128] stop = [132] step = [1] : tensor<1024xf32>
// ROWS-NEXT:   %65 = tg.broadcast %8 shape = [4] dims = [] : tensor<f32>
// ROWS-NEXT:   %66 = tg.mul %2, %65 : tensor<4xf32>, tensor<4xf32>
// ROWS-NEXT:   %67 = tg.add %66, %64 : tensor<4xf32>, tensor<4xf32>
// ROWS-NEXT:   %68 = tg.broadcast %9 shape = [4] dims = [] : tensor<f32>
// ROWS-NEXT:   %69 = tg.mul %67, %68 : tensor<4xf32>, tensor<4xf32>
// ROWS-NEXT:   %70 = tg.sub %b, %69 : tensor<4xf32>, tensor<4xf32>
// ROWS-NEXT:   func.return %61, %70, %63, %22, %24, %67 : tensor<2x3xf32>, tensor<4xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<4xf32>
// ROWS-NEXT: }
