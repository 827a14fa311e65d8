// RUN: tg-opt %s -p tg-to-stablehlo --verify-diagnostics

// Every op without a counterpart is listed.

// expected-error @unknown {{this has no counterpart:}}
func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = tg.all_reduce %x reduction = "sum" size = 2 : tensor<2xf32>
  return %0 : tensor<2xf32>
}
