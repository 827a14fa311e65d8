// RUN: tg-opt %s --split-input-file -p grad,simplify | filecheck %s

// The cotangents of a concat's operands are slices of its cotangent.
func.func @concat(%x: tensor<2xf32>, %y: tensor<3xf32>, %w: tensor<5xf32>) -> tensor<f32> {
  %0 = tg.concat %x, %y axis = 0 : tensor<2xf32>, tensor<3xf32>
  %1 = tg.mul %0, %w : tensor<5xf32>, tensor<5xf32>
  %2 = tg.sum %1 axes = [0] : tensor<5xf32>
  func.return %2 : tensor<f32>
}
// CHECK-LABEL: func.func @concat(
// CHECK-SAME: %x: tensor<2xf32> {tg.name = "arg0", tg.role = "input"}, %y: tensor<3xf32> {tg.name = "arg1", tg.role = "input"}, %w: tensor<5xf32> {tg.name = "arg2", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<2xf32> {tg.name = "arg0", tg.role = "gradient"}) {
// CHECK-NEXT:   %0 = tg.concat %x, %y axis = 0 : tensor<2xf32>, tensor<3xf32>
// CHECK-NEXT:   %1 = tg.mul %0, %w : tensor<5xf32>, tensor<5xf32>
// CHECK-NEXT:   %2 = tg.sum %1 axes = [0] : tensor<5xf32>
// CHECK-NEXT:   %3 = tg.slice %w start = [0] stop = [2] step = [1] : tensor<5xf32>
// CHECK-NEXT:   func.return %2, %3 : tensor<f32>, tensor<2xf32>
// CHECK-NEXT: }

// -----

// Each element's derivative is the product of the others, computed as a tree: no division, so elements may be 0. Where the
// tree overflows, it is the product of all divided by the element; or by 1, if that is 0 and another one is, too.
func.func @prod(%x: tensor<4xf32>) -> tensor<f32> {
  %0 = tg.prod %x axes = [0] : tensor<4xf32>
  func.return %0 : tensor<f32>
}
// CHECK-LABEL: func.func @prod(
// CHECK-SAME: %x: tensor<4xf32> {tg.name = "arg0", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<4xf32> {tg.name = "arg0", tg.role = "gradient"}) {
// CHECK-NEXT:   %0 = tg.prod %x axes = [0] : tensor<4xf32>
// CHECK-NEXT:   %1 = tg.slice %x start = [0] stop = [2] step = [1] : tensor<4xf32>
// CHECK-NEXT:   %2 = tg.slice %x start = [2] stop = [4] step = [1] : tensor<4xf32>
// CHECK-NEXT:   %3 = tg.mul %1, %2 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %4 = tg.slice %3 start = [0] stop = [1] step = [1] : tensor<2xf32>
// CHECK-NEXT:   %5 = tg.slice %3 start = [1] stop = [2] step = [1] : tensor<2xf32>
// CHECK-NEXT:   %6 = tg.concat %5, %4 axis = 0 : tensor<1xf32>, tensor<1xf32>
// CHECK-NEXT:   %7 = tg.mul %6, %2 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %8 = tg.mul %6, %1 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %9 = tg.concat %7, %8 axis = 0 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %10 = tg.constant value = dense<0.000000e+00> : tensor<4xf32>
// CHECK-NEXT:   %11 = tg.compare %x, %10 predicate = "eq" : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %12 = tg.broadcast %0 shape = [4] dims = [] : tensor<f32>
// CHECK-NEXT:   %13 = tg.constant value = dense<1.000000e+00> : tensor<4xf32>
// CHECK-NEXT:   %14 = tg.select %11, %13, %x : tensor<4xi1>, tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %15 = tg.div %12, %14 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %16 = tg.compare %9, %9 predicate = "eq" : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %17 = tg.and %11, %16 : tensor<4xi1>, tensor<4xi1>
// CHECK-NEXT:   %18 = tg.is_finite %9 : tensor<4xf32>
// CHECK-NEXT:   %19 = tg.or %17, %18 : tensor<4xi1>, tensor<4xi1>
// CHECK-NEXT:   %20 = tg.select %19, %9, %15 : tensor<4xi1>, tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   func.return %0, %20 : tensor<f32>, tensor<4xf32>
// CHECK-NEXT: }
