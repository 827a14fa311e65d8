// RUN: tg-opt %s -p 'append-sgd{before="clip{max-delta=0.5},ema{decay=0.9 debias=false},scale{factor=-1 schedule=\"0.5 ** step\"}"}' | filecheck %s
// RUN: tg-opt %s -p 'append-sgd{before="add-decayed-weights{weight-decay=0.1 decay=\"b\"},normalize{scale=2},scale-by-lion{beta1=0.5}"}' | filecheck %s --check-prefix NORM
// RUN: tg-opt %s -p 'append-sgd{before="ema{decay=0.9 live=link1},clip-by-global-norm{max-norm=1 live=link2},ema{decay=0.5}"}' | filecheck %s --check-prefix LIVE
// RUN: tg-opt %s -p 'append-adam{before="scale-by-sgd{momentum=0.9},scale-by-adagrad,scale-by-rmsprop,scale-by-adam"},simplify' | filecheck %s --check-prefix CORES
// RUN: tg-opt %s -p 'append-sgd{before="normalize-per-parameter{scale=2}"},simplify' | filecheck %s --check-prefix EACH
// RUN: not tg-opt %s -p 'append-sgd{before="blur"}' 2>&1 | filecheck %s --check-prefix UNKNOWN
// RUN: not tg-opt %s -p 'append-sgd{before="clip{max-delta=0}"}' 2>&1 | filecheck %s --check-prefix RANGE
// RUN: not tg-opt %s -p 'append-sgd{before="add-decayed-weights{weight-decay=0.1 decay=\"c\"}"}' 2>&1 | filecheck %s --check-prefix MASK

// Links stand in front of the update, in order. Each has state and scalars of its own name.
func.func @step(%a: tensor<2xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<2xf32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2xf32>, %gb: tensor<2xf32>) -> (tensor<2xf32> {tg.name = "a", tg.role = "gradient"}, tensor<2xf32> {tg.name = "b", tg.role = "gradient"}) {
  func.return %ga, %gb : tensor<2xf32>, tensor<2xf32>
}

// UNKNOWN: tg-opt: error: append-sgd: before: there is no link 'blur'; there are clip-by-global-norm, normalize, normalize-per-parameter, clip, add-decayed-weights, ema, scale, scale-by-sgd, scale-by-adam, scale-by-rmsprop, scale-by-adagrad, scale-by-lion
// RANGE: tg-opt: error: append-sgd: clip: max_delta must be more than 0, got 0.0
// MASK: tg-opt: error: append-sgd: @step has no gradient of 'c', which is to decay

// CHECK: func.func @step(%a: tensor<2xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<2xf32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2xf32> {tg.name = "arg2", tg.role = "input"}, %gb: tensor<2xf32> {tg.name = "arg3", tg.role = "input"}, %0: tensor<2xf32> {tg.name = "ema.mean/a", tg.role = "state"}, %1: tensor<2xf32> {tg.name = "ema.mean/b", tg.role = "state"}, %2: tensor<f32> {tg.name = "sgd.step_size", tg.role = "scalar", tg.formula = "learning_rate"}, %3: tensor<f32> {tg.name = "scale", tg.role = "scalar", tg.formula = "-1.0 * (0.5 ** step)"}) -> (tensor<2xf32> {tg.name = "a", tg.role = "update"}, tensor<2xf32> {tg.name = "b", tg.role = "update"}, tensor<2xf32> {tg.name = "ema.mean/a", tg.role = "update"}, tensor<2xf32> {tg.name = "ema.mean/b", tg.role = "update"}) {
// CHECK-NEXT:   %4 = tg.constant value = dense<5.000000e-01> : tensor<2xf32>
// CHECK-NEXT:   %5 = tg.minimum %ga, %4 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %6 = tg.neg %4 : tensor<2xf32>
// CHECK-NEXT:   %7 = tg.maximum %5, %6 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %8 = tg.constant value = dense<9.000000e-01> : tensor<2xf32>
// CHECK-NEXT:   %9 = tg.mul %0, %8 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %10 = tg.constant value = dense<1.000000e-01> : tensor<2xf32>
// CHECK-NEXT:   %11 = tg.mul %7, %10 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %12 = tg.add %9, %11 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %13 = tg.broadcast %3 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %14 = tg.mul %12, %13 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %15 = tg.broadcast %2 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %16 = tg.mul %14, %15 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %17 = tg.sub %a, %16 : tensor<2xf32>, tensor<2xf32>

