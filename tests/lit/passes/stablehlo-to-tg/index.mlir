// RUN: tg-opt %s -p stablehlo-to-tg,canonicalize,cse | filecheck %s

// Rows at indices, which are moved inside.
// CHECK-LABEL: func.func @gather
func.func @gather(%x: tensor<4x5xf32>, %at: tensor<3x1xi32>) -> tensor<3x5xf32> {
  // CHECK: %{{.*}} = tg.reshape %at shape = [3] : tensor<3x1xi32>
  // CHECK-NEXT: %{{.*}} = tg.constant value = dense<0> : tensor<3xi32>
  // CHECK-NEXT: %{{.*}} = tg.maximum %{{.*}}, %{{.*}} : tensor<3xi32>, tensor<3xi32>
  // CHECK-NEXT: %{{.*}} = tg.constant value = dense<3> : tensor<3xi32>
  // CHECK-NEXT: %{{.*}} = tg.minimum %{{.*}}, %{{.*}} : tensor<3xi32>, tensor<3xi32>
  // CHECK-NEXT: %{{.*}} = tg.take %x, %{{.*}} axis = 0 : tensor<4x5xf32>, tensor<3xi32>
  // CHECK-NEXT: func.return %{{.*}} : tensor<3x5xf32>
  %0 = "stablehlo.gather"(%x, %at) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 5>}> : (tensor<4x5xf32>, tensor<3x1xi32>) -> tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
}
// Rows that are not inside are dropped.
// CHECK-LABEL: func.func @scatter
func.func @scatter(%x: tensor<4x5xf32>, %at: tensor<3x1xi32>, %u: tensor<3x5xf32>) -> tensor<4x5xf32> {
  // CHECK: %{{.*}} = tg.constant value = dense<false> : tensor<3xi1>
  // CHECK-NEXT: %{{.*}} = tg.reshape %at shape = [3] : tensor<3x1xi32>
  // CHECK-NEXT: %{{.*}} = tg.constant value = dense<0> : tensor<3xi32>
  // CHECK-NEXT: %{{.*}} = tg.maximum %{{.*}}, %{{.*}} : tensor<3xi32>, tensor<3xi32>
  // CHECK-NEXT: %{{.*}} = tg.constant value = dense<3> : tensor<3xi32>
  // CHECK-NEXT: %{{.*}} = tg.minimum %{{.*}}, %{{.*}} : tensor<3xi32>, tensor<3xi32>
  // CHECK-NEXT: %{{.*}} = tg.compare %{{.*}}, %{{.*}} predicate = "ne" : tensor<3xi32>, tensor<3xi32>
  // CHECK-NEXT: %{{.*}} = tg.or %{{.*}}, %{{.*}} : tensor<3xi1>, tensor<3xi1>
  // CHECK-NEXT: %{{.*}} = tg.constant value = dense<4> : tensor<3xi32>
  // CHECK-NEXT: %{{.*}} = tg.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<3xi1>, tensor<3xi32>, tensor<3xi32>
  // CHECK-NEXT: %{{.*}} = tg.scatter_add %u, %{{.*}} axis = 0 extent = 4 : tensor<3x5xf32>, tensor<3xi32>
  // CHECK-NEXT: %{{.*}} = tg.add %x, %{{.*}} : tensor<4x5xf32>, tensor<4x5xf32>
  // CHECK-NEXT: func.return %{{.*}} : tensor<4x5xf32>
  %0 = "stablehlo.scatter"(%x, %at, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<4x5xf32>, tensor<3x1xi32>, tensor<3x5xf32>) -> tensor<4x5xf32>
  return %0 : tensor<4x5xf32>
}
// What begins with the identity element is the scatter alone.
// CHECK-LABEL: func.func @multiplied
func.func @multiplied(%at: tensor<3x1xi32>, %u: tensor<3xf32>) -> tensor<4xf32> {
  // CHECK: %[[PRODUCTS:.*]] = tg.scatter_reduce %u, %{{.*}} axis = 0 extent = 4 reduction = "prod" : tensor<3xf32>, tensor<3xi32>
  // CHECK-NEXT: func.return %[[PRODUCTS]] : tensor<4xf32>
  %x = stablehlo.constant dense<1.0> : tensor<4xf32>
  %0 = "stablehlo.scatter"(%x, %at, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.multiply %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<4xf32>, tensor<3x1xi32>, tensor<3xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// Of several updates the last one stays: the largest position.
// CHECK-LABEL: func.func @replaced
func.func @replaced(%x: tensor<4xf32>, %at: tensor<3x1xi32>, %u: tensor<3xf32>) -> tensor<4xf32> {
  // CHECK: %[[PLACES:.*]] = tg.iota shape = [3] axis = 0 element = i32
  // CHECK-NEXT: %[[LAST:.*]] = tg.scatter_reduce %[[PLACES]], %{{.*}} axis = 0 extent = 4 reduction = "max" : tensor<3xi32>, tensor<3xi32>
  // CHECK: %[[HIT:.*]] = tg.compare %[[LAST]], %{{.*}} predicate = "ge" : tensor<4xi32>, tensor<4xi32>
  // CHECK: %[[WRITTEN:.*]] = tg.take %u, %[[LAST]] axis = 0 : tensor<3xf32>, tensor<4xi32>
  // CHECK-NEXT: %[[RESULT:.*]] = tg.select %[[HIT]], %[[WRITTEN]], %x : tensor<4xi1>, tensor<4xf32>, tensor<4xf32>
  // CHECK-NEXT: func.return %[[RESULT]] : tensor<4xf32>
  %0 = "stablehlo.scatter"(%x, %at, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    stablehlo.return %b : tensor<f32>
  }) : (tensor<4xf32>, tensor<3x1xi32>, tensor<3xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// CHECK-LABEL: func.func @dynamic
func.func @dynamic(%x: tensor<4x5xf32>, %i: tensor<i32>) -> tensor<2x5xf32> {
  // CHECK: %{{.*}} = tg.constant value = dense<0> : tensor<i32>
  // CHECK-NEXT: %{{.*}} = tg.maximum %i, %{{.*}} : tensor<i32>, tensor<i32>
  // CHECK-NEXT: %{{.*}} = tg.constant value = dense<2> : tensor<i32>
  // CHECK-NEXT: %{{.*}} = tg.minimum %{{.*}}, %{{.*}} : tensor<i32>, tensor<i32>
  // CHECK-NEXT: %{{.*}} = tg.broadcast %{{.*}} shape = [2] dims = [] : tensor<i32>
  // CHECK-NEXT: %{{.*}} = tg.iota shape = [2] axis = 0 element = i32
  // CHECK-NEXT: %{{.*}} = tg.add %{{.*}}, %{{.*}} : tensor<2xi32>, tensor<2xi32>
  // CHECK-NEXT: %{{.*}} = tg.take %x, %{{.*}} axis = 0 : tensor<4x5xf32>, tensor<2xi32>
  // CHECK-NEXT: func.return %{{.*}} : tensor<2x5xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0 = stablehlo.dynamic_slice %x, %i, %zero, sizes = [2, 5] : (tensor<4x5xf32>, tensor<i32>, tensor<i32>) -> tensor<2x5xf32>
  return %0 : tensor<2x5xf32>
}
