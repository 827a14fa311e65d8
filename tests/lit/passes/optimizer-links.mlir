// RUN: tg-opt %s -p 'trace-optimizer{optimizer="chain(clip(0.5), ema(0.9, debias=False), scale(schedules.step(-0.0, 1)), sgd(0.1))"},pack-updates,append-updates' | filecheck %s
// RUN: tg-opt %s -p 'trace-optimizer{optimizer="chain(add_decayed_weights(0.1, decay=\"b\"), normalize(2), scale_by_lion((0.5, 0.99)), sgd(0.1))"},pack-updates,append-updates' | filecheck %s --check-prefix NORM
// RUN: tg-opt %s -p 'trace-optimizer{optimizer="chain(ema(0.9), clip_by_global_norm(1), ema(0.5), scale_by_learning_rate(0.1))"},pack-updates,append-updates' | filecheck %s --check-prefix MEANS
// RUN: tg-opt %s -p 'trace-optimizer{optimizer="chain(scale_by_sgd(0.9), scale_by_adagrad(), scale_by_rmsprop(), scale_by_adam(), adam())"}' | filecheck %s --check-prefix CORES
// RUN: tg-opt %s -p 'trace-optimizer{optimizer="chain(normalize_per_parameter(2), sgd(0.1))"},pack-updates,append-updates,simplify' | filecheck %s --check-prefix EACH
// RUN: not tg-opt %s -p 'trace-optimizer{optimizer="chain(blur(1), sgd(0.1))"}' 2>&1 | filecheck %s --check-prefix UNKNOWN
// RUN: not tg-opt %s -p 'trace-optimizer{optimizer="chain(clip(0), sgd(0.1))"}' 2>&1 | filecheck %s --check-prefix RANGE
// RUN: not tg-opt %s -p 'trace-optimizer{optimizer="chain(add_decayed_weights(0.1, decay=\"c\"), sgd(0.1))"}' 2>&1 | filecheck %s --check-prefix MASK
// RUN: not tg-opt %s -p 'trace-optimizer{optimizer="clip(1)"}' 2>&1 | filecheck %s --check-prefix LINK
// RUN: not tg-opt %s -p 'trace-optimizer{optimizer="sgd("}' 2>&1 | filecheck %s --check-prefix SYNTAX
// RUN: not tg-opt %s -p 'trace-optimizer{optimizer="sgd(0.1, 1, 2, 3, 4, 5, 6, 7)"}' 2>&1 | filecheck %s --check-prefix MISFIT
// RUN: not tg-opt %s -p 'trace-optimizer{optimizer="sgd(0.1 + 0.2)"}' 2>&1 | filecheck %s --check-prefix CODE

// The links of a chain transform the gradient in order, before the update. Each has its own state and scalars.
func.func @step(%a: tensor<2xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<2xf32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2xf32>, %gb: tensor<2xf32>) -> (tensor<2xf32> {tg.name = "a", tg.role = "gradient"}, tensor<2xf32> {tg.name = "b", tg.role = "gradient"}) {
  func.return %ga, %gb : tensor<2xf32>, tensor<2xf32>
}

// CODE: tg-opt: error: trace-optimizer: optimizer 'sgd(0.1 + 0.2)': '0.1 + 0.2' is not a call, name, number, string or list

// MISFIT: tg-opt: error: trace-optimizer: sgd() takes 5 arguments by position, got 8: give the others by name, such as decay=, clip_norm=, groups=; it takes (learning_rate, momentum=0.0, dampening=0.0, nesterov=False, weight_decay=0.0, *, decay=None, clip_norm=None, groups=None)

// SYNTAX: tg-opt: error: trace-optimizer: optimizer 'sgd(' is not a call as in Python: '(' was never closed

// LINK: tg-opt: error: trace-optimizer: optimizer 'clip(1)' is a link or a schedule; chain(..., sgd(0.1)) is an optimizer

// MASK: tg-opt: error: trace-optimizer: add_decayed_weights: decay 'c' matches no parameter; the parameters are a, b

// RANGE: tg-opt: error: trace-optimizer: clip: max_delta must be more than 0, got 0

// UNKNOWN: tg-opt: error: trace-optimizer: there is no optimizer 'blur'; the optimizers are Schedule, adafactor, adagrad, adam, adamw, add_decayed_weights, chain, clip, clip_by_global_norm, ema, lion, masked, muon, normalize, normalize_per_parameter, rmsprop, scale, scale_by_adagrad, scale_by_adam, scale_by_learning_rate, scale_by_lion, scale_by_rmsprop, scale_by_sgd, sgd, weight_ema

