// RUN: tg-opt %s -p 'trace-optimizer{optimizer="sgd(Schedule(0.1, \"1 / sqrt(step)\"), clip_norm=2.5, weight_decay=0.5, decay=(\"a\", \"c\"))"},pack-updates,append-updates' | filecheck %s
// RUN: tg-opt %s -p 'trace-optimizer{optimizer="sgd(0.1, groups={\"a\": {\"learning_rate\": 0.5}})"},pack-updates,append-updates' | filecheck %s --check-prefix GROUPS
// RUN: not tg-opt %s -p 'trace-optimizer{optimizer="sgd(0.1, clip_norm=0)"}' 2>&1 | filecheck %s --check-prefix ERROR
// RUN: not tg-opt %s -p 'trace-optimizer{optimizer="sgd(0.1, groups={\"a\": {\"colour\": 1}})"}' 2>&1 | filecheck %s --check-prefix SETTING

// The global norm is taken over one row of all gradients; the learning rate is a formula. `a` and `c`, which decay,
// come first and are updated together; `b`, alone in its group, is updated without packing.
func.func @loss(%a: tensor<2xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<f32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2xf32>, %gb: tensor<f32>, %c: tensor<3xf32> {tg.name = "c", tg.role = "parameter"}, %gc: tensor<3xf32>) -> (tensor<2xf32> {tg.name = "a", tg.role = "gradient"}, tensor<f32> {tg.name = "b", tg.role = "gradient"}, tensor<3xf32> {tg.name = "c", tg.role = "gradient"}) {
  func.return %ga, %gb, %gc : tensor<2xf32>, tensor<f32>, tensor<3xf32>
}

// SETTING: tg-opt: error: trace-optimizer: sgd: groups['a'] has no setting 'colour'; there are learning_rate, momentum, dampening, weight_decay

// ERROR: tg-opt: error: trace-optimizer: sgd: clip_norm must be more than 0, got 0

// CHECK: func.func @loss(%a: tensor<2xf32> {tg.name = "a", tg.role = "parameter"}, %c: tensor<3xf32> {tg.name = "c", tg.role = "parameter"}, %ga: tensor<2xf32> {tg.name = "arg2", tg.role = "input"}, %gb: tensor<f32> {tg.name = "arg3", tg.role = "input"}, %b: tensor<f32> {tg.name = "b", tg.role = "parameter"}, %gc: tensor<3xf32> {tg.name = "arg5", tg.role = "input"}, %0: tensor<f32> {tg.name = "clip_norm", tg.role = "scalar", tg.formula = "clip_norm"}, %1: tensor<f32> {tg.name = "weight_decay", tg.role = "scalar", tg.formula = "weight_decay"}, %2: tensor<f32> {tg.name = "(learning_rate * (1 / sqrt(step)))", tg.role = "scalar", tg.formula = "(learning_rate * (1 / sqrt(step)))"}) -> (tensor<2xf32> {tg.name = "a", tg.role = "update"}, tensor<f32> {tg.name = "b", tg.role = "update"}, tensor<3xf32> {tg.name = "c", tg.role = "update"}) {
// CHECK-NEXT:   %3 = tg.pack %ga, %gc, %gb offsets = [0, 64, 128] size = 1024 : tensor<2xf32>, tensor<3xf32>, tensor<f32>
// CHECK-NEXT:   %4 = tg.reshape %3 shape = [1, 1024] : tensor<1024xf32>
// CHECK-NEXT:   %5 = tg.mul %4, %4 : tensor<1x1024xf32>, tensor<1x1024xf32>
// CHECK-NEXT:   %6 = tg.sum %5 axes = [1] : tensor<1x1024xf32>
// CHECK-NEXT:   %7 = tg.sum %6 axes = [0] : tensor<1xf32>
// CHECK-NEXT:   %8 = tg.sqrt %7 : tensor<f32>
// CHECK-NEXT:   %9 = tg.slice %3 start = [0] stop = [67] step = [1] : tensor<1024xf32>
// CHECK-NEXT:   %10 = tg.pack %a, %c offsets = [0, 64] size = 67 : tensor<2xf32>, tensor<3xf32>
// CHECK-NEXT:   %11 = tg.constant value = dense<1.000000e-06> : tensor<f32>
// CHECK-NEXT:   %12 = tg.add %8, %11 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %13 = tg.div %0, %12 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %14 = tg.constant value = dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT:   %15 = tg.compare %13, %14 predicate = "gt" : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %16 = tg.constant value = dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT:   %17 = tg.select %15, %16, %13 : tensor<i1>, tensor<f32>, tensor<f32>
// CHECK-NEXT:   %18 = tg.broadcast %17 shape = [67] dims = [] : tensor<f32>
// CHECK-NEXT:   %19 = tg.mul %9, %18 : tensor<67xf32>, tensor<67xf32>
// CHECK-NEXT:   %20 = tg.broadcast %1 shape = [67] dims = [] : tensor<f32>
// CHECK-NEXT:   %21 = tg.mul %10, %20 : tensor<67xf32>, tensor<67xf32>
// CHECK-NEXT:   %22 = tg.add %19, %21 : tensor<67xf32>, tensor<67xf32>
// CHECK-NEXT:   %23 = tg.broadcast %2 shape = [67] dims = [] : tensor<f32>
// CHECK-NEXT:   %24 = tg.mul %22, %23 : tensor<67xf32>, tensor<67xf32>
// CHECK-NEXT:   %25 = tg.sub %10, %24 : tensor<67xf32>, tensor<67xf32>
// CHECK-NEXT:   %26 = tg.slice %25 start = [0] stop = [2] step = [1] : tensor<67xf32>
// CHECK-NEXT:   %27 = tg.slice %25 start = [64] stop = [67] step = [1] : tensor<67xf32>
// CHECK-NEXT:   %28 = tg.slice %3 start = [128] stop = [129] step = [1] : tensor<1024xf32>
// CHECK-NEXT:   %29 = tg.reshape %28 shape = [] : tensor<1xf32>
// CHECK-NEXT:   %30 = tg.constant value = dense<1.000000e-06> : tensor<f32>
// CHECK-NEXT:   %31 = tg.add %8, %30 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %32 = tg.div %0, %31 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %33 = tg.constant value = dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT:   %34 = tg.compare %32, %33 predicate = "gt" : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %35 = tg.constant value = dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT:   %36 = tg.select %34, %35, %32 : tensor<i1>, tensor<f32>, tensor<f32>
// CHECK-NEXT:   %37 = tg.mul %29, %36 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %38 = tg.mul %37, %2 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   %39 = tg.sub %b, %38 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   func.return %26, %39, %27 : tensor<2xf32>, tensor<f32>, tensor<3xf32>
// CHECK-NEXT: }

