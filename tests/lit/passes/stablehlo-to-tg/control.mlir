// RUN: tg-opt %s -p stablehlo-to-tg,canonicalize,cse | filecheck %s

// CHECK-LABEL: func.func @switch
func.func @switch(%k: tensor<i32>, %p: tensor<i1>, %x: tensor<3xf32>) -> tensor<3xf32> {
  // CHECK: %{{.*}} = tg.constant value = dense<0> : tensor<i32>
  // CHECK-NEXT: %{{.*}} = tg.compare %k, %{{.*}} predicate = "eq" : tensor<i32>, tensor<i32>
  // CHECK-NEXT: %{{.*}} = tg.cond %{{.*}} (%k, %x) : (tensor<i32>, tensor<3xf32>) -> (tensor<3xf32>) {
  // CHECK-NEXT: ^bb0(
  // CHECK-NEXT: %{{.*}} = tg.constant value = dense<5.000000e-01> : tensor<3xf32>
  // CHECK-NEXT: %{{.*}} = tg.mul %{{.*}}, %{{.*}} : tensor<3xf32>, tensor<3xf32>
  // CHECK-NEXT: tg.return %{{.*}} : tensor<3xf32>
  // CHECK-NEXT: } else {
  // CHECK-NEXT: ^bb0(
  // CHECK-NEXT: %{{.*}} = tg.constant value = dense<1> : tensor<i32>
  // CHECK-NEXT: %{{.*}} = tg.compare %{{.*}}, %{{.*}} predicate = "eq" : tensor<i32>, tensor<i32>
  // CHECK-NEXT: %{{.*}} = tg.cond %{{.*}} (%{{.*}}, %{{.*}}) : (tensor<i32>, tensor<3xf32>) -> (tensor<3xf32>) {
  // CHECK-NEXT: ^bb0(
  // CHECK-NEXT: %{{.*}} = tg.sin %{{.*}} : tensor<3xf32>
  // CHECK-NEXT: tg.return %{{.*}} : tensor<3xf32>
  // CHECK-NEXT: } else {
  // CHECK-NEXT: ^bb0(
  // CHECK-NEXT: tg.return %{{.*}} : tensor<3xf32>
  // CHECK-NEXT: }
  // CHECK-NEXT: tg.return %{{.*}} : tensor<3xf32>
  // CHECK-NEXT: }
  // CHECK-NEXT: %{{.*}} = tg.cond %p (%{{.*}}, %x) : (tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>) {
  // CHECK-NEXT: ^bb0(
  // CHECK-NEXT: tg.return %{{.*}} : tensor<3xf32>
  // CHECK-NEXT: } else {
  // CHECK-NEXT: ^bb0(
  // CHECK-NEXT: tg.return %{{.*}} : tensor<3xf32>
  // CHECK-NEXT: }
  // CHECK-NEXT: func.return %{{.*}} : tensor<3xf32>
  %half = stablehlo.constant dense<0.5> : tensor<3xf32>
  %0 = "stablehlo.case"(%k) ({
    %1 = stablehlo.multiply %x, %half : tensor<3xf32>
    stablehlo.return %1 : tensor<3xf32>
  }, {
    %1 = stablehlo.sine %x : tensor<3xf32>
    stablehlo.return %1 : tensor<3xf32>
  }, {
    stablehlo.return %x : tensor<3xf32>
  }) : (tensor<i32>) -> tensor<3xf32>
  %2 = "stablehlo.if"(%p) ({
    stablehlo.return %0 : tensor<3xf32>
  }, {
    stablehlo.return %x : tensor<3xf32>
  }) : (tensor<i1>) -> tensor<3xf32>
  return %2 : tensor<3xf32>
}
// A loop that counts down by two: the counter's values are a constant.
// CHECK-LABEL: func.func @count
func.func @count(%x: tensor<3xf32>) -> (tensor<i32>, tensor<3xf32>) {
  // CHECK: %{{.*}} = tg.constant value = dense<[10, 8, 6, 4, 2]> : tensor<5xi32>
  // CHECK-NEXT: %{{.*}} = tg.scan () carry (%x) over (%{{.*}}) length = 5 : (tensor<3xf32>, tensor<5xi32>) -> (tensor<3xf32>) {
  // CHECK-NEXT: ^bb0(
  // CHECK-NEXT: %{{.*}} = tg.cast %{{.*}} to = f32 : tensor<i32>
  // CHECK-NEXT: %{{.*}} = tg.broadcast %{{.*}} shape = [3] dims = [] : tensor<f32>
  // CHECK-NEXT: %{{.*}} = tg.mul %{{.*}}, %{{.*}} : tensor<3xf32>, tensor<3xf32>
  // CHECK-NEXT: tg.return %{{.*}} : tensor<3xf32>
  // CHECK-NEXT: }
  // CHECK-NEXT: %{{.*}} = tg.constant value = dense<0> : tensor<i32>
  // CHECK-NEXT: func.return %{{.*}}, %{{.*}} : tensor<i32>, tensor<3xf32>
  %ten = stablehlo.constant dense<10> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = stablehlo.while(%i = %ten, %c = %x) : tensor<i32>, tensor<3xf32>
  cond {
    %1 = stablehlo.compare GT, %i, %zero, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %1 = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %3 = stablehlo.multiply %c, %2 : tensor<3xf32>
    %4 = stablehlo.subtract %i, %two : tensor<i32>
    stablehlo.return %4, %3 : tensor<i32>, tensor<3xf32>
  }
  return %0#0, %0#1 : tensor<i32>, tensor<3xf32>
}