// CHECK: func.func @step(%a: tensor<2xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<2xf32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2xf32> {tg.name = "arg2", tg.role = "input"}, %gb: tensor<2xf32> {tg.name = "arg3", tg.role = "input"}, %0: tensor<2xf32> {tg.name = "ema.mean/a", tg.role = "state"}, %1: tensor<2xf32> {tg.name = "ema.mean/b", tg.role = "state"}, %2: tensor<f32> {tg.name = "link1_max_delta", tg.role = "scalar", tg.formula = "link1_max_delta"}, %3: tensor<f32> {tg.name = "-link1_max_delta", tg.role = "scalar", tg.formula = "-link1_max_delta"}, %4: tensor<f32> {tg.name = "link2_decay", tg.role = "scalar", tg.formula = "link2_decay"}, %5: tensor<f32> {tg.name = "1 - link2_decay", tg.role = "scalar", tg.formula = "1 - link2_decay"}, %6: tensor<f32> {tg.name = "(link3_factor * (0.1 ** floor((step - 1) / 1)))", tg.role = "scalar", tg.formula = "(link3_factor * (0.1 ** floor((step - 1) / 1)))"}, %7: tensor<f32> {tg.name = "learning_rate", tg.role = "scalar", tg.formula = "learning_rate"}) -> (tensor<2xf32> {tg.name = "a", tg.role = "update"}, tensor<2xf32> {tg.name = "b", tg.role = "update"}, tensor<2xf32> {tg.name = "ema.mean/a", tg.role = "update"}, tensor<2xf32> {tg.name = "ema.mean/b", tg.role = "update"}) {
// CHECK-NEXT:   %8 = tg.broadcast %2 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %9 = tg.minimum %ga, %8 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %10 = tg.broadcast %3 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %11 = tg.maximum %9, %10 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %12 = tg.broadcast %4 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %13 = tg.mul %0, %12 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %14 = tg.broadcast %5 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %15 = tg.mul %11, %14 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %16 = tg.add %13, %15 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %17 = tg.broadcast %6 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %18 = tg.mul %16, %17 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %19 = tg.broadcast %7 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %20 = tg.mul %18, %19 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %21 = tg.sub %a, %20 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %22 = tg.broadcast %2 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %23 = tg.minimum %gb, %22 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %24 = tg.broadcast %3 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %25 = tg.maximum %23, %24 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %26 = tg.broadcast %4 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %27 = tg.mul %1, %26 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %28 = tg.broadcast %5 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %29 = tg.mul %25, %28 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %30 = tg.add %27, %29 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %31 = tg.broadcast %6 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %32 = tg.mul %30, %31 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %33 = tg.broadcast %7 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %34 = tg.mul %32, %33 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %35 = tg.sub %b, %34 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   func.return %21, %35, %16, %30 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT: }

