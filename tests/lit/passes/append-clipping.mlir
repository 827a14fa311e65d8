// RUN: tg-opt %s -p 'append-sgd{clip-norm=2.5 learning-rate="learning_rate / sqrt(step)" weight-decay=0.5 decay="a","c"}' | filecheck %s
// RUN: not tg-opt %s -p 'append-sgd{clip-norm=0}' 2>&1 | filecheck %s --check-prefix ERROR

// The norm is that of all gradients, in one row; the learning rate is a formula. Parameters that decay come first, as
// rows of their own; the update of a parameter that is alone in its group needs no row.
func.func @loss(%a: tensor<2xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<f32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2xf32>, %gb: tensor<f32>, %c: tensor<3xf32> {tg.name = "c", tg.role = "parameter"}, %gc: tensor<3xf32>) -> (tensor<2xf32> {tg.name = "a", tg.role = "gradient"}, tensor<f32> {tg.name = "b", tg.role = "gradient"}, tensor<3xf32> {tg.name = "c", tg.role = "gradient"}) {
  func.return %ga, %gb, %gc : tensor<2xf32>, tensor<f32>, tensor<3xf32>
}

// ERROR: tg-opt: error: append-sgd: clip_norm must be more than 0 and finite, got 0.0

// CHECK: func.func @loss(%a: tensor<2xf32> {tg.name = "a", tg.role = "parameter"}, %c: tensor<3xf32> {tg.name = "c", tg.role = "parameter"}, %ga: tensor<2xf32> {tg.name = "arg2", tg.role = "input"}, %gb: tensor<f32> {tg.name = "arg3", tg.role = "input"}, %b: tensor<f32> {tg.name = "b", tg.role = "parameter"}, %gc: tensor<3xf32> {tg.name = "arg5", tg.role = "input"}, %0: tensor<f32> {tg.name = "sgd.step_size", tg.role = "scalar", tg.formula = "(learning_rate / sqrt(step))"}) -> (tensor<2xf32> {tg.name = "a", tg.role = "update"}, tensor<f32> {tg.name = "b", tg.role = "update"}, tensor<3xf32> {tg.name = "c", tg.role = "update"}) {
// CHECK-NEXT:   %1 = tg.pack %ga, %gc, %gb offsets = [0, 64, 128] size = 1024 : tensor<2xf32>, tensor<3xf32>, tensor<f32>
// CHECK-NEXT:   %2 = tg.reshape %1 shape = [1, 1024] : tensor<1024xf32>
// CHECK-NEXT:   %3 = tg.mul %2, %2 : tensor<1x1024xf32>, tensor<1x1024xf32>
// CHECK-NEXT:   %4 = tg.sum %3 axes = [1] : tensor<1x1024xf32>
// CHECK-NEXT:   %5 = tg.sum %4 axes = [0] : tensor<1xf32>
// CHECK-NEXT:   %6 = tg.sqrt %5 : tensor<f32>
// CHECK-NEXT:   %7 = tg.constant value = dense<2.500000e+00> : tensor<f32>
// CHECK-NEXT:   %8 = tg.constant value = dense<1.000000e-06> : tensor<f32>
// CHECK-NEXT:   %9 = tg.add %6, %8 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %10 = tg.div %7, %9 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %11 = tg.constant value = dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT:   %12 = tg.compare %10, %11 predicate = "gt" : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %13 = tg.select %12, %11, %10 : tensor<i1>, tensor<f32>, tensor<f32>
// CHECK-NEXT:   %14 = tg.slice %1 start = [0] stop = [67] step = [1] : tensor<1024xf32>
// CHECK-NEXT:   %15 = tg.pack %a, %c offsets = [0, 64] size = 67 : tensor<2xf32>, tensor<3xf32>
// CHECK-NEXT:   %16 = tg.broadcast %13 shape = [67] dims = [] : tensor<f32>
// CHECK-NEXT:   %17 = tg.mul %14, %16 : tensor<67xf32>, tensor<67xf32>
// CHECK-NEXT:   %18 = tg.constant value = dense<5.000000e-01> : tensor<67xf32>
// CHECK-NEXT:   %19 = tg.mul %15, %18 : tensor<67xf32>, tensor<67xf32>
// CHECK-NEXT:   %20 = tg.add %17, %19 : tensor<67xf32>, tensor<67xf32>
// CHECK-NEXT:   %21 = tg.broadcast %0 shape = [67] dims = [] : tensor<f32>
// CHECK-NEXT:   %22 = tg.mul %20, %21 : tensor<67xf32>, tensor<67xf32>
// CHECK-NEXT:   %23 = tg.sub %15, %22 : tensor<67xf32>, tensor<67xf32>
// CHECK-NEXT:   %24 = tg.slice %23 start = [0] stop = [2] step = [1] : tensor<67xf32>
// CHECK-NEXT:   %25 = tg.slice %23 start = [64] stop = [67] step = [1] : tensor<67xf32>
// CHECK-NEXT:   %26 = tg.slice %1 start = [128] stop = [129] step = [1] : tensor<1024xf32>
// CHECK-NEXT:   %27 = tg.reshape %26 shape = [] : tensor<1xf32>
// CHECK-NEXT:   %28 = tg.mul %27, %13 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %29 = tg.mul %28, %0 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %30 = tg.sub %b, %29 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   func.return %24, %30, %25 : tensor<2xf32>, tensor<f32>, tensor<3xf32>
// CHECK-NEXT: }
