// RUN: tg-opt %s --split-input-file -p widen-integers | filecheck %s
// RUN: tg-opt %s --split-input-file -p 'widen-integers{target=cpu}' | filecheck %s --check-prefix NATIVE

func.func @signed(%x: tensor<4xi8> {tg.name = "x", tg.role = "input"}, %i: tensor<3xi32>) -> (tensor<4xi8>, tensor<3xi8>) {
  %0 = tg.add %x, %x : tensor<4xi8>, tensor<4xi8>
  %1 = tg.maximum %0, %x : tensor<4xi8>, tensor<4xi8>
  %2 = tg.take %x, %i axis = 0 : tensor<4xi8>, tensor<3xi32>
  func.return %1, %2 : tensor<4xi8>, tensor<3xi8>
}

// A result that may overflow is wrapped by two shifts; those of `maximum` and `take` can't.
// CHECK-LABEL: func.func @signed(
// CHECK-SAME: %x: tensor<4xi32> {tg.name = "x", tg.role = "input", tg.dtype = "i8"}
// CHECK-SAME: -> (tensor<4xi32> {tg.name = "result0", tg.role = "output", tg.dtype = "i8"}, tensor<3xi32> {tg.name = "result1", tg.role = "output", tg.dtype = "i8"})
// CHECK-NEXT:   %0 = tg.add %x, %x : tensor<4xi32>, tensor<4xi32>
// CHECK-NEXT:   %1 = tg.constant value = dense<24> : tensor<4xi32>
// CHECK-NEXT:   %2 = tg.shift_left %0, %1 : tensor<4xi32>, tensor<4xi32>
// CHECK-NEXT:   %3 = tg.shift_right %2, %1 : tensor<4xi32>, tensor<4xi32>
// CHECK-NEXT:   %4 = tg.maximum %3, %x : tensor<4xi32>, tensor<4xi32>
// CHECK-NEXT:   %5 = tg.take %x, %i axis = 0 : tensor<4xi32>, tensor<3xi32>
// CHECK-NEXT:   func.return %4, %5 : tensor<4xi32>, tensor<3xi32>

// NATIVE-LABEL: func.func @signed(%x: tensor<4xi8> {tg.name = "x", tg.role = "input"}, %i: tensor<3xi32>) -> (tensor<4xi8>, tensor<3xi8>) {
// NATIVE-NEXT:   tg.add %x, %x : tensor<4xi8>, tensor<4xi8>

// -----

// A sum is wrapped once, after the reduction; a cast from float saturates: it is clamped instead of wrapped.
func.func @unsigned(%x: tensor<4xf32>) -> tensor<ui16> {
  %0 = tg.cast %x to = ui16 : tensor<4xf32>
  %1 = tg.constant value = dense<[1, 2, 65535, 4]> : tensor<4xui16>
  %2 = tg.xor %0, %1 : tensor<4xui16>, tensor<4xui16>
  %3 = tg.sum %2 axes = [0] : tensor<4xui16>
  func.return %3 : tensor<ui16>
}

// CHECK-LABEL: func.func @unsigned(
// CHECK-SAME: -> (tensor<ui32> {tg.name = "result0", tg.role = "output", tg.dtype = "u16"})
// CHECK-NEXT:   %0 = tg.cast %x to = ui32 : tensor<4xf32>
// CHECK-NEXT:   %1 = tg.constant value = dense<65535> : tensor<4xui32>
// CHECK-NEXT:   %2 = tg.minimum %0, %1 : tensor<4xui32>, tensor<4xui32>
// CHECK-NEXT:   %3 = tg.constant value = dense<[1, 2, 65535, 4]> : tensor<4xui32>
// CHECK-NEXT:   %4 = tg.xor %2, %3 : tensor<4xui32>, tensor<4xui32>
// CHECK-NEXT:   %5 = tg.sum %4 axes = [0] : tensor<4xui32>
// CHECK-NEXT:   %6 = tg.constant value = dense<65535> : tensor<ui32>
// CHECK-NEXT:   %7 = tg.and %5, %6 : tensor<ui32>, tensor<ui32>
// CHECK-NEXT:   func.return %7 : tensor<ui32>

// -----

