// RUN: tg-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{must have 1 operands and one result}}
func.func @two_operands(%x: tensor<2xf32>) { "chlo.erf"(%x, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> func.return }

// -----

// expected-error @below {{Operation chlo.nothing is not registered}}
func.func @unknown(%x: tensor<2xf32>) { %0 = chlo.nothing %x : tensor<2xf32> -> tensor<2xf32> func.return }