// NORM: func.func @step(%a: tensor<2xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<2xf32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2xf32> {tg.name = "arg2", tg.role = "input"}, %gb: tensor<2xf32> {tg.name = "arg3", tg.role = "input"}, %0: tensor<2xf32> {tg.name = "scale_by_lion.m/a", tg.role = "state"}, %1: tensor<2xf32> {tg.name = "scale_by_lion.m/b", tg.role = "state"}, %2: tensor<f32> {tg.name = "sgd.step_size", tg.role = "scalar", tg.formula = "learning_rate"}) -> (tensor<2xf32> {tg.name = "a", tg.role = "update"}, tensor<2xf32> {tg.name = "b", tg.role = "update"}, tensor<2xf32> {tg.name = "scale_by_lion.m/a", tg.role = "update"}, tensor<2xf32> {tg.name = "scale_by_lion.m/b", tg.role = "update"}) {
// NORM-NEXT:   %3 = tg.constant value = dense<1.000000e-01> : tensor<2xf32>
// NORM-NEXT:   %4 = tg.mul %b, %3 : tensor<2xf32>, tensor<2xf32>
// NORM-NEXT:   %5 = tg.add %gb, %4 : tensor<2xf32>, tensor<2xf32>
// NORM-NEXT:   %6 = tg.pack %ga, %5 offsets = [0, 64] size = 1024 : tensor<2xf32>, tensor<2xf32>
// NORM-NEXT:   %7 = tg.reshape %6 shape = [1, 1024] : tensor<1024xf32>
// NORM-NEXT:   %8 = tg.mul %7, %7 : tensor<1x1024xf32>, tensor<1x1024xf32>
// NORM-NEXT:   %9 = tg.sum %8 axes = [1] : tensor<1x1024xf32>
// NORM-NEXT:   %10 = tg.sum %9 axes = [0] : tensor<1xf32>
// NORM-NEXT:   %11 = tg.sqrt %10 : tensor<f32>
// NORM-NEXT:   %12 = tg.constant value = dense<2.000000e+00> : tensor<f32>
// NORM-NEXT:   %13 = tg.constant value = dense<1.000000e-06> : tensor<f32>
// NORM-NEXT:   %14 = tg.add %11, %13 : tensor<f32>, tensor<f32>
// NORM-NEXT:   %15 = tg.div %12, %14 : tensor<f32>, tensor<f32>
// NORM-NEXT:   %16 = tg.slice %6 start = [0] stop = [2] step = [1] : tensor<1024xf32>
// NORM-NEXT:   %17 = tg.broadcast %15 shape = [2] dims = [] : tensor<f32>
// NORM-NEXT:   %18 = tg.mul %16, %17 : tensor<2xf32>, tensor<2xf32>
// NORM-NEXT:   %19 = tg.constant value = dense<5.000000e-01> : tensor<2xf32>

