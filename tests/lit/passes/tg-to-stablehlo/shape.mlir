// RUN: tg-opt %s -p tg-to-stablehlo | filecheck %s

// CHECK-LABEL: func.func @shape
func.func @shape(%x: tensor<2x3xf32>, %v: tensor<f32>) -> tensor<12xf32> {
  // CHECK: %{{.*}} = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  // CHECK-NEXT: %{{.*}} = stablehlo.reshape %{{.*}} : (tensor<3x2xf32>) -> tensor<6xf32>
  // CHECK-NEXT: %{{.*}} = stablehlo.slice %{{.*}} [1:6:2] : (tensor<6xf32>) -> tensor<3xf32>
  // CHECK-NEXT: %{{.*}} = stablehlo.reverse %{{.*}}, dims = [0] : tensor<3xf32>
  // CHECK-NEXT: %{{.*}} = stablehlo.pad %{{.*}}, %v, low = [1], high = [2], interior = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<6xf32>
  // CHECK-NEXT: %{{.*}} = stablehlo.broadcast_in_dim %v, dims = [] : (tensor<f32>) -> tensor<6xf32>
  // CHECK-NEXT: %{{.*}} = stablehlo.concatenate %{{.*}}, %{{.*}}, dim = 0 : (tensor<6xf32>, tensor<6xf32>) -> tensor<12xf32>
  // CHECK-NEXT: func.return %{{.*}} : tensor<12xf32>
  %0 = tg.transpose %x permutation = [1, 0] : tensor<2x3xf32>
  %1 = tg.reshape %0 shape = [6] : tensor<3x2xf32>
  %2 = tg.slice %1 start = [1] stop = [6] step = [2] : tensor<6xf32>
  %3 = tg.reverse %2 axes = [0] : tensor<3xf32>
  %4 = tg.pad %3, %v low = [1] high = [2] interior = [0] : tensor<3xf32>, tensor<f32>
  %5 = tg.broadcast %v shape = [6] dims = [] : tensor<f32>
  %6 = tg.concat %4, %5 axis = 0 : tensor<6xf32>, tensor<6xf32>
  return %6 : tensor<12xf32>
}
// CHECK-LABEL: func.func @pack
func.func @pack(%x: tensor<2x3xf32>, %y: tensor<5xf32>) -> tensor<128xf32> {
  // CHECK: %{{.*}} = stablehlo.reshape %x : (tensor<2x3xf32>) -> tensor<6xf32>
  // CHECK-NEXT: %{{.*}} = stablehlo.constant dense<0.000000e+00> : tensor<58xf32>
  // CHECK-NEXT: %{{.*}} = stablehlo.constant dense<0.000000e+00> : tensor<59xf32>
  // CHECK-NEXT: %{{.*}} = stablehlo.concatenate %{{.*}}, %{{.*}}, %y, %{{.*}}, dim = 0 : (tensor<6xf32>, tensor<58xf32>, tensor<5xf32>, tensor<59xf32>) -> tensor<128xf32>
  // CHECK-NEXT: func.return %{{.*}} : tensor<128xf32>
  %0 = tg.pack %x, %y offsets = [0, 64] size = 128 : tensor<2x3xf32>, tensor<5xf32>
  return %0 : tensor<128xf32>
}
