// RUN: TG_ROUNDTRIP

func.func @reductions(%x: tensor<4x3x2xf32>, %i: tensor<0x3xi32>) -> (tensor<3x2xf32>, tensor<4xf32>, tensor<f32>, tensor<3xi32>) {
  %sum = tg.sum %x axes = [0] : tensor<4x3x2xf32>
  %max = tg.max %x axes = [1, 2] : tensor<4x3x2xf32>
  %min = tg.min %x axes = [0, 1, 2] : tensor<4x3x2xf32>
  %none = tg.sum %i axes = [0] : tensor<0x3xi32>
  func.return %sum, %max, %min, %none : tensor<3x2xf32>, tensor<4xf32>, tensor<f32>, tensor<3xi32>
}
// CHECK-LABEL: func.func @reductions(
// CHECK-SAME: %x: tensor<4x3x2xf32>, %i: tensor<0x3xi32>) -> (tensor<3x2xf32>, tensor<4xf32>, tensor<f32>, tensor<3xi32>) {
// CHECK-NEXT:   %sum = tg.sum %x axes = [0] : tensor<4x3x2xf32>
// CHECK-NEXT:   %max = tg.max %x axes = [1, 2] : tensor<4x3x2xf32>
// CHECK-NEXT:   %min = tg.min %x axes = [0, 1, 2] : tensor<4x3x2xf32>
// CHECK-NEXT:   %none = tg.sum %i axes = [0] : tensor<0x3xi32>
// CHECK-NEXT:   func.return %sum, %max, %min, %none : tensor<3x2xf32>, tensor<4xf32>, tensor<f32>, tensor<3xi32>
// CHECK-NEXT: }

func.func @products(%x: tensor<4x3xf32>, %i: tensor<0x3xi32>) -> (tensor<4xf32>, tensor<3xi32>) {
  %rows = tg.prod %x axes = [1] : tensor<4x3xf32>
  %none = tg.prod %i axes = [0] : tensor<0x3xi32>
  func.return %rows, %none : tensor<4xf32>, tensor<3xi32>
}
// CHECK-LABEL: func.func @products(
// CHECK-SAME: %x: tensor<4x3xf32>, %i: tensor<0x3xi32>) -> (tensor<4xf32>, tensor<3xi32>) {
// CHECK-NEXT:   %rows = tg.prod %x axes = [1] : tensor<4x3xf32>
// CHECK-NEXT:   %none = tg.prod %i axes = [0] : tensor<0x3xi32>
// CHECK-NEXT:   func.return %rows, %none : tensor<4xf32>, tensor<3xi32>
// CHECK-NEXT: }