// LIVE: func.func @step(%a: tensor<2xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<2xf32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2xf32> {tg.name = "arg2", tg.role = "input"}, %gb: tensor<2xf32> {tg.name = "arg3", tg.role = "input"}, %0: tensor<2xf32> {tg.name = "ema.mean/a", tg.role = "state"}, %1: tensor<2xf32> {tg.name = "ema.mean/b", tg.role = "state"}, %2: tensor<2xf32> {tg.name = "ema.2.mean/a", tg.role = "state"}, %3: tensor<2xf32> {tg.name = "ema.2.mean/b", tg.role = "state"}, %4: tensor<f32> {tg.name = "sgd.step_size", tg.role = "scalar", tg.formula = "learning_rate"}, %5: tensor<f32> {tg.name = "ema.kept", tg.role = "scalar", tg.formula = "link1_decay"}, %6: tensor<f32> {tg.name = "ema.new", tg.role = "scalar", tg.formula = "1 - link1_decay"}, %7: tensor<f32> {tg.name = "ema.correction", tg.role = "scalar", tg.formula = "1 / (1 - link1_decay ** step)"}, %8: tensor<f32> {tg.name = "clip_by_global_norm", tg.role = "scalar", tg.formula = "link2_max_norm"}, %9: tensor<f32> {tg.name = "ema.2.correction", tg.role = "scalar", tg.formula = "1 / (1 - 0.5 ** step)"}) -> (tensor<2xf32> {tg.name = "a", tg.role = "update"}, tensor<2xf32> {tg.name = "b", tg.role = "update"}, tensor<2xf32> {tg.name = "ema.mean/a", tg.role = "update"}, tensor<2xf32> {tg.name = "ema.mean/b", tg.role = "update"}, tensor<2xf32> {tg.name = "ema.2.mean/a", tg.role = "update"}, tensor<2xf32> {tg.name = "ema.2.mean/b", tg.role = "update"}) {
// LIVE-NEXT:   %10 = tg.broadcast %5 shape = [2] dims = [] : tensor<f32>
// LIVE-NEXT:   %11 = tg.mul %0, %10 : tensor<2xf32>, tensor<2xf32>
// LIVE-NEXT:   %12 = tg.broadcast %6 shape = [2] dims = [] : tensor<f32>
// LIVE-NEXT:   %13 = tg.mul %ga, %12 : tensor<2xf32>, tensor<2xf32>
// LIVE-NEXT:   %14 = tg.add %11, %13 : tensor<2xf32>, tensor<2xf32>
// LIVE-NEXT:   %15 = tg.broadcast %7 shape = [2] dims = [] : tensor<f32>
// LIVE-NEXT:   %16 = tg.mul %14, %15 : tensor<2xf32>, tensor<2xf32>
// LIVE-NEXT:   %17 = tg.broadcast %5 shape = [2] dims = [] : tensor<f32>
// LIVE:   %24 = tg.pack %16, %23 offsets = [0, 64] size = 1024 : tensor<2xf32>, tensor<2xf32>
// LIVE-NEXT:   %25 = tg.reshape %24 shape = [1, 1024] : tensor<1024xf32>
// LIVE-NEXT:   %26 = tg.mul %25, %25 : tensor<1x1024xf32>, tensor<1x1024xf32>
// LIVE-NEXT:   %27 = tg.sum %26 axes = [1] : tensor<1x1024xf32>
// LIVE-NEXT:   %28 = tg.sum %27 axes = [0] : tensor<1xf32>
// LIVE-NEXT:   %29 = tg.sqrt %28 : tensor<f32>
// LIVE-NEXT:   %30 = tg.constant value = dense<1.000000e-06> : tensor<f32>
// LIVE-NEXT:   %31 = tg.add %29, %30 : tensor<f32>, tensor<f32>
// LIVE-NEXT:   %32 = tg.div %8, %31 : tensor<f32>, tensor<f32>
// LIVE-NEXT:   %33 = tg.constant value = dense<1.000000e+00> : tensor<f32>
// LIVE-NEXT:   %34 = tg.compare %32, %33 predicate = "gt" : tensor<f32>, tensor<f32>
// LIVE-NEXT:   %35 = tg.select %34, %33, %32 : tensor<i1>, tensor<f32>, tensor<f32>
// LIVE-NEXT:   %36 = tg.slice %24 start = [0] stop = [66] step = [1] : tensor<1024xf32>
// LIVE-NEXT:   %37 = tg.pack %a, %b offsets = [0, 64] size = 66 : tensor<2xf32>, tensor<2xf32>
// LIVE-NEXT:   %38 = tg.pack %2, %3 offsets = [0, 64] size = 66 : tensor<2xf32>, tensor<2xf32>
// LIVE-NEXT:   %39 = tg.broadcast %35 shape = [66] dims = [] : tensor<f32>
// LIVE-NEXT:   %40 = tg.mul %36, %39 : tensor<66xf32>, tensor<66xf32>
// LIVE-NEXT:   %41 = tg.constant value = dense<5.000000e-01> : tensor<66xf32>
// LIVE-NEXT:   %42 = tg.mul %38, %41 : tensor<66xf32>, tensor<66xf32>
// LIVE-NEXT:   %43 = tg.constant value = dense<5.000000e-01> : tensor<66xf32>
// LIVE-NEXT:   %44 = tg.mul %40, %43 : tensor<66xf32>, tensor<66xf32>
// LIVE-NEXT:   %45 = tg.add %42, %44 : tensor<66xf32>, tensor<66xf32>
// LIVE-NEXT:   %46 = tg.broadcast %9 shape = [66] dims = [] : tensor<f32>
// LIVE-NEXT:   %47 = tg.mul %45, %46 : tensor<66xf32>, tensor<66xf32>
// LIVE-NEXT:   %48 = tg.slice %45 start = [0] stop = [2] step = [1] : tensor<66xf32>
// LIVE-NEXT:   %49 = tg.slice %45 start = [64] stop = [66] step = [1] : tensor<66xf32>
// LIVE-NEXT:   %50 = tg.broadcast %4 shape = [66] dims = [] : tensor<f32>
// LIVE-NEXT:   %51 = tg.mul %47, %50 : tensor<66xf32>, tensor<66xf32>
// LIVE-NEXT:   %52 = tg.sub %37, %51 : tensor<66xf32>, tensor<66xf32>
// LIVE-NEXT:   %53 = tg.slice %52 start = [0] stop = [2] step = [1] : tensor<66xf32>
// LIVE-NEXT:   %54 = tg.slice %52 start = [64] stop = [66] step = [1] : tensor<66xf32>
// LIVE-NEXT:   func.return %53, %54, %14, %21, %48, %49 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
// LIVE-NEXT: }