// The body of a loop, its arguments and results are widened; `iota` is wrapped; a bitcast to the same width is a cast.
func.func @loop(%x: tensor<2xi16>) -> tensor<2xui16> {
  %last = tg.scan () carry (%x) over () length = 3 : (tensor<2xi16>) -> (tensor<2xi16>) {
  ^bb0(%h: tensor<2xi16>):
    %0 = tg.iota shape = [2] axis = 0 element = i16
    %1 = tg.sub %h, %0 : tensor<2xi16>, tensor<2xi16>
    tg.return %1 : tensor<2xi16>
  }
  %2 = tg.bitcast %last to = ui16 : tensor<2xi16>
  func.return %2 : tensor<2xui16>
}

// CHECK-LABEL: func.func @loop(
// CHECK:        tg.scan () carry (%x) over () length = 3 : (tensor<2xi32>) -> (tensor<2xi32>) {
// CHECK-NEXT:   ^bb0(%h: tensor<2xi32>):
// CHECK-NEXT:     %{{.*}} = tg.iota shape = [2] axis = 0 element = i32
// CHECK:          tg.sub %h, %{{.*}} : tensor<2xi32>, tensor<2xi32>
// CHECK:          tg.return %{{.*}} : tensor<2xi32>
// CHECK:        %{{.*}} = tg.cast %{{.*}} to = ui32 : tensor<2xi32>
// CHECK-NEXT:   tg.constant value = dense<65535> : tensor<2xui32>
// CHECK-NEXT:   tg.and
// CHECK-NEXT:   func.return

// -----

// The bits of an f16 are computed from those of its value in f32.
func.func @half(%x: tensor<2xf16>) -> (tensor<2xi16>, tensor<2xf16>) {
  %0 = tg.bitcast %x to = i16 : tensor<2xf16>
  %1 = tg.bitcast %0 to = f16 : tensor<2xi16>
  func.return %0, %1 : tensor<2xi16>, tensor<2xf16>
}

// CHECK-LABEL: func.func @half(
// CHECK-NEXT:   %[[WIDE:.*]] = tg.cast %x to = f32 : tensor<2xf16>
// CHECK-NEXT:   tg.bitcast %[[WIDE]] to = ui32 : tensor<2xf32>
// CHECK-NOT:    tg.bitcast %x
// CHECK:        tg.cast %{{.*}} to = f16 : tensor<2xf32>

// -----

// Functions without 8- and 16-bit integers are unchanged, including their signatures.
func.func @words(%x: tensor<2xi32>, %y: tensor<2xi64>) -> tensor<2xi64> {
  %0 = tg.cast %x to = i64 : tensor<2xi32>
  %1 = tg.add %0, %y : tensor<2xi64>, tensor<2xi64>
  func.return %1 : tensor<2xi64>
}

// CHECK-LABEL: func.func @words(%x: tensor<2xi32>, %y: tensor<2xi64>) -> tensor<2xi64> {
// CHECK-NEXT:   %0 = tg.cast %x to = i64 : tensor<2xi32>
// CHECK-NEXT:   %1 = tg.add %0, %y : tensor<2xi64>, tensor<2xi64>
// CHECK-NEXT:   func.return %1 : tensor<2xi64>

// -----

// The identity elements of words, where an index has no updates, become those of the narrow type.
func.func @extremes(%x: tensor<3xi8>, %i: tensor<3xi32>) -> tensor<5xi8> {
  %0 = tg.scatter_reduce %x, %i axis = 0 extent = 5 reduction = "max" : tensor<3xi8>, tensor<3xi32>
  func.return %0 : tensor<5xi8>
}

// CHECK-LABEL: func.func @extremes(
// CHECK-NEXT:   %[[FOLDS:.*]] = tg.scatter_reduce %x, %i axis = 0 extent = 5 reduction = "max" : tensor<3xi32>, tensor<3xi32>
// CHECK-NEXT:   tg.constant value = dense<127> : tensor<5xi32>
// CHECK-NEXT:   tg.minimum %[[FOLDS]]
// CHECK-NEXT:   tg.constant value = dense<-128> : tensor<5xi32>
// CHECK-NEXT:   %[[HELD:.*]] = tg.maximum
// CHECK-NEXT:   func.return %[[HELD]] : tensor<5xi32>
