// RUN: tg-opt %s -p stablehlo-to-tg --split-input-file | filecheck %s

// Words are shifted onto themselves until all below the highest bit is set; what is left above is counted.
// CHECK-LABEL: func.func @zeros
// CHECK-NEXT: %[[WORD:.*]] = tg.bitcast %x to = ui8 : tensor<2xi8>
// CHECK-NEXT: %[[ONE:.*]] = tg.constant value = dense<1> : tensor<2xui8>
// CHECK-NEXT: %[[SHIFTED:.*]] = tg.shift_right %[[WORD]], %[[ONE]] : tensor<2xui8>, tensor<2xui8>
// CHECK-NEXT: %{{.*}} = tg.or %[[WORD]], %[[SHIFTED]] : tensor<2xui8>, tensor<2xui8>
// CHECK: %[[ABOVE:.*]] = tg.not %{{.*}} : tensor<2xui8>
// CHECK-NEXT: %[[MASK:.*]] = tg.constant value = dense<85> : tensor<2xui8>
// CHECK: %{{.*}} = tg.and %[[ABOVE]], %[[MASK]] : tensor<2xui8>, tensor<2xui8>
// CHECK: %[[ZEROS:.*]] = tg.cast %{{.*}} to = i8 : tensor<2xui8>
// CHECK-NEXT: func.return %[[ZEROS]] : tensor<2xi8>
func.func @zeros(%x: tensor<2xi8>) -> tensor<2xi8> {
  %0 = stablehlo.count_leading_zeros %x : tensor<2xi8>
  return %0 : tensor<2xi8>
}

// -----

// Only what has more bits than the format is rounded.
// CHECK-LABEL: func.func @rounded
// CHECK-NEXT: %[[SHORT:.*]] = tg.cast %x to = bf16 : tensor<2xf32>
// CHECK-NEXT: %[[ROUNDED:.*]] = tg.cast %[[SHORT]] to = f32 : tensor<2xbf16>
// CHECK-NEXT: func.return %[[ROUNDED]], %x, %y : tensor<2xf32>, tensor<2xf32>, tensor<2xbf16>
func.func @rounded(%x: tensor<2xf32>, %y: tensor<2xbf16>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xbf16>) {
  %0 = stablehlo.reduce_precision %x, format = e8m7 : tensor<2xf32>
  %1 = stablehlo.reduce_precision %x, format = e8m23 : tensor<2xf32>
  %2 = stablehlo.reduce_precision %y, format = e8m7 : tensor<2xbf16>
  return %0, %1, %2 : tensor<2xf32>, tensor<2xf32>, tensor<2xbf16>
}

// -----

// Booleans are written as numbers.
// CHECK-LABEL: func.func @scattered
// CHECK: %[[X:.*]] = tg.cast %x to = i32 : tensor<4xi1>
// CHECK-NEXT: %[[U:.*]] = tg.cast %u to = i32 : tensor<2xi1>
// CHECK: %[[WRITTEN:.*]] = tg.scatter_reduce %[[U]], %{{.*}} axis = 0 extent = 4 reduction = "max" : tensor<2xi32>, tensor<2xi32>
// CHECK-NEXT: %[[NUMBERS:.*]] = tg.maximum %[[X]], %[[WRITTEN]] : tensor<4xi32>, tensor<4xi32>
// CHECK: %[[TRUTHS:.*]] = tg.compare %[[NUMBERS]], %{{.*}} predicate = "ne" : tensor<4xi32>, tensor<4xi32>
// CHECK-NEXT: func.return %[[TRUTHS]] : tensor<4xi1>
func.func @scattered(%x: tensor<4xi1>, %i: tensor<2x1xi32>, %u: tensor<2xi1>) -> tensor<4xi1> {
  %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = true}> ({
  ^bb0(%a: tensor<i1>, %b: tensor<i1>):
    %1 = stablehlo.or %a, %b : tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) : (tensor<4xi1>, tensor<2x1xi32>, tensor<2xi1>) -> tensor<4xi1>
  return %0 : tensor<4xi1>
}

// -----

// Bits in the total order of floats are integers in theirs, where a sign flips the others.
// CHECK-LABEL: func.func @ordered
// CHECK-NEXT: %[[WORD:.*]] = tg.bitcast %x to = i16 : tensor<2xf16>
// CHECK-NEXT: %[[BITS:.*]] = tg.constant value = dense<15> : tensor<2xi16>
// CHECK-NEXT: %[[SIGNS:.*]] = tg.shift_right %[[WORD]], %[[BITS]] : tensor<2xi16>, tensor<2xi16>
// CHECK-NEXT: %[[MASK:.*]] = tg.constant value = dense<32767> : tensor<2xi16>
// CHECK-NEXT: %[[FLIPPED:.*]] = tg.and %[[SIGNS]], %[[MASK]] : tensor<2xi16>, tensor<2xi16>
// CHECK-NEXT: %[[X:.*]] = tg.xor %[[WORD]], %[[FLIPPED]] : tensor<2xi16>, tensor<2xi16>
// CHECK: %[[LESS:.*]] = tg.compare %[[X]], %{{.*}} predicate = "lt" : tensor<2xi16>, tensor<2xi16>
// CHECK-NEXT: %[[EQUAL:.*]] = tg.compare %x, %y predicate = "eq" : tensor<2xf16>, tensor<2xf16>
// CHECK-NEXT: func.return %[[LESS]], %[[EQUAL]]
func.func @ordered(%x: tensor<2xf16>, %y: tensor<2xf16>) -> (tensor<2xi1>, tensor<2xi1>) {
  %0 = stablehlo.compare LT, %x, %y, TOTALORDER : (tensor<2xf16>, tensor<2xf16>) -> tensor<2xi1>
  %1 = stablehlo.compare EQ, %x, %y, FLOAT : (tensor<2xf16>, tensor<2xf16>) -> tensor<2xi1>
  return %0, %1 : tensor<2xi1>, tensor<2xi1>
}