// NORM: func.func @step(%a: tensor<2xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<2xf32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2xf32> {tg.name = "arg2", tg.role = "input"}, %gb: tensor<2xf32> {tg.name = "arg3", tg.role = "input"}, %0: tensor<2xf32> {tg.name = "scale_by_lion.m/a", tg.role = "state"}, %1: tensor<2xf32> {tg.name = "scale_by_lion.m/b", tg.role = "state"}, %2: tensor<f32> {tg.name = "link1_weight_decay", tg.role = "scalar", tg.formula = "link1_weight_decay"}, %3: tensor<f32> {tg.name = "link2_eps", tg.role = "scalar", tg.formula = "link2_eps"}, %4: tensor<f32> {tg.name = "link2_scale", tg.role = "scalar", tg.formula = "link2_scale"}, %5: tensor<f32> {tg.name = "link3_beta1", tg.role = "scalar", tg.formula = "link3_beta1"}, %6: tensor<f32> {tg.name = "1 - link3_beta1", tg.role = "scalar", tg.formula = "1 - link3_beta1"}, %7: tensor<f32> {tg.name = "link3_beta2", tg.role = "scalar", tg.formula = "link3_beta2"}, %8: tensor<f32> {tg.name = "1 - link3_beta2", tg.role = "scalar", tg.formula = "1 - link3_beta2"}, %9: tensor<f32> {tg.name = "learning_rate", tg.role = "scalar", tg.formula = "learning_rate"}) -> (tensor<2xf32> {tg.name = "a", tg.role = "update"}, tensor<2xf32> {tg.name = "b", tg.role = "update"}, tensor<2xf32> {tg.name = "scale_by_lion.m/a", tg.role = "update"}, tensor<2xf32> {tg.name = "scale_by_lion.m/b", tg.role = "update"}) {
// NORM-NEXT:   %10 = tg.broadcast %2 shape = [2] dims = [] : tensor<f32>
// NORM-NEXT:   %11 = tg.mul %b, %10 : tensor<2xf32>, tensor<2xf32>
// NORM-NEXT:   %12 = tg.add %gb, %11 : tensor<2xf32>, tensor<2xf32>
// NORM-NEXT:   %13 = tg.pack %ga, %12 offsets = [0, 64] size = 1024 : tensor<2xf32>, tensor<2xf32>
// NORM-NEXT:   %14 = tg.reshape %13 shape = [1, 1024] : tensor<1024xf32>
// NORM-NEXT:   %15 = tg.mul %14, %14 : tensor<1x1024xf32>, tensor<1x1024xf32>
// NORM-NEXT:   %16 = tg.sum %15 axes = [1] : tensor<1x1024xf32>
// NORM-NEXT:   %17 = tg.sum %16 axes = [0] : tensor<1xf32>
// NORM-NEXT:   %18 = tg.sqrt %17 : tensor<f32>
// NORM-NEXT:   %19 = tg.slice %13 start = [0] stop = [66] step = [1] : tensor<1024xf32>
// NORM-NEXT:   %20 = tg.pack %a, %b offsets = [0, 64] size = 66 : tensor<2xf32>, tensor<2xf32>
// NORM-NEXT:   %21 = tg.pack %0, %1 offsets = [0, 64] size = 66 : tensor<2xf32>, tensor<2xf32>
// NORM-NEXT:   %22 = tg.add %18, %3 : tensor<f32>, tensor<f32>
// NORM-NEXT:   %23 = tg.div %4, %22 : tensor<f32>, tensor<f32>
// NORM-NEXT:   %24 = tg.broadcast %23 shape = [66] dims = [] : tensor<f32>
// NORM-NEXT:   %25 = tg.mul %19, %24 : tensor<66xf32>, tensor<66xf32>
// NORM-NEXT:   %26 = tg.broadcast %5 shape = [66] dims = [] : tensor<f32>
// NORM-NEXT:   %27 = tg.mul %21, %26 : tensor<66xf32>, tensor<66xf32>
// NORM-NEXT:   %28 = tg.broadcast %6 shape = [66] dims = [] : tensor<f32>
// NORM-NEXT:   %29 = tg.mul %25, %28 : tensor<66xf32>, tensor<66xf32>
// NORM-NEXT:   %30 = tg.add %27, %29 : tensor<66xf32>, tensor<66xf32>
// NORM-NEXT:   %31 = tg.stop_gradient %30 : tensor<66xf32>
// NORM-NEXT:   %32 = tg.constant value = dense<0.000000e+00> : tensor<66xf32>
// NORM-NEXT:   %33 = tg.compare %31, %32 predicate = "eq" : tensor<66xf32>, tensor<66xf32>
// NORM-NEXT:   %34 = tg.constant value = dense<0.000000e+00> : tensor<66xf32>
// NORM-NEXT:   %35 = tg.select %33, %34, %31 : tensor<66xi1>, tensor<66xf32>, tensor<66xf32>
// NORM-NEXT:   %36 = tg.constant value = dense<0.000000e+00> : tensor<66xf32>
// NORM-NEXT:   %37 = tg.compare %31, %36 predicate = "lt" : tensor<66xf32>, tensor<66xf32>
// NORM-NEXT:   %38 = tg.constant value = dense<-1.000000e+00> : tensor<66xf32>
// NORM-NEXT:   %39 = tg.select %37, %38, %35 : tensor<66xi1>, tensor<66xf32>, tensor<66xf32>
// NORM-NEXT:   %40 = tg.constant value = dense<0.000000e+00> : tensor<66xf32>
// NORM-NEXT:   %41 = tg.compare %31, %40 predicate = "gt" : tensor<66xf32>, tensor<66xf32>
// NORM-NEXT:   %42 = tg.constant value = dense<1.000000e+00> : tensor<66xf32>
// NORM-NEXT:   %43 = tg.select %41, %42, %39 : tensor<66xi1>, tensor<66xf32>, tensor<66xf32>
// NORM-NEXT:   %44 = tg.broadcast %7 shape = [66] dims = [] : tensor<f32>
// NORM-NEXT:   %45 = tg.mul %21, %44 : tensor<66xf32>, tensor<66xf32>
// NORM-NEXT:   %46 = tg.broadcast %8 shape = [66] dims = [] : tensor<f32>
// NORM-NEXT:   %47 = tg.mul %25, %46 : tensor<66xf32>, tensor<66xf32>
// NORM-NEXT:   %48 = tg.add %45, %47 : tensor<66xf32>, tensor<66xf32>
// NORM-NEXT:   %49 = tg.slice %48 start = [0] stop = [2] step = [1] : tensor<66xf32>
// NORM-NEXT:   %50 = tg.slice %48 start = [64] stop = [66] step = [1] : tensor<66xf32>
// NORM-NEXT:   %51 = tg.broadcast %9 shape = [66] dims = [] : tensor<f32>
// NORM-NEXT:   %52 = tg.mul %43, %51 : tensor<66xf32>, tensor<66xf32>
// NORM-NEXT:   %53 = tg.sub %20, %52 : tensor<66xf32>, tensor<66xf32>
// NORM-NEXT:   %54 = tg.slice %53 start = [0] stop = [2] step = [1] : tensor<66xf32>
// NORM-NEXT:   %55 = tg.slice %53 start = [64] stop = [66] step = [1] : tensor<66xf32>
// NORM-NEXT:   func.return %54, %55, %49, %50 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
// NORM-NEXT: }

