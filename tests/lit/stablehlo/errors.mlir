// RUN: tg-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{must have 2 operands and one result}}
func.func @one_operand(%x: tensor<2xf32>) { "stablehlo.add"(%x) : (tensor<2xf32>) -> tensor<2xf32> func.return }

// -----

// expected-error @below {{Operation stablehlo.nothing is not registered}}
func.func @unknown(%x: tensor<2xf32>) { %0 = stablehlo.nothing %x : tensor<2xf32> func.return }

// -----

// expected-error @below {{shapes must be static}}
func.func @dynamic(%x: tensor<?xf32>) { %0 = stablehlo.sine %x : tensor<?xf32> func.return }

// -----

// expected-error @below {{other is none of}}
func.func @axes(%x: tensor<2xf32>) { "stablehlo.gather"(%x) <{dimension_numbers = #stablehlo.gather<other = 1>}> : (tensor<2xf32>) -> tensor<2xf32> func.return }

// -----

// expected-error @below {{is written in generic form}}
func.func @sort(%x: tensor<2xf32>) { %0 = stablehlo.sort %x : tensor<2xf32> func.return }

// -----

// expected-error @below {{stablehlo.nothing can't be applied to}}
func.func @applied(%x: tensor<4xf32>, %i: tensor<f32>) { %0 = stablehlo.reduce(%x init: %i) applies stablehlo.nothing across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32> func.return }
