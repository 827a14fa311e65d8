// RUN: tg-opt %s -p tg-to-stablehlo | filecheck %s

// CHECK-LABEL: func.func @contract
func.func @contract(%x: tensor<2x3x4xf32>, %y: tensor<2x4x5xf32>, %a: tensor<2x4x8x8xf32>, %w: tensor<6x2x3x3xf32>) -> (tensor<2xf32>, tensor<2x6x4x4xf32>) {
  // CHECK: %{{.*}} = stablehlo.dot_general %x, %y, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
  // CHECK-NEXT: %{{.*}} = stablehlo.constant dense<0xff800000> : tensor<f32>
  // CHECK-NEXT: %{{.*}} = stablehlo.reduce(%{{.*}} init: %{{.*}}) applies stablehlo.maximum across dimensions = [1, 2] : (tensor<2x3x5xf32>, tensor<f32>) -> tensor<2xf32>
  // CHECK-NEXT: %{{.*}} = stablehlo.convolution(%a, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [2, 2], pad = {{\[\[}}1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<2x4x8x8xf32>, tensor<6x2x3x3xf32>) -> tensor<2x6x4x4xf32>
  // CHECK-NEXT: func.return %{{.*}}, %{{.*}} : tensor<2xf32>, tensor<2x6x4x4xf32>
  %0 = tg.dot_general %x, %y lhs_batch = [0] rhs_batch = [0] lhs_contracting = [2] rhs_contracting = [1] : tensor<2x3x4xf32>, tensor<2x4x5xf32>
  %1 = tg.max %0 axes = [1, 2] : tensor<2x3x5xf32>
  %2 = tg.conv %a, %w stride = [2, 2] low = [1, 1] high = [1, 1] lhs_dilation = [1, 1] rhs_dilation = [1, 1] groups = 2 : tensor<2x4x8x8xf32>, tensor<6x2x3x3xf32>
  return %1, %2 : tensor<2xf32>, tensor<2x6x4x4xf32>
}
// CHECK-LABEL: func.func @windows
func.func @windows(%x: tensor<2x6xf32>) -> tensor<2x6xf32> {
  // CHECK: %{{.*}} = stablehlo.constant dense<{{\[\[}}0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5]]> : tensor<4x3xi32>
  // CHECK-NEXT: %{{.*}} = "stablehlo.gather"(%x, %{{.*}}) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 2>, slice_sizes = array<i64: 2, 1>}> : (tensor<2x6xf32>, tensor<4x3xi32>) -> tensor<2x4x3xf32>
  // CHECK-NEXT: %{{.*}} = stablehlo.constant dense<{{\[\[}}0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5]]> : tensor<4x3xi32>
  // CHECK-NEXT: %{{.*}} = stablehlo.constant dense<0.000000e+00> : tensor<2x6xf32>
  // CHECK-NEXT: %{{.*}} = "stablehlo.scatter"(%{{.*}}, %{{.*}}, %{{.*}}) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], inserted_window_dims = [1], scatter_dims_to_operand_dims = [1], index_vector_dim = 2>, indices_are_sorted = false, unique_indices = false}> ({
  // CHECK-NEXT: ^bb0(
  // CHECK-NEXT: %{{.*}} = stablehlo.add %{{.*}}, %{{.*}} : tensor<f32>
  // CHECK-NEXT: stablehlo.return %{{.*}} : tensor<f32>
  // CHECK-NEXT: }) : (tensor<2x6xf32>, tensor<4x3xi32>, tensor<2x4x3xf32>) -> tensor<2x6xf32>
  // CHECK-NEXT: func.return %{{.*}} : tensor<2x6xf32>
  %0 = tg.windows %x axes = [1] size = [3] stride = [1] dilation = [1] : tensor<2x6xf32>
  %1 = tg.fold %0 axes = [1] stride = [1] dilation = [1] extents = [6] : tensor<2x4x3xf32>
  return %1 : tensor<2x6xf32>
}
