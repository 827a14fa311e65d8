// RUN: tg-opt %s | filecheck %s
// RUN: TG_ROUNDTRIP

// CHECK-LABEL: func.func @named
func.func @named(%x: tensor<2xf32>, %k: tensor<2xi32>) {
  // CHECK: stablehlo.abs %x : tensor<2xf32>
  %0 = stablehlo.abs %x : tensor<2xf32>
  // CHECK: stablehlo.cbrt %x : tensor<2xf32>
  %1 = stablehlo.cbrt %x : tensor<2xf32>
  // CHECK: stablehlo.ceil %x : tensor<2xf32>
  %2 = stablehlo.ceil %x : tensor<2xf32>
  // CHECK: stablehlo.convert %x : tensor<2xf32>
  %3 = stablehlo.convert %x : tensor<2xf32>
  // CHECK: stablehlo.cosine %x : tensor<2xf32>
  %4 = stablehlo.cosine %x : tensor<2xf32>
  // CHECK: stablehlo.count_leading_zeros %k : tensor<2xi32>
  %5 = stablehlo.count_leading_zeros %k : tensor<2xi32>
  // CHECK: stablehlo.exponential %x : tensor<2xf32>
  %6 = stablehlo.exponential %x : tensor<2xf32>
  // CHECK: stablehlo.exponential_minus_one %x : tensor<2xf32>
  %7 = stablehlo.exponential_minus_one %x : tensor<2xf32>
  // CHECK: stablehlo.floor %x : tensor<2xf32>
  %8 = stablehlo.floor %x : tensor<2xf32>
  // CHECK: stablehlo.log %x : tensor<2xf32>
  %9 = stablehlo.log %x : tensor<2xf32>
  // CHECK: stablehlo.log_plus_one %x : tensor<2xf32>
  %10 = stablehlo.log_plus_one %x : tensor<2xf32>
  // CHECK: stablehlo.logistic %x : tensor<2xf32>
  %11 = stablehlo.logistic %x : tensor<2xf32>
  // CHECK: stablehlo.negate %x : tensor<2xf32>
  %12 = stablehlo.negate %x : tensor<2xf32>
  // CHECK: stablehlo.not %k : tensor<2xi32>
  %13 = stablehlo.not %k : tensor<2xi32>
  // CHECK: stablehlo.popcnt %k : tensor<2xi32>
  %14 = stablehlo.popcnt %k : tensor<2xi32>
  // CHECK: stablehlo.round_nearest_afz %x : tensor<2xf32>
  %15 = stablehlo.round_nearest_afz %x : tensor<2xf32>
  // CHECK: stablehlo.round_nearest_even %x : tensor<2xf32>
  %16 = stablehlo.round_nearest_even %x : tensor<2xf32>
  // CHECK: stablehlo.rsqrt %x : tensor<2xf32>
  %17 = stablehlo.rsqrt %x : tensor<2xf32>
  // CHECK: stablehlo.sign %x : tensor<2xf32>
  %18 = stablehlo.sign %x : tensor<2xf32>
  // CHECK: stablehlo.sine %x : tensor<2xf32>
  %19 = stablehlo.sine %x : tensor<2xf32>
  // CHECK: stablehlo.sqrt %x : tensor<2xf32>
  %20 = stablehlo.sqrt %x : tensor<2xf32>
  // CHECK: stablehlo.tan %x : tensor<2xf32>
  %21 = stablehlo.tan %x : tensor<2xf32>
  // CHECK: stablehlo.tanh %x : tensor<2xf32>
  %22 = stablehlo.tanh %x : tensor<2xf32>
  // CHECK: stablehlo.is_finite %x : (tensor<2xf32>) -> tensor<2xi1>
  %23 = stablehlo.is_finite %x : (tensor<2xf32>) -> tensor<2xi1>
  // CHECK: stablehlo.bitcast_convert %x : (tensor<2xf32>) -> tensor<2xi32>
  %24 = stablehlo.bitcast_convert %x : (tensor<2xf32>) -> tensor<2xi32>
  // CHECK: stablehlo.add %x, %x : tensor<2xf32>
  %25 = stablehlo.add %x, %x : tensor<2xf32>
  // CHECK: stablehlo.and %k, %k : tensor<2xi32>
  %26 = stablehlo.and %k, %k : tensor<2xi32>
  // CHECK: stablehlo.atan2 %x, %x : tensor<2xf32>
  %27 = stablehlo.atan2 %x, %x : tensor<2xf32>
  // CHECK: stablehlo.divide %x, %x : tensor<2xf32>
  %28 = stablehlo.divide %x, %x : tensor<2xf32>
  // CHECK: stablehlo.maximum %x, %x : tensor<2xf32>
  %29 = stablehlo.maximum %x, %x : tensor<2xf32>
  // CHECK: stablehlo.minimum %x, %x : tensor<2xf32>
  %30 = stablehlo.minimum %x, %x : tensor<2xf32>
  // CHECK: stablehlo.multiply %x, %x : tensor<2xf32>
  %31 = stablehlo.multiply %x, %x : tensor<2xf32>
  // CHECK: stablehlo.or %k, %k : tensor<2xi32>
  %32 = stablehlo.or %k, %k : tensor<2xi32>
  // CHECK: stablehlo.power %x, %x : tensor<2xf32>
  %33 = stablehlo.power %x, %x : tensor<2xf32>
  // CHECK: stablehlo.remainder %x, %x : tensor<2xf32>
  %34 = stablehlo.remainder %x, %x : tensor<2xf32>
  // CHECK: stablehlo.shift_left %k, %k : tensor<2xi32>
  %35 = stablehlo.shift_left %k, %k : tensor<2xi32>
  // CHECK: stablehlo.shift_right_arithmetic %k, %k : tensor<2xi32>
  %36 = stablehlo.shift_right_arithmetic %k, %k : tensor<2xi32>
  // CHECK: stablehlo.shift_right_logical %k, %k : tensor<2xi32>
  %37 = stablehlo.shift_right_logical %k, %k : tensor<2xi32>
  // CHECK: stablehlo.subtract %x, %x : tensor<2xf32>
  %38 = stablehlo.subtract %x, %x : tensor<2xf32>
  // CHECK: stablehlo.xor %k, %k : tensor<2xi32>
  %39 = stablehlo.xor %k, %k : tensor<2xi32>
  return
}