// MEANS: func.func @step(%a: tensor<2xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<2xf32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2xf32> {tg.name = "arg2", tg.role = "input"}, %gb: tensor<2xf32> {tg.name = "arg3", tg.role = "input"}, %0: tensor<2xf32> {tg.name = "ema.mean/a", tg.role = "state"}, %1: tensor<2xf32> {tg.name = "ema.mean/b", tg.role = "state"}, %2: tensor<2xf32> {tg.name = "ema.2.mean/a", tg.role = "state"}, %3: tensor<2xf32> {tg.name = "ema.2.mean/b", tg.role = "state"}, %4: tensor<f32> {tg.name = "link1_decay", tg.role = "scalar", tg.formula = "link1_decay"}, %5: tensor<f32> {tg.name = "1 - link1_decay", tg.role = "scalar", tg.formula = "1 - link1_decay"}, %6: tensor<f32> {tg.name = "1 / (1 - link1_decay ** step)", tg.role = "scalar", tg.formula = "1 / (1 - link1_decay ** step)"}, %7: tensor<f32> {tg.name = "link2_max_norm", tg.role = "scalar", tg.formula = "link2_max_norm"}, %8: tensor<f32> {tg.name = "link3_decay", tg.role = "scalar", tg.formula = "link3_decay"}, %9: tensor<f32> {tg.name = "1 - link3_decay", tg.role = "scalar", tg.formula = "1 - link3_decay"}, %10: tensor<f32> {tg.name = "1 / (1 - link3_decay ** step)", tg.role = "scalar", tg.formula = "1 / (1 - link3_decay ** step)"}, %11: tensor<f32> {tg.name = "learning_rate", tg.role = "scalar", tg.formula = "learning_rate"}) -> (tensor<2xf32> {tg.name = "a", tg.role = "update"}, tensor<2xf32> {tg.name = "b", tg.role = "update"}, tensor<2xf32> {tg.name = "ema.mean/a", tg.role = "update"}, tensor<2xf32> {tg.name = "ema.mean/b", tg.role = "update"}, tensor<2xf32> {tg.name = "ema.2.mean/a", tg.role = "update"}, tensor<2xf32> {tg.name = "ema.2.mean/b", tg.role = "update"}) {
// MEANS-NEXT:   %12 = tg.broadcast %4 shape = [2] dims = [] : tensor<f32>
// MEANS-NEXT:   %13 = tg.mul %0, %12 : tensor<2xf32>, tensor<2xf32>
// MEANS-NEXT:   %14 = tg.broadcast %5 shape = [2] dims = [] : tensor<f32>
// MEANS-NEXT:   %15 = tg.mul %ga, %14 : tensor<2xf32>, tensor<2xf32>
// MEANS-NEXT:   %16 = tg.add %13, %15 : tensor<2xf32>, tensor<2xf32>
// MEANS-NEXT:   %17 = tg.broadcast %6 shape = [2] dims = [] : tensor<f32>
// MEANS-NEXT:   %18 = tg.mul %16, %17 : tensor<2xf32>, tensor<2xf32>
// MEANS-NEXT:   %19 = tg.broadcast %4 shape = [2] dims = [] : tensor<f32>
// MEANS-NEXT:   %20 = tg.mul %1, %19 : tensor<2xf32>, tensor<2xf32>
// MEANS-NEXT:   %21 = tg.broadcast %5 shape = [2] dims = [] : tensor<f32>
// MEANS-NEXT:   %22 = tg.mul %gb, %21 : tensor<2xf32>, tensor<2xf32>
// MEANS-NEXT:   %23 = tg.add %20, %22 : tensor<2xf32>, tensor<2xf32>
// MEANS-NEXT:   %24 = tg.broadcast %6 shape = [2] dims = [] : tensor<f32>
// MEANS-NEXT:   %25 = tg.mul %23, %24 : tensor<2xf32>, tensor<2xf32>
// MEANS-NEXT:   %26 = tg.pack %18, %25 offsets = [0, 64] size = 1024 : tensor<2xf32>, tensor<2xf32>
// MEANS-NEXT:   %27 = tg.reshape %26 shape = [1, 1024] : tensor<1024xf32>
// MEANS-NEXT:   %28 = tg.mul %27, %27 : tensor<1x1024xf32>, tensor<1x1024xf32>
// MEANS-NEXT:   %29 = tg.sum %28 axes = [1] : tensor<1x1024xf32>
// MEANS-NEXT:   %30 = tg.sum %29 axes = [0] : tensor<1xf32>
// MEANS-NEXT:   %31 = tg.sqrt %30 : tensor<f32>
// MEANS-NEXT:   %32 = tg.slice %26 start = [0] stop = [66] step = [1] : tensor<1024xf32>
// MEANS-NEXT:   %33 = tg.pack %a, %b offsets = [0, 64] size = 66 : tensor<2xf32>, tensor<2xf32>
// MEANS-NEXT:   %34 = tg.pack %2, %3 offsets = [0, 64] size = 66 : tensor<2xf32>, tensor<2xf32>
// MEANS-NEXT:   %35 = tg.constant value = dense<1.000000e-06> : tensor<f32>
// MEANS-NEXT:   %36 = tg.add %31, %35 : tensor<f32>, tensor<f32>
// MEANS-NEXT:   %37 = tg.div %7, %36 : tensor<f32>, tensor<f32>
// MEANS-NEXT:   %38 = tg.constant value = dense<1.000000e+00> : tensor<f32>
// MEANS-NEXT:   %39 = tg.compare %37, %38 predicate = "gt" : tensor<f32>, tensor<f32>
// MEANS-NEXT:   %40 = tg.constant value = dense<1.000000e+00> : tensor<f32>
// MEANS-NEXT:   %41 = tg.select %39, %40, %37 : tensor<i1>, tensor<f32>, tensor<f32>
// MEANS-NEXT:   %42 = tg.broadcast %41 shape = [66] dims = [] : tensor<f32>
// MEANS-NEXT:   %43 = tg.mul %32, %42 : tensor<66xf32>, tensor<66xf32>
// MEANS-NEXT:   %44 = tg.broadcast %8 shape = [66] dims = [] : tensor<f32>
// MEANS-NEXT:   %45 = tg.mul %34, %44 : tensor<66xf32>, tensor<66xf32>
// MEANS-NEXT:   %46 = tg.broadcast %9 shape = [66] dims = [] : tensor<f32>
// MEANS-NEXT:   %47 = tg.mul %43, %46 : tensor<66xf32>, tensor<66xf32>
// MEANS-NEXT:   %48 = tg.add %45, %47 : tensor<66xf32>, tensor<66xf32>
// MEANS-NEXT:   %49 = tg.broadcast %10 shape = [66] dims = [] : tensor<f32>
// MEANS-NEXT:   %50 = tg.mul %48, %49 : tensor<66xf32>, tensor<66xf32>
// MEANS-NEXT:   %51 = tg.slice %48 start = [0] stop = [2] step = [1] : tensor<66xf32>
// MEANS-NEXT:   %52 = tg.slice %48 start = [64] stop = [66] step = [1] : tensor<66xf32>
// MEANS-NEXT:   %53 = tg.broadcast %11 shape = [66] dims = [] : tensor<f32>
// MEANS-NEXT:   %54 = tg.mul %50, %53 : tensor<66xf32>, tensor<66xf32>
// MEANS-NEXT:   %55 = tg.sub %33, %54 : tensor<66xf32>, tensor<66xf32>
// MEANS-NEXT:   %56 = tg.slice %55 start = [0] stop = [2] step = [1] : tensor<66xf32>
// MEANS-NEXT:   %57 = tg.slice %55 start = [64] stop = [66] step = [1] : tensor<66xf32>
// MEANS-NEXT:   func.return %56, %57, %16, %23, %51, %52 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
// MEANS-NEXT: }

