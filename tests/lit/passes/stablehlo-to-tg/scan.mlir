// RUN: tg-opt %s -p stablehlo-to-tg,canonicalize,cse | filecheck %s

// CHECK-LABEL: func.func @ode
func.func @ode(%p: tensor<3x3xf32>, %ts: tensor<10xf32>, %y: tensor<3xf32>) -> (tensor<3xf32>, tensor<10x3xf32>) {
  // CHECK: %{{.*}} = tg.constant value = dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]> : tensor<10xi32>
  // CHECK-NEXT: %{{.*}}, %{{.*}} = tg.scan (%p) carry (%y) over (%ts, %{{.*}}) length = 10 : (tensor<3x3xf32>, tensor<3xf32>, tensor<10xf32>, tensor<10xi32>) -> (tensor<3xf32>, tensor<10x3xf32>) {
  // CHECK-NEXT: ^bb0(
  // CHECK-NEXT: %{{.*}} = tg.reshape %{{.*}} shape = [1] : tensor<f32>
  // CHECK-NEXT: %{{.*}} = tg.reshape %{{.*}} shape = [] : tensor<1xf32>
  // CHECK-NEXT: %{{.*}} = tg.dot_general %{{.*}}, %{{.*}} lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<3x3xf32>, tensor<3xf32>
  // CHECK-NEXT: %{{.*}} = tg.broadcast %{{.*}} shape = [3] dims = [] : tensor<f32>
  // CHECK-NEXT: %{{.*}} = tg.mul %{{.*}}, %{{.*}} : tensor<3xf32>, tensor<3xf32>
  // CHECK-NEXT: %{{.*}} = tg.reshape %{{.*}} shape = [1, 3] : tensor<3xf32>
  // CHECK-NEXT: %{{.*}} = tg.reshape %{{.*}} shape = [3] : tensor<1x3xf32>
  // CHECK-NEXT: tg.return %{{.*}}, %{{.*}} : tensor<3xf32>, tensor<3xf32>
  // CHECK-NEXT: }
  // CHECK-NEXT: func.return %{{.*}}, %{{.*}} : tensor<3xf32>, tensor<10x3xf32>
  %ten = stablehlo.constant dense<10> : tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<10x3xf32>
  %2:5 = stablehlo.while(%xs = %ts, %w = %p, %i = %zero, %state = %y, %all = %none) : tensor<10xf32>, tensor<3x3xf32>, tensor<i32>, tensor<3xf32>, tensor<10x3xf32>
  cond {
    %3 = stablehlo.compare LT, %i, %ten, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %3 : tensor<i1>
  } do {
    %3 = func.call @element(%xs, %i) : (tensor<10xf32>, tensor<i32>) -> tensor<f32>
    %4 = stablehlo.dot_general %w, %state, contracting_dims = [1] x [0] : (tensor<3x3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %5 = stablehlo.broadcast_in_dim %3, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %6 = stablehlo.multiply %4, %5 : tensor<3xf32>
    %7 = stablehlo.reshape %6 : (tensor<3xf32>) -> tensor<1x3xf32>
    %8 = stablehlo.dynamic_update_slice %all, %7, %i, %zero : (tensor<10x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<10x3xf32>
    %9 = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %xs, %w, %9, %6, %8 : tensor<10xf32>, tensor<3x3xf32>, tensor<i32>, tensor<3xf32>, tensor<10x3xf32>
  }
  return %2#3, %2#4 : tensor<3xf32>, tensor<10x3xf32>
}
func.func private @element(%xs: tensor<10xf32>, %i: tensor<i32>) -> tensor<f32> {
  %0 = stablehlo.dynamic_slice %xs, %i, sizes = [1] : (tensor<10xf32>, tensor<i32>) -> tensor<1xf32>
  %1 = stablehlo.reshape %0 : (tensor<1xf32>) -> tensor<f32>
  return %1 : tensor<f32>
}
