// RUN: tg-opt %s -p stablehlo-to-tg | filecheck %s

// A function of its own, here the composition of maps `x -> p * x + q`, is applied to all pairs of neighbours at once, then
// to those of the results; what is left over follows them, and the initial values come first.
func.func @composed(%a: tensor<2x5xf32>, %b: tensor<2x5xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0:2 = stablehlo.reduce(%a init: %one), (%b init: %zero) across dimensions = [1] : (tensor<2x5xf32>, tensor<2x5xf32>, tensor<f32>, tensor<f32>) -> (tensor<2xf32>, tensor<2xf32>)
   reducer(%p: tensor<f32>, %q: tensor<f32>) (%r: tensor<f32>, %s: tensor<f32>)  {
    %1 = stablehlo.multiply %p, %q : tensor<f32>
    %2 = stablehlo.multiply %q, %r : tensor<f32>
    %3 = stablehlo.add %2, %s : tensor<f32>
    stablehlo.return %1, %3 : tensor<f32>, tensor<f32>
  }
  func.return %0#0, %0#1 : tensor<2xf32>, tensor<2xf32>
}
// CHECK-LABEL: func.func @composed
// CHECK-DAG:  %[[FIRST:[0-9]+]] = tg.broadcast %{{[0-9]+}} shape = [1, 2] dims = [] : tensor<f32>
// CHECK:      %[[P:[0-9]+]] = tg.transpose %a permutation = [1, 0]
// CHECK-NEXT: %[[Q:[0-9]+]] = tg.transpose %b permutation = [1, 0]
// CHECK-NEXT: %[[P0:[0-9]+]] = tg.slice %[[P]] start = [0, 0] stop = [4, 2] step = [2, 1]
// CHECK-NEXT: tg.slice %[[Q]] start = [0, 0] stop = [4, 2] step = [2, 1]
// CHECK-NEXT: %[[P1:[0-9]+]] = tg.slice %[[P]] start = [1, 0] stop = [4, 2] step = [2, 1]
// CHECK-NEXT: tg.slice %[[Q]] start = [1, 0] stop = [4, 2] step = [2, 1]
// CHECK:      tg.mul %{{[0-9]+}}, %{{[0-9]+}} : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT: tg.mul %{{[0-9]+}}, %{{[0-9]+}} : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT: tg.add %{{[0-9]+}}, %{{[0-9]+}} : tensor<4xf32>, tensor<4xf32>
// CHECK:      %[[REST:[0-9]+]] = tg.slice %[[P]] start = [4, 0] stop = [5, 2] step = [1, 1]
// CHECK:      tg.concat %{{[0-9]+}}, %[[REST]] axis = 0 : tensor<2x2xf32>, tensor<1x2xf32>
// CHECK:      tg.concat {{.*}} : tensor<1x2xf32>, tensor<1x2xf32>
// CHECK:      tg.concat {{.*}} : tensor<1x2xf32>, tensor<1x2xf32>
// CHECK-NOT:  tg.concat
// CHECK:      tg.reshape %{{[0-9]+}} shape = [2] : tensor<1x2xf32>
// CHECK:      func.return
