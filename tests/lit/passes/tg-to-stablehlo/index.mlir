// RUN: tg-opt %s -p tg-to-stablehlo | filecheck %s

// An index that is not inside reads NaN.
// CHECK-LABEL: func.func @take
func.func @take(%x: tensor<5x4xf32>, %i: tensor<3xi32>) -> tensor<3x4xf32> {
  // CHECK: %{{.*}} = stablehlo.constant dense<0> : tensor<3xi32>
  // CHECK-NEXT: %{{.*}} = stablehlo.compare GE, %i, %{{.*}} : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
  // CHECK-NEXT: %{{.*}} = stablehlo.constant dense<5> : tensor<3xi32>
  // CHECK-NEXT: %{{.*}} = stablehlo.compare LT, %i, %{{.*}} : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
  // CHECK-NEXT: %{{.*}} = stablehlo.and %{{.*}}, %{{.*}} : tensor<3xi1>
  // CHECK-NEXT: %{{.*}} = stablehlo.constant dense<0> : tensor<3xi32>
  // CHECK-NEXT: %{{.*}} = stablehlo.select %{{.*}}, %i, %{{.*}} : tensor<3xi1>, tensor<3xi32>
  // CHECK-NEXT: %{{.*}} = stablehlo.broadcast_in_dim %{{.*}}, dims = [0] : (tensor<3xi1>) -> tensor<3x4xi1>
  // CHECK-NEXT: %{{.*}} = "stablehlo.gather"(%x, %{{.*}}) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> : (tensor<5x4xf32>, tensor<3xi32>) -> tensor<3x4xf32>
  // CHECK-NEXT: %{{.*}} = stablehlo.constant dense<0x7fc00000> : tensor<3x4xf32>
  // CHECK-NEXT: %{{.*}} = stablehlo.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<3x4xi1>, tensor<3x4xf32>
  // CHECK-NEXT: func.return %{{.*}} : tensor<3x4xf32>
  %0 = tg.take %x, %i axis = 0 : tensor<5x4xf32>, tensor<3xi32>
  return %0 : tensor<3x4xf32>
}
// CHECK-LABEL: func.func @scatter_add
func.func @scatter_add(%u: tensor<3x4xf32>, %i: tensor<3xi32>) -> tensor<5x4xf32> {
  // CHECK: %{{.*}} = stablehlo.constant dense<0.000000e+00> : tensor<5x4xf32>
  // CHECK-NEXT: %{{.*}} = "stablehlo.scatter"(%{{.*}}, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
  // CHECK-NEXT: ^bb0(
  // CHECK-NEXT: %{{.*}} = stablehlo.add %{{.*}}, %{{.*}} : tensor<f32>
  // CHECK-NEXT: stablehlo.return %{{.*}} : tensor<f32>
  // CHECK-NEXT: }) : (tensor<5x4xf32>, tensor<3xi32>, tensor<3x4xf32>) -> tensor<5x4xf32>
  // CHECK-NEXT: func.return %{{.*}} : tensor<5x4xf32>
  %0 = tg.scatter_add %u, %i axis = 0 extent = 5 : tensor<3x4xf32>, tensor<3xi32>
  return %0 : tensor<5x4xf32>
}
// Other reductions begin with their identity element.
// CHECK-LABEL: func.func @scatter_reduce
func.func @scatter_reduce(%u: tensor<3x4xf32>, %i: tensor<3xi32>) -> tensor<5x4xf32> {
  // CHECK: %[[START:.*]] = stablehlo.constant dense<0xff800000> : tensor<5x4xf32>
  // CHECK-NEXT: %{{.*}} = "stablehlo.scatter"(%[[START]], %i, %u)
  // CHECK: %{{.*}} = stablehlo.maximum %{{.*}}, %{{.*}} : tensor<f32>
  %0 = tg.scatter_reduce %u, %i axis = 0 extent = 5 reduction = "max" : tensor<3x4xf32>, tensor<3xi32>
  return %0 : tensor<5x4xf32>
}
// NaN is larger than every number, and -0 equal to 0.
// CHECK-LABEL: func.func @argsort
func.func @argsort(%x: tensor<4x10xf32>) -> tensor<4x10xi32> {
  // CHECK: %{{.*}} = stablehlo.iota dim = 1 : tensor<4x10xi32>
  // CHECK-NEXT: %{{.*}}, %{{.*}} = "stablehlo.sort"(%x, %{{.*}}) <{dimension = 1 : i64, is_stable = true}> ({
  // CHECK-NEXT: ^bb0(
  // CHECK-NEXT: %{{.*}} = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  // CHECK-NEXT: %{{.*}} = stablehlo.compare EQ, %{{.*}}, %{{.*}} : (tensor<f32>, tensor<f32>) -> tensor<i1>
  // CHECK-NEXT: %{{.*}} = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  // CHECK-NEXT: %{{.*}} = stablehlo.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<i1>, tensor<f32>
  // CHECK-NEXT: %{{.*}} = stablehlo.compare NE, %{{.*}}, %{{.*}} : (tensor<f32>, tensor<f32>) -> tensor<i1>
  // CHECK-NEXT: %{{.*}} = stablehlo.constant dense<0x7fc00000> : tensor<f32>
  // CHECK-NEXT: %{{.*}} = stablehlo.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<i1>, tensor<f32>
  // CHECK-NEXT: %{{.*}} = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  // CHECK-NEXT: %{{.*}} = stablehlo.compare EQ, %{{.*}}, %{{.*}} : (tensor<f32>, tensor<f32>) -> tensor<i1>
  // CHECK-NEXT: %{{.*}} = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  // CHECK-NEXT: %{{.*}} = stablehlo.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<i1>, tensor<f32>
  // CHECK-NEXT: %{{.*}} = stablehlo.compare NE, %{{.*}}, %{{.*}} : (tensor<f32>, tensor<f32>) -> tensor<i1>
  // CHECK-NEXT: %{{.*}} = stablehlo.constant dense<0x7fc00000> : tensor<f32>
  // CHECK-NEXT: %{{.*}} = stablehlo.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<i1>, tensor<f32>
  // CHECK-NEXT: %{{.*}} = stablehlo.compare LT, %{{.*}}, %{{.*}}, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
  // CHECK-NEXT: stablehlo.return %{{.*}} : tensor<i1>
  // CHECK-NEXT: }) : (tensor<4x10xf32>, tensor<4x10xi32>) -> (tensor<4x10xf32>, tensor<4x10xi32>)
  // CHECK-NEXT: func.return %{{.*}} : tensor<4x10xi32>
  %0 = tg.argsort %x descending = 0 : tensor<4x10xf32>
  return %0 : tensor<4x10xi32>
}
