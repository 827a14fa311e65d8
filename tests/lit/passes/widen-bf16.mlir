// RUN: tg-opt %s --split-input-file -p widen-bf16 | filecheck %s
// RUN: tg-opt %s --split-input-file -p 'widen-bf16{target=cpu}' | filecheck %s --check-prefix NATIVE

// What computes does so in f32, and is rounded once; what moves elements stays bf16.
func.func @product(%x: tensor<4x3xbf16>, %w: tensor<3x2xbf16>) -> tensor<2x4xbf16> {
  %0 = tg.dot_general %x, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<4x3xbf16>, tensor<3x2xbf16>
  %1 = tg.transpose %0 permutation = [1, 0] : tensor<4x2xbf16>
  func.return %1 : tensor<2x4xbf16>
}
// CHECK-LABEL: func.func @product(
// CHECK-NEXT:   %0 = tg.cast %x to = f32 : tensor<4x3xbf16>
// CHECK-NEXT:   %1 = tg.cast %w to = f32 : tensor<3x2xbf16>
// CHECK-NEXT:   %2 = tg.dot_general %0, %1 {{.*}} : tensor<4x3xf32>, tensor<3x2xf32>
// CHECK-NEXT:   %3 = tg.cast %2 to = bf16 : tensor<4x2xf32>
// CHECK-NEXT:   %4 = tg.transpose %3 permutation = [1, 0] : tensor<4x2xbf16>
// CHECK-NEXT:   func.return %4 : tensor<2x4xbf16>

// -----

// A comparison has no result to round; conversions to and from other types go through f32; leaves have no operands.
func.func @kinds(%x: tensor<4xbf16>, %y: tensor<4xf16>) -> (tensor<4xi1>, tensor<4xi32>, tensor<4xbf16>, tensor<4xf32>, tensor<4xbf16>) {
  %0 = tg.compare %x, %x predicate = "lt" : tensor<4xbf16>, tensor<4xbf16>
  %1 = tg.cast %x to = i32 : tensor<4xbf16>
  %2 = tg.cast %y to = bf16 : tensor<4xf16>
  %3 = tg.cast %x to = f32 : tensor<4xbf16>
  %4 = tg.iota shape = [4] axis = 0 element = bf16
  func.return %0, %1, %2, %3, %4 : tensor<4xi1>, tensor<4xi32>, tensor<4xbf16>, tensor<4xf32>, tensor<4xbf16>
}
// CHECK-LABEL: func.func @kinds(
// CHECK:      %[[X:.*]] = tg.cast %x to = f32 : tensor<4xbf16>
// CHECK:      tg.compare {{.*}} : tensor<4xf32>, tensor<4xf32>
// CHECK:      tg.cast %{{.*}} to = i32 : tensor<4xf32>
// CHECK:      %[[Y:.*]] = tg.cast %y to = f32 : tensor<4xf16>
// CHECK-NEXT: tg.cast %[[Y]] to = bf16 : tensor<4xf32>
// CHECK:      tg.cast %x to = f32 : tensor<4xbf16>
// CHECK-NEXT: %[[I:.*]] = tg.iota shape = [4] axis = 0 element = f32
// CHECK-NEXT: tg.cast %[[I]] to = bf16 : tensor<4xf32>

// -----

// Shaders have no 16 bits to reinterpret; native code has.
func.func @bits(%x: tensor<4xbf16>) -> tensor<4xf16> {
  %0 = tg.bitcast %x to = f16 : tensor<4xbf16>
  func.return %0 : tensor<4xf16>
}
// CHECK-LABEL: func.func @bits(
// CHECK-NEXT:   %0 = tg.cast %x to = f32 : tensor<4xbf16>
// CHECK-NEXT:   %1 = tg.bitcast %0 to = ui32 : tensor<4xf32>
// CHECK-NEXT:   %2 = tg.constant value = dense<16> : tensor<4xui32>
// CHECK-NEXT:   %3 = tg.shift_right %1, %2 : tensor<4xui32>, tensor<4xui32>
// CHECK-NEXT:   %4 = tg.cast %3 to = ui16 : tensor<4xui32>
// CHECK-NEXT:   %5 = tg.bitcast %4 to = f16 : tensor<4xui16>
// CHECK-NEXT:   func.return %5 : tensor<4xf16>

// NATIVE-LABEL: func.func @bits(
// NATIVE-NEXT:   %0 = tg.bitcast %x to = f16 : tensor<4xbf16>
