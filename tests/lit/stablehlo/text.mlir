// RUN: tg-opt %s | filecheck %s
// RUN: TG_ROUNDTRIP

// The text that jax.export writes, and upstream prints.

// CHECK-LABEL: func.func @elementwise
func.func @elementwise(%x: tensor<2x3xf32>, %p: tensor<i1>, %k: tensor<2x3xi32>) -> tensor<2x3xf32> {
  // CHECK: stablehlo.exponential %x : tensor<2x3xf32>
  %0 = stablehlo.exponential %x : tensor<2x3xf32>
  // CHECK-NEXT: stablehlo.is_finite %{{.*}} : (tensor<2x3xf32>) -> tensor<2x3xi1>
  %1 = stablehlo.is_finite %0 : (tensor<2x3xf32>) -> tensor<2x3xi1>
  // CHECK-NEXT: stablehlo.compare LT, %x, %{{.*}}, TOTALORDER : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
  %2 = stablehlo.compare LT, %x, %0, TOTALORDER : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
  // CHECK-NEXT: stablehlo.compare EQ, %{{.*}}, %{{.*}} : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<2x3xi1>
  %3 = stablehlo.compare EQ, %1, %2 : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<2x3xi1>
  // CHECK-NEXT: stablehlo.select %{{.*}}, %x, %{{.*}} : tensor<2x3xi1>, tensor<2x3xf32>
  %4 = stablehlo.select %3, %x, %0 : tensor<2x3xi1>, tensor<2x3xf32>
  // CHECK-NEXT: stablehlo.select %p, %{{.*}}, %x : tensor<i1>, tensor<2x3xf32>
  %5 = stablehlo.select %p, %4, %x : tensor<i1>, tensor<2x3xf32>
  // CHECK-NEXT: stablehlo.convert %k : (tensor<2x3xi32>) -> tensor<2x3xf32>
  %6 = stablehlo.convert %k : (tensor<2x3xi32>) -> tensor<2x3xf32>
  // CHECK-NEXT: stablehlo.clamp %{{.*}}, %{{.*}}, %{{.*}} : tensor<2x3xf32>
  %7 = stablehlo.clamp %0, %5, %6 : tensor<2x3xf32>
  // CHECK-NEXT: chlo.erf_inv %{{.*}} : tensor<2x3xf32> -> tensor<2x3xf32>
  %8 = chlo.erf_inv %7 : tensor<2x3xf32> -> tensor<2x3xf32>
  // CHECK-NEXT: stablehlo.optimization_barrier %{{.*}}, %k : tensor<2x3xf32>, tensor<2x3xi32>
  %9:2 = stablehlo.optimization_barrier %8, %k : tensor<2x3xf32>, tensor<2x3xi32>
  return %9#0 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @shape
func.func @shape(%x: tensor<2x3xf32>, %i: tensor<i32>) -> tensor<4x3xf32> {
  // CHECK: stablehlo.constant dense<0xff800000> : tensor<f32>
  %0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  // CHECK-NEXT: stablehlo.iota dim = 1 : tensor<2x3xi32>
  %1 = stablehlo.iota dim = 1 : tensor<2x3xi32>
  // CHECK-NEXT: stablehlo.broadcast_in_dim %{{.*}}, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
  %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
  // CHECK-NEXT: stablehlo.transpose %{{.*}}, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %3 = stablehlo.transpose %2, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  // CHECK-NEXT: stablehlo.reshape %{{.*}} : (tensor<3x2xf32>) -> tensor<2x3xf32>
  %4 = stablehlo.reshape %3 : (tensor<3x2xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: stablehlo.slice %x [0:2, 0:3:2] : (tensor<2x3xf32>) -> tensor<2x2xf32>
  %5 = stablehlo.slice %x [0:2, 0:3:2] : (tensor<2x3xf32>) -> tensor<2x2xf32>
  // CHECK-NEXT: stablehlo.pad %{{.*}}, %{{.*}}, low = [0, 1], high = [0, -1], interior = [0, 1] : (tensor<2x2xf32>, tensor<f32>) -> tensor<2x3xf32>
  %6 = stablehlo.pad %5, %0, low = [0, 1], high = [0, -1], interior = [0, 1] : (tensor<2x2xf32>, tensor<f32>) -> tensor<2x3xf32>
  // CHECK-NEXT: stablehlo.reverse %{{.*}}, dims = [0] : tensor<2x3xf32>
  %7 = stablehlo.reverse %6, dims = [0] : tensor<2x3xf32>
  // CHECK-NEXT: stablehlo.dynamic_slice %{{.*}}, %i, %i, sizes = [1, 3] : (tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
  %8 = stablehlo.dynamic_slice %7, %i, %i, sizes = [1, 3] : (tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
  // CHECK-NEXT: stablehlo.dynamic_update_slice %{{.*}}, %{{.*}}, %i, %i : (tensor<2x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>
  %9 = stablehlo.dynamic_update_slice %4, %8, %i, %i : (tensor<2x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>
  // CHECK-NEXT: stablehlo.concatenate %{{.*}}, %x, dim = 0 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
  %10 = stablehlo.concatenate %9, %x, dim = 0 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
  return %10 : tensor<4x3xf32>
}

// CHECK-LABEL: func.func @contract
func.func @contract(%x: tensor<2x3x4xf32>, %y: tensor<2x4x5xf32>, %a: tensor<2x8x8x4xf32>, %w: tensor<3x3x2x6xf32>) -> tensor<2x3x5xf32> {
  // CHECK: stablehlo.dot_general %x, %y, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [HIGHEST, DEFAULT] : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
  %0 = stablehlo.dot_general %x, %y, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [HIGHEST, DEFAULT] : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
  // CHECK-NEXT: stablehlo.convolution(%a, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = {{\[\[}}0, 1], [0, 1]], rhs_dilate = [1, 2], reverse = [true, false]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<2x8x8x4xf32>, tensor<3x3x2x6xf32>) -> tensor<2x4x3x6xf32>
  %1 = stablehlo.convolution(%a, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[0, 1], [0, 1]], rhs_dilate = [1, 2], reverse = [true, false]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<2x8x8x4xf32>, tensor<3x3x2x6xf32>) -> tensor<2x4x3x6xf32>
  return %0 : tensor<2x3x5xf32>
}

// CHECK-LABEL: func.func @regions
func.func @regions(%x: tensor<4x5xf32>, %k: tensor<4x5xi32>, %z: tensor<f32>, %i: tensor<i32>, %at: tensor<3x1xi32>) -> tensor<4xf32> {
  // CHECK: stablehlo.reduce(%x init: %z) applies stablehlo.maximum across dimensions = [1] : (tensor<4x5xf32>, tensor<f32>) -> tensor<4xf32>
  %0 = stablehlo.reduce(%x init: %z) applies stablehlo.maximum across dimensions = [1] : (tensor<4x5xf32>, tensor<f32>) -> tensor<4xf32>
  // CHECK-NEXT: stablehlo.reduce(%x init: %z), (%k init: %i) across dimensions = [1] : (tensor<4x5xf32>, tensor<4x5xi32>, tensor<f32>, tensor<i32>) -> (tensor<4xf32>, tensor<4xi32>) reducer(%a: tensor<f32>, %b: tensor<f32>) (%c: tensor<i32>, %d: tensor<i32>) {
  %1:2 = stablehlo.reduce(%x init: %z), (%k init: %i) across dimensions = [1] : (tensor<4x5xf32>, tensor<4x5xi32>, tensor<f32>, tensor<i32>) -> (tensor<4xf32>, tensor<4xi32>)
   reducer(%a: tensor<f32>, %b: tensor<f32>) (%c: tensor<i32>, %d: tensor<i32>)  {
    stablehlo.return %b, %d : tensor<f32>, tensor<i32>
  }
  // CHECK: "stablehlo.gather"(%x, %at) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 5>}> : (tensor<4x5xf32>, tensor<3x1xi32>) -> tensor<3x5xf32>
  %2 = "stablehlo.gather"(%x, %at) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 5>}> : (tensor<4x5xf32>, tensor<3x1xi32>) -> tensor<3x5xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @control
func.func @control(%x: tensor<3xf32>, %p: tensor<i1>) -> tensor<3xf32> {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %n = stablehlo.constant dense<5> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  // CHECK: stablehlo.while(%iterArg = %{{.*}}, %iterArg_{{[0-9]}} = %x) : tensor<i32>, tensor<3xf32> cond {
  // CHECK-NEXT: stablehlo.compare LT, %iterArg, %{{.*}}, SIGNED
  // CHECK: } do {
  // CHECK: stablehlo.add %iterArg, %{{.*}}
  %0:2 = stablehlo.while(%iterArg = %c, %iterArg_0 = %x) : tensor<i32>, tensor<3xf32>
  cond {
    %3 = stablehlo.compare LT, %iterArg, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %3 : tensor<i1>
  } do {
    %3 = stablehlo.sine %iterArg_0 : tensor<3xf32>
    %4 = stablehlo.add %iterArg, %one : tensor<i32>
    stablehlo.return %4, %3 : tensor<i32>, tensor<3xf32>
  }
  // CHECK: "stablehlo.if"(%p) ({
  %1 = "stablehlo.if"(%p) ({
    stablehlo.return %x : tensor<3xf32>
  }, {
    stablehlo.return %0#1 : tensor<3xf32>
  }) : (tensor<i1>) -> tensor<3xf32>
  // CHECK: stablehlo.composite "chlo.erf" %{{.*}} {decomposition = @erf, version = 1 : i32} : (tensor<3xf32>) -> tensor<3xf32>
  %2 = stablehlo.composite "chlo.erf" %1 {decomposition = @erf, version = 1 : i32} : (tensor<3xf32>) -> tensor<3xf32>
  // CHECK: stablehlo.custom_call @mine(%{{.*}}) {backend_config = ""} : (tensor<3xf32>) -> tensor<3xf32>
  %5 = stablehlo.custom_call @mine(%2) {backend_config = ""} : (tensor<3xf32>) -> tensor<3xf32>
  return %5 : tensor<3xf32>
}
