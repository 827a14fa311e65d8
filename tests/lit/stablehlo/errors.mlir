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

// -----

// expected-error @below {{a box of [9] elements does not fit into [4]}}
func.func @slice(%x: tensor<4xf32>, %i: tensor<i32>) { %0 = stablehlo.dynamic_slice %x, %i, sizes = [9] : (tensor<4xf32>, tensor<i32>) -> tensor<9xf32> func.return }

// -----

// expected-error @below {{a box of [2, 2] elements does not fit into [4]}}
func.func @slice(%x: tensor<4xf32>, %i: tensor<i32>) { %0 = stablehlo.dynamic_slice %x, %i, sizes = [2, 2] : (tensor<4xf32>, tensor<i32>) -> tensor<2x2xf32> func.return }

// -----

// expected-error @below {{a box in [4] begins at 1 scalars, got 2}}
func.func @slice(%x: tensor<4xf32>, %i: tensor<i32>) { %0 = stablehlo.dynamic_slice %x, %i, %i, sizes = [2] : (tensor<4xf32>, tensor<i32>, tensor<i32>) -> tensor<2xf32> func.return }

// -----

// expected-error @below {{a box begins at integer scalars, got tensor<1xi32>}}
func.func @slice(%x: tensor<4xf32>, %i: tensor<1xi32>) { %0 = stablehlo.dynamic_slice %x, %i, sizes = [2] : (tensor<4xf32>, tensor<1xi32>) -> tensor<2xf32> func.return }

// -----

// expected-error @below {{a box of [9] elements does not fit into [4]}}
func.func @update(%x: tensor<4xf32>, %u: tensor<9xf32>, %i: tensor<i32>) { %0 = stablehlo.dynamic_update_slice %x, %u, %i : (tensor<4xf32>, tensor<9xf32>, tensor<i32>) -> tensor<4xf32> func.return }

// -----

// expected-error @below {{a box in [4] begins at 1 scalars, got 0}}
func.func @update(%x: tensor<4xf32>, %u: tensor<2xf32>) { %0 = stablehlo.dynamic_update_slice %x, %u : (tensor<4xf32>, tensor<2xf32>) -> tensor<4xf32> func.return }
