// RUN: tg-opt %s -p tg-to-stablehlo | filecheck %s

// CHECK-LABEL: func.func @main
func.func @control(%w: tensor<2xf32>, %h: tensor<2xf32>, %x: tensor<8x2xf32>, %p: tensor<i1>) -> (tensor<2xf32>, tensor<8x2xf32>) {
  // CHECK: %{{.*}} = stablehlo.constant dense<0.000000e+00> : tensor<8x2xf32>
  // CHECK-NEXT: %{{.*}} = stablehlo.constant dense<0> : tensor<i32>
  // CHECK-NEXT: %{{.*}}, %{{.*}}, %{{.*}} = stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %h, %{{.*}} = %{{.*}}) : tensor<i32>, tensor<2xf32>, tensor<8x2xf32> cond {
  // CHECK-NEXT: %{{.*}} = stablehlo.constant dense<8> : tensor<i32>
  // CHECK-NEXT: %{{.*}} = stablehlo.compare LT, %{{.*}}, %{{.*}} : (tensor<i32>, tensor<i32>) -> tensor<i1>
  // CHECK-NEXT: stablehlo.return %{{.*}} : tensor<i1>
  // CHECK-NEXT: } do {
  // CHECK-NEXT: %{{.*}} = stablehlo.constant dense<7> : tensor<i32>
  // CHECK-NEXT: %{{.*}} = stablehlo.subtract %{{.*}}, %{{.*}} : tensor<i32>
  // CHECK-NEXT: %{{.*}} = stablehlo.constant dense<0> : tensor<i32>
  // CHECK-NEXT: %{{.*}} = stablehlo.dynamic_slice %x, %{{.*}}, %{{.*}}, sizes = [1, 2] : (tensor<8x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
  // CHECK-NEXT: %{{.*}} = stablehlo.reshape %{{.*}} : (tensor<1x2xf32>) -> tensor<2xf32>
  // CHECK-NEXT: %{{.*}} = stablehlo.multiply %w, %{{.*}} : tensor<2xf32>
  // CHECK-NEXT: %{{.*}} = stablehlo.add %{{.*}}, %{{.*}} : tensor<2xf32>
  // CHECK-NEXT: %{{.*}} = stablehlo.reshape %{{.*}} : (tensor<2xf32>) -> tensor<1x2xf32>
  // CHECK-NEXT: %{{.*}} = stablehlo.constant dense<0> : tensor<i32>
  // CHECK-NEXT: %{{.*}} = stablehlo.dynamic_update_slice %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : (tensor<8x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<8x2xf32>
  // CHECK-NEXT: %{{.*}} = stablehlo.constant dense<1> : tensor<i32>
  // CHECK-NEXT: %{{.*}} = stablehlo.add %{{.*}}, %{{.*}} : tensor<i32>
  // CHECK-NEXT: stablehlo.return %{{.*}}, %{{.*}}, %{{.*}} : tensor<i32>, tensor<2xf32>, tensor<8x2xf32>
  // CHECK-NEXT: }
  // CHECK-NEXT: %{{.*}} = stablehlo.add %{{.*}}, %{{.*}} : tensor<2xf32>
  // CHECK-NEXT: %{{.*}} = "stablehlo.if"(%p) ({
  // CHECK-NEXT: %{{.*}} = stablehlo.sine %{{.*}} : tensor<2xf32>
  // CHECK-NEXT: stablehlo.return %{{.*}} : tensor<2xf32>
  // CHECK-NEXT: }, {
  // CHECK-NEXT: stablehlo.return %{{.*}} : tensor<2xf32>
  // CHECK-NEXT: }) : (tensor<i1>) -> tensor<2xf32>
  // CHECK-NEXT: func.return %{{.*}}, %{{.*}} : tensor<2xf32>, tensor<8x2xf32>
  %last, %all = tg.scan (%w) carry (%h) over (%x) length = 8 reverse : (tensor<2xf32>, tensor<2xf32>, tensor<8x2xf32>) -> (tensor<2xf32>, tensor<8x2xf32>) {
  ^bb0(%w0: tensor<2xf32>, %h0: tensor<2xf32>, %x0: tensor<2xf32>):
    %0 = tg.mul %w0, %h0 : tensor<2xf32>, tensor<2xf32>
    %1 = tg.add %0, %x0 : tensor<2xf32>, tensor<2xf32>
    tg.return %1, %0 : tensor<2xf32>, tensor<2xf32>
  }
  %2 = tg.call @twice(%last) : (tensor<2xf32>) -> (tensor<2xf32>) {
  ^bb0(%y: tensor<2xf32>):
    %3 = tg.add %y, %y : tensor<2xf32>, tensor<2xf32>
    tg.return %3 : tensor<2xf32>
  }
  %4 = tg.cond %p (%2) : (tensor<2xf32>) -> (tensor<2xf32>) {
  ^bb0(%y: tensor<2xf32>):
    %5 = tg.sin %y : tensor<2xf32>
    tg.return %5 : tensor<2xf32>
  } else {
  ^bb0(%y: tensor<2xf32>):
    tg.return %y : tensor<2xf32>
  }
  return %4, %all : tensor<2xf32>, tensor<8x2xf32>
}