// Ops without a counterpart are read, so that a message can name them.
// CHECK-LABEL: func.func @foreign
func.func @foreign(%x: tensor<3x3xf32>, %k: tensor<2xi32>, %z: tensor<f32>) {
  // CHECK: stablehlo.cholesky %x, lower = true : tensor<3x3xf32>
  %0 = stablehlo.cholesky %x, lower = true : tensor<3x3xf32>
  // CHECK: stablehlo.complex %x, %x : tensor<3x3xcomplex<f32>>
  %1 = stablehlo.complex %x, %x : tensor<3x3xcomplex<f32>>
  // CHECK: stablehlo.dynamic_reshape %x, %k : (tensor<3x3xf32>, tensor<2xi32>) -> tensor<9x1xf32>
  %2 = stablehlo.dynamic_reshape %x, %k : (tensor<3x3xf32>, tensor<2xi32>) -> tensor<9x1xf32>
  // CHECK: stablehlo.dynamic_broadcast_in_dim %x, %k, dims = [0, 1] : (tensor<3x3xf32>, tensor<2xi32>) -> tensor<3x3xf32>
  %3 = stablehlo.dynamic_broadcast_in_dim %x, %k, dims = [0, 1] : (tensor<3x3xf32>, tensor<2xi32>) -> tensor<3x3xf32>
  // CHECK: stablehlo.dynamic_iota %k, dim = [0] : (tensor<2xi32>) -> tensor<3x3xf32>
  %4 = stablehlo.dynamic_iota %k, dim = [0] : (tensor<2xi32>) -> tensor<3x3xf32>
  // CHECK: stablehlo.get_dimension_size %x, dim = [0] : (tensor<3x3xf32>) -> tensor<i32>
  %5 = stablehlo.get_dimension_size %x, dim = [0] : (tensor<3x3xf32>) -> tensor<i32>
  // CHECK: stablehlo.fft %{{.*}}, type = FFT, length = [3] : tensor<3x3xcomplex<f32>>
  %6 = stablehlo.fft %1, type = FFT, length = [3] : tensor<3x3xcomplex<f32>>
  // CHECK: stablehlo.imag %{{.*}} : (tensor<3x3xcomplex<f32>>) -> tensor<3x3xf32>
  %7 = stablehlo.imag %1 : (tensor<3x3xcomplex<f32>>) -> tensor<3x3xf32>
  // CHECK: stablehlo.real %{{.*}} : (tensor<3x3xcomplex<f32>>) -> tensor<3x3xf32>
  %8 = stablehlo.real %1 : (tensor<3x3xcomplex<f32>>) -> tensor<3x3xf32>
  // CHECK: stablehlo.partition_id : tensor<ui32>
  %9 = stablehlo.partition_id : tensor<ui32>
  // CHECK: stablehlo.replica_id : tensor<ui32>
  %10 = stablehlo.replica_id : tensor<ui32>
  // CHECK: stablehlo.reduce_precision %x, format = e5m10 : tensor<3x3xf32>
  %11 = stablehlo.reduce_precision %x, format = e5m10 : tensor<3x3xf32>
  // CHECK: stablehlo.rng %z, %z, %k, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<2xi32>) -> tensor<3x3xf32>
  %12 = stablehlo.rng %z, %z, %k, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<2xi32>) -> tensor<3x3xf32>
  // CHECK: stablehlo.rng_bit_generator %k, algorithm = THREE_FRY : (tensor<2xi32>) -> (tensor<2xi32>, tensor<3x3xui32>)
  %13:2 = stablehlo.rng_bit_generator %k, algorithm = THREE_FRY : (tensor<2xi32>) -> (tensor<2xi32>, tensor<3x3xui32>)
  return
}