// CORES: func.func @step(%a: tensor<2xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<2xf32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2xf32> {tg.name = "arg2", tg.role = "input"}, %gb: tensor<2xf32> {tg.name = "arg3", tg.role = "input"}, %0: tensor<2xf32> {tg.name = "scale_by_sgd.momentum/a", tg.role = "state"}, %1: tensor<2xf32> {tg.name = "scale_by_sgd.momentum/b", tg.role = "state"}, %2: tensor<2xf32> {tg.name = "scale_by_adagrad.sum/a", tg.role = "state"}, %3: tensor<2xf32> {tg.name = "scale_by_adagrad.sum/b", tg.role = "state"}, %4: tensor<2xf32> {tg.name = "scale_by_rmsprop.v/a", tg.role = "state"}, %5: tensor<2xf32> {tg.name = "scale_by_rmsprop.v/b", tg.role = "state"}, %6: tensor<2xf32> {tg.name = "scale_by_adam.m/a", tg.role = "state"}, %7: tensor<2xf32> {tg.name = "scale_by_adam.m/b", tg.role = "state"}, %8: tensor<2xf32> {tg.name = "scale_by_adam.v/a", tg.role = "state"}, %9: tensor<2xf32> {tg.name = "scale_by_adam.v/b", tg.role = "state"}, %10: tensor<2xf32> {tg.name = "adam.m/a", tg.role = "state"}, %11: tensor<2xf32> {tg.name = "adam.m/b", tg.role = "state"}, %12: tensor<2xf32> {tg.name = "adam.v/a", tg.role = "state"}, %13: tensor<2xf32> {tg.name = "adam.v/b", tg.role = "state"}, %14: tensor<f32> {tg.name = "adam.step_size", tg.role = "scalar", tg.formula = "learning_rate / (1 - 0.9 ** step)"}, %15: tensor<f32> {tg.name = "adam.root_correction", tg.role = "scalar", tg.formula = "sqrt(1 - 0.999 ** step)"}, %16: tensor<f32> {tg.name = "scale_by_adam.step_size", tg.role = "scalar", tg.formula = "1.0 / (1 - 0.9 ** step)"}, %17: tensor<f32> {tg.name = "scale_by_adam.root_correction", tg.role = "scalar", tg.formula = "sqrt(1 - 0.999 ** step)"}) -> (tensor<2xf32> {tg.name = "a", tg.role = "update"}, tensor<2xf32> {tg.name = "b", tg.role = "update"}, tensor<2xf32> {tg.name = "scale_by_sgd.momentum/a", tg.role = "update"}, tensor<2xf32> {tg.name = "scale_by_sgd.momentum/b", tg.role = "update"}, tensor<2xf32> {tg.name = "scale_by_adagrad.sum/a", tg.role = "update"}, tensor<2xf32> {tg.name = "scale_by_adagrad.sum/b", tg.role = "update"}, tensor<2xf32> {tg.name = "scale_by_rmsprop.v/a", tg.role = "update"}, tensor<2xf32> {tg.name = "scale_by_rmsprop.v/b", tg.role = "update"}, tensor<2xf32> {tg.name = "scale_by_adam.m/a", tg.role = "update"}, tensor<2xf32> {tg.name = "scale_by_adam.m/b", tg.role = "update"}, tensor<2xf32> {tg.name = "scale_by_adam.v/a", tg.role = "update"}, tensor<2xf32> {tg.name = "scale_by_adam.v/b", tg.role = "update"}, tensor<2xf32> {tg.name = "adam.m/a", tg.role = "update"}, tensor<2xf32> {tg.name = "adam.m/b", tg.role = "update"}, tensor<2xf32> {tg.name = "adam.v/a", tg.role = "update"}, tensor<2xf32> {tg.name = "adam.v/b", tg.role = "update"}) {
// CORES-NEXT:   %18 = tg.constant value = dense<9.000000e-01> : tensor<2xf32>
// CORES-NEXT:   %19 = tg.mul %0, %18 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %20 = tg.add %19, %ga : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %21 = tg.mul %20, %20 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %22 = tg.add %2, %21 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %23 = tg.sqrt %22 : tensor<2xf32>
// CORES-NEXT:   %24 = tg.constant value = dense<1.000000e-10> : tensor<2xf32>
// CORES-NEXT:   %25 = tg.add %23, %24 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %26 = tg.div %20, %25 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %27 = tg.mul %26, %26 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %28 = tg.constant value = dense<9.900000e-01> : tensor<2xf32>
// CORES-NEXT:   %29 = tg.mul %4, %28 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %30 = tg.constant value = dense<1.000000e-02> : tensor<2xf32>
// CORES-NEXT:   %31 = tg.mul %27, %30 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %32 = tg.add %29, %31 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %33 = tg.sqrt %32 : tensor<2xf32>
// CORES-NEXT:   %34 = tg.constant value = dense<1.000000e-08> : tensor<2xf32>
// CORES-NEXT:   %35 = tg.add %33, %34 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %36 = tg.div %26, %35 : tensor<2xf32>, tensor<2xf32>

