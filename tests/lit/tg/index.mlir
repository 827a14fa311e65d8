// RUN: TG_ROUNDTRIP

// The axes of the indices replace the indexed axis.
func.func @slices(%table: tensor<65x8xf32>, %i: tensor<2x3xi32>) -> (tensor<2x3x8xf32>, tensor<65x8xf32>) {
  %taken = tg.take %table, %i axis = 0 : tensor<65x8xf32>, tensor<2x3xi32>
  %added = tg.scatter_add %taken, %i axis = 0 extent = 65 : tensor<2x3x8xf32>, tensor<2x3xi32>
  func.return %taken, %added : tensor<2x3x8xf32>, tensor<65x8xf32>
}
// CHECK-LABEL: func.func @slices(
// CHECK-SAME: %table: tensor<65x8xf32>, %i: tensor<2x3xi32>) -> (tensor<2x3x8xf32>, tensor<65x8xf32>) {
// CHECK-NEXT:   %taken = tg.take %table, %i axis = 0 : tensor<65x8xf32>, tensor<2x3xi32>
// CHECK-NEXT:   %added = tg.scatter_add %taken, %i axis = 0 extent = 65 : tensor<2x3x8xf32>, tensor<2x3xi32>
// CHECK-NEXT:   func.return %taken, %added : tensor<2x3x8xf32>, tensor<65x8xf32>
// CHECK-NEXT: }

func.func @elements(%x: tensor<4x10xf32>, %i: tensor<4x1xui32>) -> (tensor<4x1xf32>, tensor<4x10xf32>) {
  %taken = tg.take_along_axis %x, %i axis = 1 : tensor<4x10xf32>, tensor<4x1xui32>
  %added = tg.scatter_add_along_axis %taken, %i axis = 1 extent = 10 : tensor<4x1xf32>, tensor<4x1xui32>
  func.return %taken, %added : tensor<4x1xf32>, tensor<4x10xf32>
}
// CHECK-LABEL: func.func @elements(
// CHECK-SAME: %x: tensor<4x10xf32>, %i: tensor<4x1xui32>) -> (tensor<4x1xf32>, tensor<4x10xf32>) {
// CHECK-NEXT:   %taken = tg.take_along_axis %x, %i axis = 1 : tensor<4x10xf32>, tensor<4x1xui32>
// CHECK-NEXT:   %added = tg.scatter_add_along_axis %taken, %i axis = 1 extent = 10 : tensor<4x1xf32>, tensor<4x1xui32>
// CHECK-NEXT:   func.return %taken, %added : tensor<4x1xf32>, tensor<4x10xf32>
// CHECK-NEXT: }

// An axis may have no positions, if no updates are added to it.
func.func @nowhere(%x: tensor<0x2xf32>, %i: tensor<0x2xi32>) -> tensor<0x2xf32> {
  %added = tg.scatter_add_along_axis %x, %i axis = 0 extent = 0 : tensor<0x2xf32>, tensor<0x2xi32>
  func.return %added : tensor<0x2xf32>
}
// CHECK-LABEL: func.func @nowhere(
// CHECK:         %added = tg.scatter_add_along_axis %x, %i axis = 0 extent = 0 : tensor<0x2xf32>, tensor<0x2xi32>

// Other reductions than sums are named.
func.func @reduced(%x: tensor<2x3x8xi32>, %i: tensor<2x3xi32>, %j: tensor<2x3x8xi64>) -> (tensor<65x8xi32>, tensor<2x9x8xi32>) {
  %largest = tg.scatter_reduce %x, %i axis = 0 extent = 65 reduction = "max" : tensor<2x3x8xi32>, tensor<2x3xi32>
  %products = tg.scatter_reduce_along_axis %x, %j axis = 1 extent = 9 reduction = "prod" : tensor<2x3x8xi32>, tensor<2x3x8xi64>
  func.return %largest, %products : tensor<65x8xi32>, tensor<2x9x8xi32>
}
// CHECK-LABEL: func.func @reduced(
// CHECK:         %largest = tg.scatter_reduce %x, %i axis = 0 extent = 65 reduction = "max" : tensor<2x3x8xi32>, tensor<2x3xi32>
// CHECK-NEXT:    %products = tg.scatter_reduce_along_axis %x, %j axis = 1 extent = 9 reduction = "prod" : tensor<2x3x8xi32>, tensor<2x3x8xi64>
// CHECK-NEXT:    func.return %largest, %products : tensor<65x8xi32>, tensor<2x9x8xi32>