// CHECK-LABEL: func.func @generic
func.func @generic(%x: tensor<4x4xf32>, %u: tensor<2x2xf32>, %z: tensor<f32>, %k: tensor<i32>, %at: tensor<1x1xi32>) {
  // CHECK: "stablehlo.reduce_window"(%x, %z) <{window_dimensions = array<i64: 2, 2>, padding = dense<0> : tensor<2x2xi64>}> ({
  %0 = "stablehlo.reduce_window"(%x, %z) <{window_dimensions = array<i64: 2, 2>, padding = dense<0> : tensor<2x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<4x4xf32>, tensor<f32>) -> tensor<3x3xf32>
  // CHECK: "stablehlo.select_and_scatter"(%x, %u, %z) <{window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 2>}> ({
  %2 = "stablehlo.select_and_scatter"(%x, %u, %z) <{window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %3 = stablehlo.compare GE, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %3 : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %3 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %3 : tensor<f32>
  }) : (tensor<4x4xf32>, tensor<2x2xf32>, tensor<f32>) -> tensor<4x4xf32>
  // CHECK: "stablehlo.sort"(%x) <{dimension = 1 : i64, is_stable = true}> ({
  %4 = "stablehlo.sort"(%x) <{dimension = 1 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %5 = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %5 : tensor<i1>
  }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  // CHECK: "stablehlo.scatter"(%x, %at, %{{.*}}) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = true}> ({
  %row = stablehlo.slice %x [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %6 = "stablehlo.scatter"(%x, %at, %row) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    stablehlo.return %b : tensor<f32>
  }) : (tensor<4x4xf32>, tensor<1x1xi32>, tensor<1x4xf32>) -> tensor<4x4xf32>
  // CHECK: "stablehlo.case"(%k) ({
  %7 = "stablehlo.case"(%k) ({
    stablehlo.return %x : tensor<4x4xf32>
  }) : (tensor<i32>) -> tensor<4x4xf32>
  return
}
