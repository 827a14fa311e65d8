// RUN: not tg-opt %s -p stablehlo-to-tg 2>&1 | filecheck %s

// All ops without a counterpart are listed, with the lines of their authors, or here.

// CHECK: stablehlo-to-tg: this has no counterpart:
// CHECK-NEXT: stablehlo.cholesky: it has no counterpart (model.py:3)
// CHECK-NEXT: stablehlo.custom_call @mine: it is a function of another program's runtime ({{.*}}errors.mlir:14)
// CHECK-NEXT: stablehlo.while: its number of iterations is not known
// CHECK-NEXT: stablehlo.custom_call @ours: it is a function of another program's runtime ({{.*}}errors.mlir:25)
// CHECK-NEXT: stablehlo.reduce_precision: floats of f32 can be rounded to those of bf16, e8m7, only
// CHECK-NEXT: chlo.polygamma: the order must be a constant, an integer from 0 to 100
func.func @f(%x: tensor<3x3xf32>, %z: tensor<f32>) -> tensor<3xf32> {
  %0 = stablehlo.cholesky %x, lower = true : tensor<3x3xf32> loc("model.py":3:4)
  %1 = stablehlo.custom_call @mine(%0) : (tensor<3x3xf32>) -> tensor<3x3xf32>
  %2 = stablehlo.while(%i = %z) : tensor<f32>
  cond {
    %3 = stablehlo.compare LT, %i, %z : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %3 : tensor<i1>
  } do {
    %3 = stablehlo.sine %i : tensor<f32>
    stablehlo.return %3 : tensor<f32>
  }
  %4 = stablehlo.reduce(%1 init: %2) across dimensions = [1] : (tensor<3x3xf32>, tensor<f32>) -> tensor<3xf32>
   reducer(%a: tensor<f32>, %b: tensor<f32>)  {
    %5 = stablehlo.custom_call @ours(%a) : (tensor<f32>) -> tensor<f32>
    %6 = stablehlo.add %5, %b : tensor<f32>
    stablehlo.return %6 : tensor<f32>
  }
  %6 = stablehlo.reduce_precision %4, format = e5m10 : tensor<3xf32>
  %7 = chlo.polygamma %6, %6 : tensor<3xf32>, tensor<3xf32> -> tensor<3xf32>
  return %7 : tensor<3xf32>
}
