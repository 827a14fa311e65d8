// RUN: tg-opt %s -p stablehlo-to-tg,canonicalize,cse | filecheck %s

// CHECK-LABEL: func.func @reductions
func.func @reductions(%x: tensor<4x5xf32>, %p: tensor<4x5xi1>, %init: tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<i1>, tensor<4xi32>) {
  // CHECK: %{{.*}} = tg.constant value = dense<false> : tensor<i1>
  // CHECK-NEXT: %{{.*}} = tg.sum %x axes = [1] : tensor<4x5xf32>
  // CHECK-NEXT: %{{.*}} = tg.max %x axes = [1] : tensor<4x5xf32>
  // CHECK-NEXT: %{{.*}} = tg.broadcast %init shape = [4] dims = [] : tensor<f32>
  // CHECK-NEXT: %{{.*}} = tg.maximum %{{.*}}, %{{.*}} : tensor<4xf32>, tensor<4xf32>
  // CHECK-NEXT: %{{.*}} = tg.cast %p to = i32 : tensor<4x5xi1>
  // CHECK-NEXT: %{{.*}} = tg.max %{{.*}} axes = [0, 1] : tensor<4x5xi32>
  // CHECK-NEXT: %{{.*}} = tg.cast %{{.*}} to = i1 : tensor<i32>
  // CHECK-NEXT: %{{.*}} = tg.or %{{.*}}, %{{.*}} : tensor<i1>, tensor<i1>
  // CHECK-NEXT: %{{.*}} = tg.iota shape = [4, 5] axis = 1 element = i32
  // CHECK-NEXT: %{{.*}} = tg.broadcast %{{.*}} shape = [4, 5] dims = [0] : tensor<4xf32>
  // CHECK-NEXT: %{{.*}} = tg.compare %x, %{{.*}} predicate = "eq" : tensor<4x5xf32>, tensor<4x5xf32>
  // CHECK-NEXT: %{{.*}} = tg.compare %x, %x predicate = "ne" : tensor<4x5xf32>, tensor<4x5xf32>
  // CHECK-NEXT: %{{.*}} = tg.or %{{.*}}, %{{.*}} : tensor<4x5xi1>, tensor<4x5xi1>
  // CHECK-NEXT: %{{.*}} = tg.constant value = dense<5> : tensor<4x5xi32>
  // CHECK-NEXT: %{{.*}} = tg.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<4x5xi1>, tensor<4x5xi32>, tensor<4x5xi32>
  // CHECK-NEXT: %{{.*}} = tg.min %{{.*}} axes = [1] : tensor<4x5xi32>
  // CHECK-NEXT: func.return %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : tensor<4xf32>, tensor<4xf32>, tensor<i1>, tensor<4xi32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %no = stablehlo.constant dense<false> : tensor<i1>
  %first = stablehlo.constant dense<0> : tensor<i32>
  %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x5xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = stablehlo.reduce(%x init: %init) applies stablehlo.maximum across dimensions = [1] : (tensor<4x5xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = stablehlo.reduce(%p init: %no) applies stablehlo.or across dimensions = [0, 1] : (tensor<4x5xi1>, tensor<i1>) -> tensor<i1>
  %places = stablehlo.iota dim = 1 : tensor<4x5xi32>
  %3:2 = stablehlo.reduce(%x init: %low), (%places init: %first) across dimensions = [1] : (tensor<4x5xf32>, tensor<4x5xi32>, tensor<f32>, tensor<i32>) -> (tensor<4xf32>, tensor<4xi32>)
   reducer(%a: tensor<f32>, %b: tensor<f32>) (%c: tensor<i32>, %d: tensor<i32>)  {
    %4 = stablehlo.compare GT, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %5 = stablehlo.compare NE, %a, %a, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %6 = stablehlo.or %4, %5 : tensor<i1>
    %7 = stablehlo.compare EQ, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %8 = stablehlo.compare LT, %c, %d, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %9 = stablehlo.and %7, %8 : tensor<i1>
    %10 = stablehlo.or %6, %9 : tensor<i1>
    %11 = stablehlo.select %6, %a, %b : tensor<i1>, tensor<f32>
    %12 = stablehlo.select %10, %c, %d : tensor<i1>, tensor<i32>
    stablehlo.return %11, %12 : tensor<f32>, tensor<i32>
  }
  return %0, %1, %2, %3#1 : tensor<4xf32>, tensor<4xf32>, tensor<i1>, tensor<4xi32>
}
// Booleans are compared as numbers.
// CHECK-LABEL: func.func @first_true
// CHECK: %[[NUMBERS:.*]] = tg.cast %p to = i32 : tensor<2x3xi1>
// CHECK-NEXT: %{{.*}} = tg.max %[[NUMBERS]] axes = [1] : tensor<2x3xi32>
func.func @first_true(%p: tensor<2x3xi1>) -> tensor<2xi32> {
  %first = stablehlo.constant dense<0> : tensor<i32>
  %no = stablehlo.constant dense<false> : tensor<i1>
  %places = stablehlo.iota dim = 1 : tensor<2x3xi32>
  %0:2 = stablehlo.reduce(%p init: %no), (%places init: %first) across dimensions = [1] : (tensor<2x3xi1>, tensor<2x3xi32>, tensor<i1>, tensor<i32>) -> (tensor<2xi1>, tensor<2xi32>)
   reducer(%a: tensor<i1>, %b: tensor<i1>) (%c: tensor<i32>, %d: tensor<i32>)  {
    %1 = stablehlo.compare GT, %a, %b, UNSIGNED : (tensor<i1>, tensor<i1>) -> tensor<i1>
    %2 = stablehlo.compare EQ, %a, %b, UNSIGNED : (tensor<i1>, tensor<i1>) -> tensor<i1>
    %3 = stablehlo.compare LT, %c, %d, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %4 = stablehlo.and %2, %3 : tensor<i1>
    %5 = stablehlo.or %1, %4 : tensor<i1>
    %6 = stablehlo.select %1, %a, %b : tensor<i1>, tensor<i1>
    %7 = stablehlo.select %5, %c, %d : tensor<i1>, tensor<i32>
    stablehlo.return %6, %7 : tensor<i1>, tensor<i32>
  }
  return %0#1 : tensor<2xi32>
}
// CHECK-LABEL: func.func @pool
func.func @pool(%x: tensor<2x8x8x3xf32>) -> tensor<2x4x4x3xf32> {
  // CHECK: %{{.*}} = tg.constant value = dense<0xff800000> : tensor<f32>
  // CHECK-NEXT: %{{.*}} = tg.pad %x, %{{.*}} low = [0, 0, 0, 0] high = [0, 1, 1, 0] interior = [0, 0, 0, 0] : tensor<2x8x8x3xf32>, tensor<f32>
  // CHECK-NEXT: %{{.*}} = tg.windows %{{.*}} axes = [1, 2] size = [3, 3] stride = [2, 2] dilation = [1, 1] : tensor<2x9x9x3xf32>
  // CHECK-NEXT: %{{.*}} = tg.max %{{.*}} axes = [4, 5] : tensor<2x4x4x3x3x3xf32>
  // CHECK-NEXT: func.return %{{.*}} : tensor<2x4x4x3xf32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%x, %low) <{window_dimensions = array<i64: 1, 3, 3, 1>, window_strides = array<i64: 1, 2, 2, 1>, padding = dense<[[0, 0], [0, 1], [0, 1], [0, 0]]> : tensor<4x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<2x8x8x3xf32>, tensor<f32>) -> tensor<2x4x4x3xf32>
  return %0 : tensor<2x4x4x3xf32>
}
// A cumulative sum takes steps that double.
// CHECK-LABEL: func.func @cumsum
func.func @cumsum(%x: tensor<5xf32>) -> tensor<5xf32> {
  // CHECK: %{{.*}} = tg.constant value = dense<0.000000e+00> : tensor<f32>
  // CHECK-NEXT: %{{.*}} = tg.slice %x start = [0] stop = [4] step = [1] : tensor<5xf32>
  // CHECK-NEXT: %{{.*}} = tg.pad %{{.*}}, %{{.*}} low = [1] high = [0] interior = [0] : tensor<4xf32>, tensor<f32>
  // CHECK-NEXT: %{{.*}} = tg.add %x, %{{.*}} : tensor<5xf32>, tensor<5xf32>
  // CHECK-NEXT: %{{.*}} = tg.slice %{{.*}} start = [0] stop = [3] step = [1] : tensor<5xf32>
  // CHECK-NEXT: %{{.*}} = tg.pad %{{.*}}, %{{.*}} low = [2] high = [0] interior = [0] : tensor<3xf32>, tensor<f32>
  // CHECK-NEXT: %{{.*}} = tg.add %{{.*}}, %{{.*}} : tensor<5xf32>, tensor<5xf32>
  // CHECK-NEXT: %{{.*}} = tg.slice %{{.*}} start = [0] stop = [1] step = [1] : tensor<5xf32>
  // CHECK-NEXT: %{{.*}} = tg.pad %{{.*}}, %{{.*}} low = [4] high = [0] interior = [0] : tensor<1xf32>, tensor<f32>
  // CHECK-NEXT: %{{.*}} = tg.add %{{.*}}, %{{.*}} : tensor<5xf32>, tensor<5xf32>
  // CHECK-NEXT: func.return %{{.*}} : tensor<5xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%x, %zero) <{window_dimensions = array<i64: 5>, padding = dense<[[4, 0]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}
// CHECK-LABEL: func.func @sort
func.func @sort(%k: tensor<4x5xi32>, %v: tensor<4x5xf32>) -> tensor<4x5xf32> {
  // CHECK: %{{.*}} = tg.transpose %k permutation = [1, 0] : tensor<4x5xi32>
  // CHECK-NEXT: %{{.*}} = tg.transpose %v permutation = [1, 0] : tensor<4x5xf32>
  // CHECK-NEXT: %{{.*}} = tg.argsort %{{.*}} descending = 1 : tensor<5x4xi32>
  // CHECK-NEXT: %{{.*}} = tg.take_along_axis %{{.*}}, %{{.*}} axis = 1 : tensor<5x4xf32>, tensor<5x4xi32>
  // CHECK-NEXT: %{{.*}} = tg.transpose %{{.*}} permutation = [1, 0] : tensor<5x4xf32>
  // CHECK-NEXT: func.return %{{.*}} : tensor<4x5xf32>
  %0:2 = "stablehlo.sort"(%k, %v) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<f32>, %d: tensor<f32>):
    %1 = stablehlo.compare GT, %a, %b, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) : (tensor<4x5xi32>, tensor<4x5xf32>) -> (tensor<4x5xi32>, tensor<4x5xf32>)
  return %0#1 : tensor<4x5xf32>
}