// CORES: func.func private @scale_by_sgd(%0: tensor<2xf32> {tg.name = "gradient", tg.role = "gradient"}, %1: tensor<2xf32> {tg.name = "parameter", tg.role = "parameter"}, %2: tensor<2xf32> {tg.name = "scale_by_sgd.momentum", tg.role = "state"}, %3: tensor<f32> {tg.name = "link1_momentum", tg.role = "scalar", tg.formula = "link1_momentum"}) -> (tensor<2xf32> {tg.name = "gradient", tg.role = "gradient"}, tensor<2xf32> {tg.name = "scale_by_sgd.momentum", tg.role = "update"}) attributes {tg.updates = ["a", "b"], tg.stage = 0 : i64} {
// CORES-NEXT:   %4 = tg.broadcast %3 shape = [2] dims = [] : tensor<f32>
// CORES-NEXT:   %5 = tg.mul %2, %4 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %6 = tg.add %5, %0 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   func.return %6, %6 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT: }
// CORES: func.func private @scale_by_adagrad(%0: tensor<2xf32> {tg.name = "gradient", tg.role = "gradient"}, %1: tensor<2xf32> {tg.name = "parameter", tg.role = "parameter"}, %2: tensor<2xf32> {tg.name = "scale_by_adagrad.sum", tg.role = "state"}, %3: tensor<f32> {tg.name = "link2_eps", tg.role = "scalar", tg.formula = "link2_eps"}) -> (tensor<2xf32> {tg.name = "gradient", tg.role = "gradient"}, tensor<2xf32> {tg.name = "scale_by_adagrad.sum", tg.role = "update"}) attributes {tg.updates = ["a", "b"], tg.stage = 1 : i64} {
// CORES-NEXT:   %4 = tg.mul %0, %0 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %5 = tg.add %2, %4 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %6 = tg.sqrt %5 : tensor<2xf32>
// CORES-NEXT:   %7 = tg.broadcast %3 shape = [2] dims = [] : tensor<f32>
// CORES-NEXT:   %8 = tg.add %6, %7 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %9 = tg.div %0, %8 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   func.return %9, %5 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT: }
// CORES: func.func private @scale_by_rmsprop(%0: tensor<2xf32> {tg.name = "gradient", tg.role = "gradient"}, %1: tensor<2xf32> {tg.name = "parameter", tg.role = "parameter"}, %2: tensor<2xf32> {tg.name = "scale_by_rmsprop.v", tg.role = "state"}, %3: tensor<f32> {tg.name = "link3_alpha", tg.role = "scalar", tg.formula = "link3_alpha"}, %4: tensor<f32> {tg.name = "1 - link3_alpha", tg.role = "scalar", tg.formula = "1 - link3_alpha"}, %5: tensor<f32> {tg.name = "link3_eps", tg.role = "scalar", tg.formula = "link3_eps"}) -> (tensor<2xf32> {tg.name = "gradient", tg.role = "gradient"}, tensor<2xf32> {tg.name = "scale_by_rmsprop.v", tg.role = "update"}) attributes {tg.updates = ["a", "b"], tg.stage = 2 : i64} {
// CORES-NEXT:   %6 = tg.broadcast %3 shape = [2] dims = [] : tensor<f32>
// CORES-NEXT:   %7 = tg.mul %2, %6 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %8 = tg.mul %0, %0 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %9 = tg.broadcast %4 shape = [2] dims = [] : tensor<f32>
// CORES-NEXT:   %10 = tg.mul %8, %9 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %11 = tg.add %7, %10 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %12 = tg.sqrt %11 : tensor<2xf32>
// CORES-NEXT:   %13 = tg.broadcast %5 shape = [2] dims = [] : tensor<f32>
// CORES-NEXT:   %14 = tg.add %12, %13 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %15 = tg.div %0, %14 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   func.return %15, %11 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT: }
// CORES: func.func private @scale_by_adam(%0: tensor<2xf32> {tg.name = "gradient", tg.role = "gradient"}, %1: tensor<2xf32> {tg.name = "parameter", tg.role = "parameter"}, %2: tensor<2xf32> {tg.name = "scale_by_adam.m", tg.role = "state"}, %3: tensor<2xf32> {tg.name = "scale_by_adam.v", tg.role = "state"}, %4: tensor<f32> {tg.name = "1 - link4_beta1", tg.role = "scalar", tg.formula = "1 - link4_beta1"}, %5: tensor<f32> {tg.name = "link4_beta2", tg.role = "scalar", tg.formula = "link4_beta2"}, %6: tensor<f32> {tg.name = "1 - link4_beta2", tg.role = "scalar", tg.formula = "1 - link4_beta2"}, %7: tensor<f32> {tg.name = "sqrt(1 - link4_beta2 ** step)", tg.role = "scalar", tg.formula = "sqrt(1 - link4_beta2 ** step)"}, %8: tensor<f32> {tg.name = "link4_eps", tg.role = "scalar", tg.formula = "link4_eps"}, %9: tensor<f32> {tg.name = "1.0 / (1 - link4_beta1 ** step)", tg.role = "scalar", tg.formula = "1.0 / (1 - link4_beta1 ** step)"}) -> (tensor<2xf32> {tg.name = "gradient", tg.role = "gradient"}, tensor<2xf32> {tg.name = "scale_by_adam.m", tg.role = "update"}, tensor<2xf32> {tg.name = "scale_by_adam.v", tg.role = "update"}) attributes {tg.updates = ["a", "b"], tg.stage = 3 : i64} {
// CORES-NEXT:   %10 = tg.sub %0, %2 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %11 = tg.broadcast %4 shape = [2] dims = [] : tensor<f32>
// CORES-NEXT:   %12 = tg.mul %10, %11 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %13 = tg.add %2, %12 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %14 = tg.broadcast %5 shape = [2] dims = [] : tensor<f32>
// CORES-NEXT:   %15 = tg.mul %3, %14 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %16 = tg.mul %0, %0 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %17 = tg.broadcast %6 shape = [2] dims = [] : tensor<f32>
// CORES-NEXT:   %18 = tg.mul %16, %17 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %19 = tg.add %15, %18 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %20 = tg.sqrt %19 : tensor<2xf32>
// CORES-NEXT:   %21 = tg.broadcast %7 shape = [2] dims = [] : tensor<f32>
// CORES-NEXT:   %22 = tg.div %20, %21 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %23 = tg.broadcast %8 shape = [2] dims = [] : tensor<f32>
// CORES-NEXT:   %24 = tg.add %22, %23 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %25 = tg.div %13, %24 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %26 = tg.broadcast %9 shape = [2] dims = [] : tensor<f32>
// CORES-NEXT:   %27 = tg.mul %26, %25 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   func.return %27, %13, %19 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
// CORES-NEXT: }
// CORES: func.func private @adam(%0: tensor<2xf32> {tg.name = "gradient", tg.role = "gradient"}, %1: tensor<2xf32> {tg.name = "parameter", tg.role = "parameter"}, %2: tensor<2xf32> {tg.name = "adam.m", tg.role = "state"}, %3: tensor<2xf32> {tg.name = "adam.v", tg.role = "state"}, %4: tensor<f32> {tg.name = "1 - beta1", tg.role = "scalar", tg.formula = "1 - beta1"}, %5: tensor<f32> {tg.name = "beta2", tg.role = "scalar", tg.formula = "beta2"}, %6: tensor<f32> {tg.name = "1 - beta2", tg.role = "scalar", tg.formula = "1 - beta2"}, %7: tensor<f32> {tg.name = "sqrt(1 - beta2 ** step)", tg.role = "scalar", tg.formula = "sqrt(1 - beta2 ** step)"}, %8: tensor<f32> {tg.name = "eps", tg.role = "scalar", tg.formula = "eps"}, %9: tensor<f32> {tg.name = "learning_rate / (1 - beta1 ** step)", tg.role = "scalar", tg.formula = "learning_rate / (1 - beta1 ** step)"}) -> (tensor<2xf32> {tg.name = "parameter", tg.role = "update"}, tensor<2xf32> {tg.name = "adam.m", tg.role = "update"}, tensor<2xf32> {tg.name = "adam.v", tg.role = "update"}) attributes {tg.updates = ["a", "b"], tg.stage = 4 : i64} {
// CORES-NEXT:   %10 = tg.sub %0, %2 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %11 = tg.broadcast %4 shape = [2] dims = [] : tensor<f32>
// CORES-NEXT:   %12 = tg.mul %10, %11 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %13 = tg.add %2, %12 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %14 = tg.broadcast %5 shape = [2] dims = [] : tensor<f32>
// CORES-NEXT:   %15 = tg.mul %3, %14 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %16 = tg.mul %0, %0 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %17 = tg.broadcast %6 shape = [2] dims = [] : tensor<f32>
// CORES-NEXT:   %18 = tg.mul %16, %17 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %19 = tg.add %15, %18 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %20 = tg.sqrt %19 : tensor<2xf32>
// CORES-NEXT:   %21 = tg.broadcast %7 shape = [2] dims = [] : tensor<f32>
// CORES-NEXT:   %22 = tg.div %20, %21 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %23 = tg.broadcast %8 shape = [2] dims = [] : tensor<f32>
// CORES-NEXT:   %24 = tg.add %22, %23 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %25 = tg.div %13, %24 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %26 = tg.broadcast %9 shape = [2] dims = [] : tensor<f32>
// CORES-NEXT:   %27 = tg.mul %26, %25 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   %28 = tg.sub %1, %27 : tensor<2xf32>, tensor<2xf32>
// CORES-NEXT:   func.return %28, %13, %19 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
// CORES-NEXT: }

