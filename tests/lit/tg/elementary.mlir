// RUN: TG_ROUNDTRIP

func.func @functions(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>) {
  %exp2 = tg.exp2 %x : tensor<4xf32>
  %expm1 = tg.expm1 %exp2 : tensor<4xf32>
  %log2 = tg.log2 %expm1 : tensor<4xf32>
  %log1p = tg.log1p %log2 : tensor<4xf32>
  %tan = tg.tan %log1p : tensor<4xf32>
  %asin = tg.asin %tan : tensor<4xf32>
  %acos = tg.acos %asin : tensor<4xf32>
  %atan = tg.atan %acos : tensor<4xf32>
  %sinh = tg.sinh %atan : tensor<4xf32>
  %cosh = tg.cosh %sinh : tensor<4xf32>
  %asinh = tg.asinh %cosh : tensor<4xf32>
  %acosh = tg.acosh %asinh : tensor<4xf32>
  %atanh = tg.atanh %acosh : tensor<4xf32>
  %erf = tg.erf %atanh : tensor<4xf32>
  %erfc = tg.erfc %erf : tensor<4xf32>
  %softplus = tg.softplus %erfc : tensor<4xf32>
  %floor = tg.floor %softplus : tensor<4xf32>
  %ceil = tg.ceil %floor : tensor<4xf32>
  %round = tg.round %ceil : tensor<4xf32>
  %trunc = tg.trunc %round : tensor<4xf32>
  %atan2 = tg.atan2 %trunc, %x : tensor<4xf32>, tensor<4xf32>
  %finite = tg.is_finite %atan2 : tensor<4xf32>
  func.return %atan2, %finite : tensor<4xf32>, tensor<4xi1>
}
// CHECK-LABEL: func.func @functions(
// CHECK-SAME: %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>) {
// CHECK-NEXT:   %exp2 = tg.exp2 %x : tensor<4xf32>
// CHECK-NEXT:   %expm1 = tg.expm1 %exp2 : tensor<4xf32>
// CHECK-NEXT:   %log2 = tg.log2 %expm1 : tensor<4xf32>
// CHECK-NEXT:   %log1p = tg.log1p %log2 : tensor<4xf32>
// CHECK-NEXT:   %tan = tg.tan %log1p : tensor<4xf32>
// CHECK-NEXT:   %asin = tg.asin %tan : tensor<4xf32>
// CHECK-NEXT:   %acos = tg.acos %asin : tensor<4xf32>
// CHECK-NEXT:   %atan = tg.atan %acos : tensor<4xf32>
// CHECK-NEXT:   %sinh = tg.sinh %atan : tensor<4xf32>
// CHECK-NEXT:   %cosh = tg.cosh %sinh : tensor<4xf32>
// CHECK-NEXT:   %asinh = tg.asinh %cosh : tensor<4xf32>
// CHECK-NEXT:   %acosh = tg.acosh %asinh : tensor<4xf32>
// CHECK-NEXT:   %atanh = tg.atanh %acosh : tensor<4xf32>
// CHECK-NEXT:   %erf = tg.erf %atanh : tensor<4xf32>
// CHECK-NEXT:   %erfc = tg.erfc %erf : tensor<4xf32>
// CHECK-NEXT:   %softplus = tg.softplus %erfc : tensor<4xf32>
// CHECK-NEXT:   %floor = tg.floor %softplus : tensor<4xf32>
// CHECK-NEXT:   %ceil = tg.ceil %floor : tensor<4xf32>
// CHECK-NEXT:   %round = tg.round %ceil : tensor<4xf32>
// CHECK-NEXT:   %trunc = tg.trunc %round : tensor<4xf32>
// CHECK-NEXT:   %atan2 = tg.atan2 %trunc, %x : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %finite = tg.is_finite %atan2 : tensor<4xf32>
// CHECK-NEXT:   func.return %atan2, %finite : tensor<4xf32>, tensor<4xi1>
// CHECK-NEXT: }

func.func @integers(%i: tensor<4xi32>, %j: tensor<4xi32>, %x: tensor<2xf64>, %b: tensor<3xi1>) -> (tensor<4xi32>, tensor<2xf64>, tensor<3xi1>) {
  %xor = tg.xor %i, %j : tensor<4xi32>, tensor<4xi32>
  %shift_left = tg.shift_left %xor, %j : tensor<4xi32>, tensor<4xi32>
  %shift_right = tg.shift_right %shift_left, %j : tensor<4xi32>, tensor<4xi32>
  %floor_divide = tg.floor_divide %shift_right, %j : tensor<4xi32>, tensor<4xi32>
  %remainder = tg.remainder %floor_divide, %j : tensor<4xi32>, tensor<4xi32>
  %not = tg.not %remainder : tensor<4xi32>
  %rest = tg.remainder %x, %x : tensor<2xf64>, tensor<2xf64>
  %unlike = tg.xor %b, %b : tensor<3xi1>, tensor<3xi1>
  func.return %not, %rest, %unlike : tensor<4xi32>, tensor<2xf64>, tensor<3xi1>
}
// CHECK-LABEL: func.func @integers(
// CHECK-SAME: %i: tensor<4xi32>, %j: tensor<4xi32>, %x: tensor<2xf64>, %b: tensor<3xi1>) -> (tensor<4xi32>, tensor<2xf64>, tensor<3xi1>) {
// CHECK-NEXT:   %xor = tg.xor %i, %j : tensor<4xi32>, tensor<4xi32>
// CHECK-NEXT:   %shift_left = tg.shift_left %xor, %j : tensor<4xi32>, tensor<4xi32>
// CHECK-NEXT:   %shift_right = tg.shift_right %shift_left, %j : tensor<4xi32>, tensor<4xi32>
// CHECK-NEXT:   %floor_divide = tg.floor_divide %shift_right, %j : tensor<4xi32>, tensor<4xi32>
// CHECK-NEXT:   %remainder = tg.remainder %floor_divide, %j : tensor<4xi32>, tensor<4xi32>
// CHECK-NEXT:   %not = tg.not %remainder : tensor<4xi32>
// CHECK-NEXT:   %rest = tg.remainder %x, %x : tensor<2xf64>, tensor<2xf64>
// CHECK-NEXT:   %unlike = tg.xor %b, %b : tensor<3xi1>, tensor<3xi1>
// CHECK-NEXT:   func.return %not, %rest, %unlike : tensor<4xi32>, tensor<2xf64>, tensor<3xi1>
// CHECK-NEXT: }
