// RUN: TG_ROUNDTRIP

func.func @leaves() -> (tensor<4x3xf32>, tensor<2xi32>, tensor<0xf32>, tensor<2xi1>, tensor<2xui32>, tensor<3xf32>, tensor<2x2xf16>, tensor<f64>) {
  %splat = tg.constant value = dense<5.000000e-01> : tensor<4x3xf32>
  %whole = tg.constant value = dense<[1, -2]> : tensor<2xi32>
  %empty = tg.constant value = dense<> : tensor<0xf32>
  %flags = tg.constant value = dense<[true, false]> : tensor<2xi1>
  %unsigned = tg.constant value = dense<[0, 4294967295]> : tensor<2xui32>
  %infinite = tg.constant value = dense<0xFF800000> : tensor<3xf32>
  %half = tg.constant value = dense<[[1.0, 0x7C00], [0xFC00, 0x7E00]]> : tensor<2x2xf16>
  %double = tg.constant value = dense<0x7FF0000000000000> : tensor<f64>
  func.return %splat, %whole, %empty, %flags, %unsigned, %infinite, %half, %double : tensor<4x3xf32>, tensor<2xi32>, tensor<0xf32>, tensor<2xi1>, tensor<2xui32>, tensor<3xf32>, tensor<2x2xf16>, tensor<f64>
}
// CHECK-LABEL: func.func @leaves(
// CHECK-SAME: ) -> (tensor<4x3xf32>, tensor<2xi32>, tensor<0xf32>, tensor<2xi1>, tensor<2xui32>, tensor<3xf32>, tensor<2x2xf16>, tensor<f64>) {
// CHECK-NEXT:   %splat = tg.constant value = dense<5.000000e-01> : tensor<4x3xf32>
// CHECK-NEXT:   %whole = tg.constant value = dense<[1, -2]> : tensor<2xi32>
// CHECK-NEXT:   %empty = tg.constant value = dense<> : tensor<0xf32>
// CHECK-NEXT:   %flags = tg.constant value = dense<[true, false]> : tensor<2xi1>
// CHECK-NEXT:   %unsigned = tg.constant value = dense<[0, 4294967295]> : tensor<2xui32>
// CHECK-NEXT:   %infinite = tg.constant value = dense<0xff800000> : tensor<3xf32>
// CHECK-NEXT:   %half = tg.constant value = dense<[[1.000000e+00, 0x7c00], [0xfc00, 0x7e00]]> : tensor<2x2xf16>
// CHECK-NEXT:   %double = tg.constant value = dense<0x7ff0000000000000> : tensor<f64>
// CHECK-NEXT:   func.return %splat, %whole, %empty, %flags, %unsigned, %infinite, %half, %double : tensor<4x3xf32>, tensor<2xi32>, tensor<0xf32>, tensor<2xi1>, tensor<2xui32>, tensor<3xf32>, tensor<2x2xf16>, tensor<f64>
// CHECK-NEXT: }

// Shape and element type are attributes: there is no operand to infer them from.
func.func @positions() -> (tensor<2x3xi32>, tensor<2x3xf32>) {
  %columns = tg.iota shape = [2, 3] axis = 1 element = i32
  %rows = tg.iota shape = [2, 3] axis = 0 element = f32
  func.return %columns, %rows : tensor<2x3xi32>, tensor<2x3xf32>
}
// CHECK-LABEL: func.func @positions(
// CHECK-SAME: ) -> (tensor<2x3xi32>, tensor<2x3xf32>) {
// CHECK-NEXT:   %columns = tg.iota shape = [2, 3] axis = 1 element = i32
// CHECK-NEXT:   %rows = tg.iota shape = [2, 3] axis = 0 element = f32
// CHECK-NEXT:   func.return %columns, %rows : tensor<2x3xi32>, tensor<2x3xf32>
// CHECK-NEXT: }

// One element for none is none.
func.func @none() -> tensor<0x4xi8> {
  %0 = tg.constant value = dense<7> : tensor<0x4xi8>
  func.return %0 : tensor<0x4xi8>
}
// CHECK-LABEL: func.func @none(
// CHECK-NEXT:   %0 = tg.constant value = dense<> : tensor<0x4xi8>
