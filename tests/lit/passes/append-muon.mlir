// RUN: tg-opt %s -p 'append-muon{steps=1 others="append-sgd{momentum=0.9 host=rest_}"},simplify' | filecheck %s
// RUN: tg-opt %s -p 'append-muon{only="a" others="append-lion"}' | filecheck %s --check-prefix ONLY
// RUN: not tg-opt %s -p 'append-muon' 2>&1 | filecheck %s --check-prefix ALONE
// RUN: not tg-opt %s -p 'append-muon{others="append-muon"}' 2>&1 | filecheck %s --check-prefix OTHERS
// RUN: not tg-opt %s -p 'append-muon{others="append-sgd{clip-norm=1}"}' 2>&1 | filecheck %s --check-prefix OTHERS
// RUN: not tg-opt %s -p 'append-muon{others="simplify"}' 2>&1 | filecheck %s --check-prefix NONE
// RUN: not tg-opt %s -p 'append-muon{steps=100}' 2>&1 | filecheck %s --check-prefix STEPS
// RUN: not tg-opt %s -p 'append-muon{adjust=no}' 2>&1 | filecheck %s --check-prefix ADJUST

// Matrices of one shape go through the iteration as one; others have another optimizer.
func.func @step(%a: tensor<2x3xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<4xf32> {tg.name = "b", tg.role = "parameter"}, %c: tensor<2x3xf32> {tg.name = "c", tg.role = "parameter"}, %ga: tensor<2x3xf32>, %gb: tensor<4xf32>, %gc: tensor<2x3xf32>) -> (tensor<2x3xf32> {tg.name = "a", tg.role = "gradient"}, tensor<4xf32> {tg.name = "b", tg.role = "gradient"}, tensor<2x3xf32> {tg.name = "c", tg.role = "gradient"}) {
  func.return %ga, %gb, %gc : tensor<2x3xf32>, tensor<4xf32>, tensor<2x3xf32>
}

// ALONE: tg-opt: error: append-muon: @step: it does not take 'b' of shape [4], no matrix; give others=, an optimizer for the rest
// OTHERS: tg-opt: error: append-muon: others must be another optimizer, without links or clipping: these are for all gradients
// NONE: tg-opt: error: append-muon: others must be the pass of an optimizer, got 'simplify'
// STEPS: tg-opt: error: append-muon: steps must be from 0 to below 100, got 100
// ADJUST: tg-opt: error: append-muon: adjust must be original or match_rms_adamw, got 'no'

