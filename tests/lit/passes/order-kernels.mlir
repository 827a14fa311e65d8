// RUN: tg-opt %s -p 'lower-tg-to-buf,order-kernels' | filecheck %s

// Both temporary rows are computed before either is summed; in the new order only one of them is live at a time.
func.func @f(%x: tensor<64xf32>, %y: tensor<64xf32>) -> (tensor<f32>, tensor<f32>) {
  %0 = tg.sin %x : tensor<64xf32>
  %1 = tg.cos %y : tensor<64xf32>
  %2 = tg.sum %0 axes = [0] : tensor<64xf32>
  %3 = tg.sum %1 axes = [0] : tensor<64xf32>
  func.return %2, %3 : tensor<f32>, tensor<f32>
}
// CHECK: math.sin
// CHECK: arith.addf
// CHECK: math.cos
// CHECK: arith.addf