// EACH: func.func @step(%a: tensor<2xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<2xf32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2xf32> {tg.name = "arg2", tg.role = "input"}, %gb: tensor<2xf32> {tg.name = "arg3", tg.role = "input"}, %0: tensor<f32> {tg.name = "link1_eps", tg.role = "scalar", tg.formula = "link1_eps"}, %1: tensor<f32> {tg.name = "link1_scale", tg.role = "scalar", tg.formula = "link1_scale"}, %2: tensor<f32> {tg.name = "learning_rate", tg.role = "scalar", tg.formula = "learning_rate"}) -> (tensor<2xf32> {tg.name = "a", tg.role = "update"}, tensor<2xf32> {tg.name = "b", tg.role = "update"}) {
// EACH-NEXT:   %3 = tg.mul %ga, %ga : tensor<2xf32>, tensor<2xf32>
// EACH-NEXT:   %4 = tg.sum %3 axes = [0] : tensor<2xf32>
// EACH-NEXT:   %5 = tg.sqrt %4 : tensor<f32>
// EACH-NEXT:   %6 = tg.add %5, %0 : tensor<f32>, tensor<f32>
// EACH-NEXT:   %7 = tg.div %1, %6 : tensor<f32>, tensor<f32>
// EACH-NEXT:   %8 = tg.broadcast %7 shape = [2] dims = [] : tensor<f32>
// EACH-NEXT:   %9 = tg.mul %ga, %8 : tensor<2xf32>, tensor<2xf32>
// EACH-NEXT:   %10 = tg.broadcast %2 shape = [2] dims = [] : tensor<f32>
// EACH-NEXT:   %11 = tg.mul %9, %10 : tensor<2xf32>, tensor<2xf32>
// EACH-NEXT:   %12 = tg.sub %a, %11 : tensor<2xf32>, tensor<2xf32>
// EACH-NEXT:   %13 = tg.mul %gb, %gb : tensor<2xf32>, tensor<2xf32>
// EACH-NEXT:   %14 = tg.sum %13 axes = [0] : tensor<2xf32>
// EACH-NEXT:   %15 = tg.sqrt %14 : tensor<f32>
// EACH-NEXT:   %16 = tg.add %15, %0 : tensor<f32>, tensor<f32>
// EACH-NEXT:   %17 = tg.div %1, %16 : tensor<f32>, tensor<f32>
// EACH-NEXT:   %18 = tg.broadcast %17 shape = [2] dims = [] : tensor<f32>
// EACH-NEXT:   %19 = tg.mul %gb, %18 : tensor<2xf32>, tensor<2xf32>
// EACH-NEXT:   %20 = tg.mul %19, %10 : tensor<2xf32>, tensor<2xf32>
// EACH-NEXT:   %21 = tg.sub %b, %20 : tensor<2xf32>, tensor<2xf32>
// EACH-NEXT:   func.return %12, %21 : tensor<2xf32>, tensor<2xf32>
// EACH-NEXT: }