// CHECK: func.func @step(%a: tensor<2x3xf32> {tg.name = "a", tg.role = "parameter"}, %c: tensor<2x3xf32> {tg.name = "c", tg.role = "parameter"}, %b: tensor<4xf32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2x3xf32> {tg.name = "arg3", tg.role = "input"}, %gb: tensor<4xf32> {tg.name = "arg4", tg.role = "input"}, %gc: tensor<2x3xf32> {tg.name = "arg5", tg.role = "input"}, %0: tensor<2x3xf32> {tg.name = "muon.m/a", tg.role = "state"}, %1: tensor<2x3xf32> {tg.name = "muon.m/c", tg.role = "state"}, %2: tensor<4xf32> {tg.name = "sgd.momentum/b", tg.role = "state"}, %3: tensor<f32> {tg.name = "muon.step_size", tg.role = "scalar", tg.formula = "learning_rate"}, %4: tensor<f32> {tg.name = "sgd.step_size", tg.role = "scalar", tg.formula = "rest_learning_rate"}) -> (tensor<2x3xf32> {tg.name = "a", tg.role = "update"}, tensor<4xf32> {tg.name = "b", tg.role = "update"}, tensor<2x3xf32> {tg.name = "c", tg.role = "update"}, tensor<2x3xf32> {tg.name = "muon.m/a", tg.role = "update"}, tensor<2x3xf32> {tg.name = "muon.m/c", tg.role = "update"}, tensor<4xf32> {tg.name = "sgd.momentum/b", tg.role = "update"}) {
// CHECK-NEXT:   %5 = tg.pack %ga, %gc, %gb offsets = [0, 64, 128] size = 1024 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<4xf32>
// CHECK-NEXT:   %6 = tg.slice %5 start = [0] stop = [70] step = [1] : tensor<1024xf32>
// CHECK-NEXT:   %7 = tg.pack %a, %c offsets = [0, 64] size = 70 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %8 = tg.pack %0, %1 offsets = [0, 64] size = 70 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %9 = tg.constant value = dense<9.500000e-01> : tensor<70xf32>
// CHECK-NEXT:   %10 = tg.mul %8, %9 : tensor<70xf32>, tensor<70xf32>
// CHECK-NEXT:   %11 = tg.constant value = dense<5.000000e-02> : tensor<70xf32>
// CHECK-NEXT:   %12 = tg.mul %6, %11 : tensor<70xf32>, tensor<70xf32>
// CHECK-NEXT:   %13 = tg.add %10, %12 : tensor<70xf32>, tensor<70xf32>
// CHECK-NEXT:   %14 = tg.mul %13, %9 : tensor<70xf32>, tensor<70xf32>
// CHECK-NEXT:   %15 = tg.add %14, %12 : tensor<70xf32>, tensor<70xf32>
// CHECK-NEXT:   %16 = tg.constant value = dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT:   %17 = tg.pad %15, %16 low = [0] high = [58] interior = [0] : tensor<70xf32>, tensor<f32>
// CHECK-NEXT:   %18 = tg.reshape %17 shape = [2, 64] : tensor<128xf32>
// CHECK-NEXT:   %19 = tg.slice %18 start = [0, 0] stop = [2, 6] step = [1, 1] : tensor<2x64xf32>
// CHECK-NEXT:   %20 = tg.reshape %19 shape = [2, 2, 3] : tensor<2x6xf32>
// CHECK-NEXT:   %21 = tg.mul %20, %20 : tensor<2x2x3xf32>, tensor<2x2x3xf32>
// CHECK-NEXT:   %22 = tg.sum %21 axes = [2] : tensor<2x2x3xf32>
// CHECK-NEXT:   %23 = tg.sum %22 axes = [1] : tensor<2x2xf32>
// CHECK-NEXT:   %24 = tg.sqrt %23 : tensor<2xf32>
// CHECK-NEXT:   %25 = tg.constant value = dense<1.000000e-07> : tensor<2xf32>
// CHECK-NEXT:   %26 = tg.maximum %24, %25 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %27 = tg.broadcast %26 shape = [2, 2, 3] dims = [0] : tensor<2xf32>
// CHECK-NEXT:   %28 = tg.div %20, %27 : tensor<2x2x3xf32>, tensor<2x2x3xf32>
// CHECK-NEXT:   %29 = tg.dot_general %28, %28 lhs_batch = [0] rhs_batch = [0] lhs_contracting = [2] rhs_contracting = [2] : tensor<2x2x3xf32>, tensor<2x2x3xf32>
// CHECK-NEXT:   %30 = tg.constant value = dense<-4.775000e+00> : tensor<2x2x2xf32>
// CHECK-NEXT:   %31 = tg.mul %29, %30 : tensor<2x2x2xf32>, tensor<2x2x2xf32>
// CHECK-NEXT:   %32 = tg.dot_general %29, %29 lhs_batch = [0] rhs_batch = [0] lhs_contracting = [2] rhs_contracting = [1] : tensor<2x2x2xf32>, tensor<2x2x2xf32>
// CHECK-NEXT:   %33 = tg.constant value = dense<2.031500e+00> : tensor<2x2x2xf32>
// CHECK-NEXT:   %34 = tg.mul %32, %33 : tensor<2x2x2xf32>, tensor<2x2x2xf32>
// CHECK-NEXT:   %35 = tg.add %31, %34 : tensor<2x2x2xf32>, tensor<2x2x2xf32>
// CHECK-NEXT:   %36 = tg.constant value = dense<3.444500e+00> : tensor<2x2x3xf32>
// CHECK-NEXT:   %37 = tg.mul %28, %36 : tensor<2x2x3xf32>, tensor<2x2x3xf32>
// CHECK-NEXT:   %38 = tg.dot_general %35, %28 lhs_batch = [0] rhs_batch = [0] lhs_contracting = [2] rhs_contracting = [1] : tensor<2x2x2xf32>, tensor<2x2x3xf32>
// CHECK-NEXT:   %39 = tg.add %37, %38 : tensor<2x2x3xf32>, tensor<2x2x3xf32>
// CHECK-NEXT:   %40 = tg.constant value = dense<1.22474492> : tensor<2x2x3xf32>
// CHECK-NEXT:   %41 = tg.mul %39, %40 : tensor<2x2x3xf32>, tensor<2x2x3xf32>
// CHECK-NEXT:   %42 = tg.reshape %41 shape = [2, 6] : tensor<2x2x3xf32>
// CHECK-NEXT:   %43 = tg.pad %42, %16 low = [0, 0] high = [0, 58] interior = [0, 0] : tensor<2x6xf32>, tensor<f32>
// CHECK-NEXT:   %44 = tg.reshape %43 shape = [128] : tensor<2x64xf32>
// CHECK-NEXT:   %45 = tg.slice %44 start = [0] stop = [70] step = [1] : tensor<128xf32>
// CHECK-NEXT:   %46 = tg.broadcast %3 shape = [70] dims = [] : tensor<f32>
// CHECK-NEXT:   %47 = tg.mul %45, %46 : tensor<70xf32>, tensor<70xf32>
// CHECK-NEXT:   %48 = tg.sub %7, %47 : tensor<70xf32>, tensor<70xf32>
// CHECK-NEXT:   %49 = tg.slice %48 start = [0] stop = [6] step = [1] : tensor<70xf32>
// CHECK-NEXT:   %50 = tg.reshape %49 shape = [2, 3] : tensor<6xf32>
// CHECK-NEXT:   %51 = tg.slice %48 start = [64] stop = [70] step = [1] : tensor<70xf32>
// CHECK-NEXT:   %52 = tg.reshape %51 shape = [2, 3] : tensor<6xf32>
// CHECK-NEXT:   %53 = tg.slice %13 start = [0] stop = [6] step = [1] : tensor<70xf32>
// CHECK-NEXT:   %54 = tg.reshape %53 shape = [2, 3] : tensor<6xf32>
// CHECK-NEXT:   %55 = tg.slice %13 start = [64] stop = [70] step = [1] : tensor<70xf32>
// CHECK-NEXT:   %56 = tg.reshape %55 shape = [2, 3] : tensor<6xf32>
// CHECK-NEXT:   %57 = tg.slice %5 start = [128] stop = [132] step = [1] : tensor<1024xf32>
// CHECK-NEXT:   %58 = tg.constant value = dense<9.000000e-01> : tensor<4xf32>
// CHECK-NEXT:   %59 = tg.mul %2, %58 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %60 = tg.add %59, %57 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %61 = tg.broadcast %4 shape = [4] dims = [] : tensor<f32>
// CHECK-NEXT:   %62 = tg.mul %60, %61 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %63 = tg.sub %b, %62 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   func.return %50, %63, %52, %54, %56, %60 : tensor<2x3xf32>, tensor<4xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<4xf32>
// CHECK-NEXT: }

// ONLY: tg.name = "muon.m/a", tg.role = "state"}, %1: tensor<4xf32> {tg.name = "lion.m/b", tg.role = "state"}, %2: tensor<2x3xf32> {tg.name = "lion.m/c", tg.role = "state"}
// ONLY: tg.dot_general
