// RUN: tg-opt %s --split-input-file -p 'grad,simplify' | filecheck %s

func.func @sum(%x: tensor<4x3x2xf32>, %w: tensor<3xf32>) -> tensor<f32> {
  %y = tg.sum %x axes = [0, 2] : tensor<4x3x2xf32>
  %p = tg.mul %y, %w : tensor<3xf32>, tensor<3xf32>
  %loss = tg.sum %p axes = [0] : tensor<3xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @sum(
// CHECK-SAME: %x: tensor<4x3x2xf32> {tg.name = "arg0", tg.role = "input"}, %w: tensor<3xf32> {tg.name = "arg1", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<4x3x2xf32> {tg.name = "arg0", tg.role = "gradient"}) {
// CHECK-NEXT:   %y = tg.sum %x axes = [0, 2] : tensor<4x3x2xf32>
// CHECK-NEXT:   %p = tg.mul %y, %w : tensor<3xf32>, tensor<3xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0] : tensor<3xf32>
// CHECK-NEXT:   %0 = tg.broadcast %w shape = [4, 3, 2] dims = [1] : tensor<3xf32>
// CHECK-NEXT:   func.return %loss, %0 : tensor<f32>, tensor<4x3x2xf32>
// CHECK-NEXT: }

// -----

// Equal maxima share the cotangent evenly, and so do NaNs.
func.func @max(%x: tensor<4x3x2xf32>, %w: tensor<3xf32>) -> tensor<f32> {
  %y = tg.max %x axes = [0, 2] : tensor<4x3x2xf32>
  %p = tg.mul %y, %w : tensor<3xf32>, tensor<3xf32>
  %loss = tg.sum %p axes = [0] : tensor<3xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @max(
// CHECK-SAME: %x: tensor<4x3x2xf32> {tg.name = "arg0", tg.role = "input"}, %w: tensor<3xf32> {tg.name = "arg1", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<4x3x2xf32> {tg.name = "arg0", tg.role = "gradient"}) {
// CHECK-NEXT:   %y = tg.max %x axes = [0, 2] : tensor<4x3x2xf32>
// CHECK-NEXT:   %p = tg.mul %y, %w : tensor<3xf32>, tensor<3xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0] : tensor<3xf32>
// CHECK-NEXT:   %0 = tg.broadcast %y shape = [4, 3, 2] dims = [1] : tensor<3xf32>
// CHECK-NEXT:   %1 = tg.compare %x, %0 predicate = "eq" : tensor<4x3x2xf32>, tensor<4x3x2xf32>
// CHECK-NEXT:   %2 = tg.compare %x, %x predicate = "ne" : tensor<4x3x2xf32>, tensor<4x3x2xf32>
// CHECK-NEXT:   %3 = tg.or %1, %2 : tensor<4x3x2xi1>, tensor<4x3x2xi1>
// CHECK-NEXT:   %4 = tg.cast %3 to = f32 : tensor<4x3x2xi1>
// CHECK-NEXT:   %5 = tg.sum %4 axes = [0, 2] : tensor<4x3x2xf32>
// CHECK-NEXT:   %6 = tg.div %w, %5 : tensor<3xf32>, tensor<3xf32>
// CHECK-NEXT:   %7 = tg.broadcast %6 shape = [4, 3, 2] dims = [1] : tensor<3xf32>
// CHECK-NEXT:   %8 = tg.constant value = dense<0.000000e+00> : tensor<4x3x2xf32>
// CHECK-NEXT:   %9 = tg.select %3, %7, %8 : tensor<4x3x2xi1>, tensor<4x3x2xf32>, tensor<4x3x2xf32>
// CHECK-NEXT:   func.return %loss, %9 : tensor<f32>, tensor<4x3x2xf32>
// CHECK-NEXT: }

// -----

func.func @min(%x: tensor<4x3x2xf32>, %w: tensor<3xf32>) -> tensor<f32> {
  %y = tg.min %x axes = [0, 2] : tensor<4x3x2xf32>
  %p = tg.mul %y, %w : tensor<3xf32>, tensor<3xf32>
  %loss = tg.sum %p axes = [0] : tensor<3xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @min(
// CHECK-SAME: %x: tensor<4x3x2xf32> {tg.name = "arg0", tg.role = "input"}, %w: tensor<3xf32> {tg.name = "arg1", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<4x3x2xf32> {tg.name = "arg0", tg.role = "gradient"}) {
// CHECK-NEXT:   %y = tg.min %x axes = [0, 2] : tensor<4x3x2xf32>
// CHECK-NEXT:   %p = tg.mul %y, %w : tensor<3xf32>, tensor<3xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0] : tensor<3xf32>
// CHECK-NEXT:   %0 = tg.broadcast %y shape = [4, 3, 2] dims = [1] : tensor<3xf32>
// CHECK-NEXT:   %1 = tg.compare %x, %0 predicate = "eq" : tensor<4x3x2xf32>, tensor<4x3x2xf32>
// CHECK-NEXT:   %2 = tg.compare %x, %x predicate = "ne" : tensor<4x3x2xf32>, tensor<4x3x2xf32>
// CHECK-NEXT:   %3 = tg.or %1, %2 : tensor<4x3x2xi1>, tensor<4x3x2xi1>
// CHECK-NEXT:   %4 = tg.cast %3 to = f32 : tensor<4x3x2xi1>
// CHECK-NEXT:   %5 = tg.sum %4 axes = [0, 2] : tensor<4x3x2xf32>
// CHECK-NEXT:   %6 = tg.div %w, %5 : tensor<3xf32>, tensor<3xf32>
// CHECK-NEXT:   %7 = tg.broadcast %6 shape = [4, 3, 2] dims = [1] : tensor<3xf32>
// CHECK-NEXT:   %8 = tg.constant value = dense<0.000000e+00> : tensor<4x3x2xf32>
// CHECK-NEXT:   %9 = tg.select %3, %7, %8 : tensor<4x3x2xi1>, tensor<4x3x2xf32>, tensor<4x3x2xf32>
// CHECK-NEXT:   func.return %loss, %9 : tensor<f32>, tensor<4x3x2xf32>
// CHECK-NEXT: }

// -----

func.func @take(%x: tensor<65x8xf32>, %i: tensor<2x3xi32>, %w: tensor<2x3x8xf32>) -> tensor<f32> {
  %y = tg.take %x, %i axis = 0 : tensor<65x8xf32>, tensor<2x3xi32>
  %p = tg.mul %y, %w : tensor<2x3x8xf32>, tensor<2x3x8xf32>
  %loss = tg.sum %p axes = [0, 1, 2] : tensor<2x3x8xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @take(
// CHECK-SAME: %x: tensor<65x8xf32> {tg.name = "arg0", tg.role = "input"}, %i: tensor<2x3xi32> {tg.name = "arg1", tg.role = "input"}, %w: tensor<2x3x8xf32> {tg.name = "arg2", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<65x8xf32> {tg.name = "arg0", tg.role = "gradient"}) {
// CHECK-NEXT:   %y = tg.take %x, %i axis = 0 : tensor<65x8xf32>, tensor<2x3xi32>
// CHECK-NEXT:   %p = tg.mul %y, %w : tensor<2x3x8xf32>, tensor<2x3x8xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0, 1, 2] : tensor<2x3x8xf32>
// CHECK-NEXT:   %0 = tg.scatter_add %w, %i axis = 0 extent = 65 : tensor<2x3x8xf32>, tensor<2x3xi32>
// CHECK-NEXT:   func.return %loss, %0 : tensor<f32>, tensor<65x8xf32>
// CHECK-NEXT: }

// -----

// Updates whose indices are out of range were dropped: their gradient is zero.
func.func @scatter_add(%x: tensor<2x3x8xf32>, %i: tensor<2x3xi32>, %w: tensor<65x8xf32>) -> tensor<f32> {
  %y = tg.scatter_add %x, %i axis = 0 extent = 65 : tensor<2x3x8xf32>, tensor<2x3xi32>
  %p = tg.mul %y, %w : tensor<65x8xf32>, tensor<65x8xf32>
  %loss = tg.sum %p axes = [0, 1] : tensor<65x8xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @scatter_add(
// CHECK-SAME: %x: tensor<2x3x8xf32> {tg.name = "arg0", tg.role = "input"}, %i: tensor<2x3xi32> {tg.name = "arg1", tg.role = "input"}, %w: tensor<65x8xf32> {tg.name = "arg2", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<2x3x8xf32> {tg.name = "arg0", tg.role = "gradient"}) {
// CHECK-NEXT:   %y = tg.scatter_add %x, %i axis = 0 extent = 65 : tensor<2x3x8xf32>, tensor<2x3xi32>
// CHECK-NEXT:   %p = tg.mul %y, %w : tensor<65x8xf32>, tensor<65x8xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0, 1] : tensor<65x8xf32>
// CHECK-NEXT:   %0 = tg.take %w, %i axis = 0 : tensor<65x8xf32>, tensor<2x3xi32>
// CHECK-NEXT:   %1 = tg.constant value = dense<0> : tensor<2x3xi32>
// CHECK-NEXT:   %2 = tg.compare %i, %1 predicate = "ge" : tensor<2x3xi32>, tensor<2x3xi32>
// CHECK-NEXT:   %3 = tg.constant value = dense<65> : tensor<2x3xi32>
// CHECK-NEXT:   %4 = tg.compare %i, %3 predicate = "lt" : tensor<2x3xi32>, tensor<2x3xi32>
// CHECK-NEXT:   %5 = tg.and %2, %4 : tensor<2x3xi1>, tensor<2x3xi1>
// CHECK-NEXT:   %6 = tg.broadcast %5 shape = [2, 3, 8] dims = [0, 1] : tensor<2x3xi1>
// CHECK-NEXT:   %7 = tg.constant value = dense<0.000000e+00> : tensor<2x3x8xf32>
// CHECK-NEXT:   %8 = tg.select %6, %0, %7 : tensor<2x3x8xi1>, tensor<2x3x8xf32>, tensor<2x3x8xf32>
// CHECK-NEXT:   func.return %loss, %8 : tensor<f32>, tensor<2x3x8xf32>
// CHECK-NEXT: }

// -----

func.func @take_along_axis(%x: tensor<4x10xf32>, %i: tensor<4x1xi32>, %w: tensor<4x1xf32>) -> tensor<f32> {
  %y = tg.take_along_axis %x, %i axis = 1 : tensor<4x10xf32>, tensor<4x1xi32>
  %p = tg.mul %y, %w : tensor<4x1xf32>, tensor<4x1xf32>
  %loss = tg.sum %p axes = [0, 1] : tensor<4x1xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @take_along_axis(
// CHECK-SAME: %x: tensor<4x10xf32> {tg.name = "arg0", tg.role = "input"}, %i: tensor<4x1xi32> {tg.name = "arg1", tg.role = "input"}, %w: tensor<4x1xf32> {tg.name = "arg2", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<4x10xf32> {tg.name = "arg0", tg.role = "gradient"}) {
// CHECK-NEXT:   %y = tg.take_along_axis %x, %i axis = 1 : tensor<4x10xf32>, tensor<4x1xi32>
// CHECK-NEXT:   %p = tg.mul %y, %w : tensor<4x1xf32>, tensor<4x1xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0, 1] : tensor<4x1xf32>
// CHECK-NEXT:   %0 = tg.scatter_add_along_axis %w, %i axis = 1 extent = 10 : tensor<4x1xf32>, tensor<4x1xi32>
// CHECK-NEXT:   func.return %loss, %0 : tensor<f32>, tensor<4x10xf32>
// CHECK-NEXT: }

// -----

func.func @scatter_add_along_axis(%x: tensor<4x1xf32>, %i: tensor<4x1xi32>, %w: tensor<4x10xf32>) -> tensor<f32> {
  %y = tg.scatter_add_along_axis %x, %i axis = 1 extent = 10 : tensor<4x1xf32>, tensor<4x1xi32>
  %p = tg.mul %y, %w : tensor<4x10xf32>, tensor<4x10xf32>
  %loss = tg.sum %p axes = [0, 1] : tensor<4x10xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @scatter_add_along_axis(
// CHECK-SAME: %x: tensor<4x1xf32> {tg.name = "arg0", tg.role = "input"}, %i: tensor<4x1xi32> {tg.name = "arg1", tg.role = "input"}, %w: tensor<4x10xf32> {tg.name = "arg2", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<4x1xf32> {tg.name = "arg0", tg.role = "gradient"}) {
// CHECK-NEXT:   %y = tg.scatter_add_along_axis %x, %i axis = 1 extent = 10 : tensor<4x1xf32>, tensor<4x1xi32>
// CHECK-NEXT:   %p = tg.mul %y, %w : tensor<4x10xf32>, tensor<4x10xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0, 1] : tensor<4x10xf32>
// CHECK-NEXT:   %0 = tg.take_along_axis %w, %i axis = 1 : tensor<4x10xf32>, tensor<4x1xi32>
// CHECK-NEXT:   %1 = tg.constant value = dense<0> : tensor<4x1xi32>
// CHECK-NEXT:   %2 = tg.compare %i, %1 predicate = "ge" : tensor<4x1xi32>, tensor<4x1xi32>
// CHECK-NEXT:   %3 = tg.constant value = dense<10> : tensor<4x1xi32>
// CHECK-NEXT:   %4 = tg.compare %i, %3 predicate = "lt" : tensor<4x1xi32>, tensor<4x1xi32>
// CHECK-NEXT:   %5 = tg.and %2, %4 : tensor<4x1xi1>, tensor<4x1xi1>
// CHECK-NEXT:   %6 = tg.constant value = dense<0.000000e+00> : tensor<4x1xf32>
// CHECK-NEXT:   %7 = tg.select %5, %0, %6 : tensor<4x1xi1>, tensor<4x1xf32>, tensor<4x1xf32>
// CHECK-NEXT:   func.return %loss, %7 : tensor<f32>, tensor<4x1xf32>
// CHECK-NEXT: }

// -----

// Equal maxima share the cotangent: they are counted by a scatter of the same kind.
func.func @scatter_max(%x: tensor<4x3xf32>, %i: tensor<4x3xi32>) -> tensor<f32> {
  %y = tg.scatter_reduce_along_axis %x, %i axis = 1 extent = 10 reduction = "max" : tensor<4x3xf32>, tensor<4x3xi32>
  %loss = tg.sum %y axes = [0, 1] : tensor<4x10xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @scatter_max(
// CHECK:        %[[READ:.*]] = tg.take_along_axis %y, %i axis = 1
// CHECK:        %[[OWN:.*]] = tg.select %{{.*}}, %[[READ]], %{{.*}}
// CHECK-NEXT:   tg.compare %x, %[[OWN]] predicate = "eq"
// CHECK:        tg.scatter_add_along_axis %{{.*}}, %i axis = 1 extent = 10 : tensor<4x3xf32>, tensor<4x3xi32>
// CHECK:        tg.div
// CHECK:        func.return

// -----

// A product's derivative is the product of the updates before and behind in the order of indices: two steps for four.
func.func @scatter_prod(%x: tensor<4x3xf32>, %i: tensor<4xi32>) -> tensor<f32> {
  %y = tg.scatter_reduce %x, %i axis = 0 extent = 10 reduction = "prod" : tensor<4x3xf32>, tensor<4xi32>
  %loss = tg.sum %y axes = [0, 1] : tensor<10x3xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @scatter_prod(
// CHECK:         %[[ORDER:.*]] = tg.argsort %i descending = 0 : tensor<4xi32>
// CHECK:         tg.take %i, %[[ORDER]] axis = 0
// CHECK-COUNT-5: tg.mul
// CHECK:         %[[BACK:.*]] = tg.argsort %[[ORDER]] descending = 0 : tensor<4xi32>
// CHECK-NEXT:    tg.take %{{.*}}, %[[BACK]] axis = 1
// CHECK:         tg.div
// CHECK:         func.return