// GROUPS: func.func @loss(%a: tensor<2xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<f32> {tg.name = "b", tg.role = "parameter"}, %ga: tensor<2xf32> {tg.name = "arg2", tg.role = "input"}, %gb: tensor<f32> {tg.name = "arg3", tg.role = "input"}, %c: tensor<3xf32> {tg.name = "c", tg.role = "parameter"}, %gc: tensor<3xf32> {tg.name = "arg5", tg.role = "input"}, %0: tensor<f32> {tg.name = "group1_learning_rate", tg.role = "scalar", tg.formula = "group1_learning_rate"}, %1: tensor<f32> {tg.name = "learning_rate", tg.role = "scalar", tg.formula = "learning_rate"}) -> (tensor<2xf32> {tg.name = "a", tg.role = "update"}, tensor<f32> {tg.name = "b", tg.role = "update"}, tensor<3xf32> {tg.name = "c", tg.role = "update"}) {
// GROUPS-NEXT:   %2 = tg.broadcast %0 shape = [2] dims = [] : tensor<f32>
// GROUPS-NEXT:   %3 = tg.mul %ga, %2 : tensor<2xf32>, tensor<2xf32>
// GROUPS-NEXT:   %4 = tg.sub %a, %3 : tensor<2xf32>, tensor<2xf32>
// GROUPS-NEXT:   %5 = tg.mul %gb, %1 : tensor<f32>, tensor<f32>
// GROUPS-NEXT:   %6 = tg.sub %b, %5 : tensor<f32>, tensor<f32>
// GROUPS-NEXT:   %7 = tg.broadcast %1 shape = [3] dims = [] : tensor<f32>
// GROUPS-NEXT:   %8 = tg.mul %gc, %7 : tensor<3xf32>, tensor<3xf32>
// GROUPS-NEXT:   %9 = tg.sub %c, %8 : tensor<3xf32>, tensor<3xf32>
// GROUPS-NEXT:   func.return %4, %6, %9 : tensor<2xf32>, tensor<f32>, tensor<3xf32>
// GROUPS-NEXT: }