// Each gradient is divided by its own norm.
// EACH:   %1 = tg.mul %ga, %ga : tensor<2xf32>, tensor<2xf32>
// EACH-NEXT:   %2 = tg.sum %1 axes = [0] : tensor<2xf32>
// EACH-NEXT:   %3 = tg.sqrt %2 : tensor<f32>
// EACH-NEXT:   %4 = tg.constant value = dense<2.000000e+00> : tensor<f32>
// EACH-NEXT:   %5 = tg.constant value = dense<1.000000e-06> : tensor<f32>
// EACH-NEXT:   %6 = tg.add %3, %5 : tensor<f32>, tensor<f32>
// EACH-NEXT:   %7 = tg.div %4, %6 : tensor<f32>, tensor<f32>
// EACH-NEXT:   %8 = tg.broadcast %7 shape = [2] dims = [] : tensor<f32>
// EACH-NEXT:   %9 = tg.mul %ga, %8 : tensor<2xf32>, tensor<2xf32>
// EACH-NEXT:   %10 = tg.broadcast %0 shape = [2] dims = [] : tensor<f32>
// EACH-NEXT:   %11 = tg.mul %9, %10 : tensor<2xf32>, tensor<2xf32>
// EACH-NEXT:   %12 = tg.sub %a, %11 : tensor<2xf32>, tensor<2xf32>
// EACH-NEXT:   %13 = tg.mul %gb, %gb : tensor<2xf32>, tensor<2xf32>
// EACH-NEXT:   %14 = tg.sum %13 axes = [0] : tensor<2xf32>
// EACH-NEXT:   %15 = tg.sqrt %14 : tensor<f32>
// EACH-NEXT:   %16 = tg.add %15, %5 : tensor<f32>, tensor<f32>
// EACH-NEXT:   %17 = tg.div %4, %16 : tensor<f32>, tensor<f32>
// EACH-NEXT:   %18 = tg.broadcast %17 shape = [2] dims = [] : tensor<f32>
// EACH-NEXT:   %19 = tg.mul %gb, %18 : tensor<2xf32>, tensor<2xf32>
// EACH-NEXT:   %20 = tg.mul %19, %10 : tensor<2xf32>, tensor<2xf32>
// EACH-NEXT:   %21 = tg.sub %b, %20 : tensor<2xf32>, tensor<2xf32>
