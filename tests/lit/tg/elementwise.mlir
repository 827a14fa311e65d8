// RUN: TG_ROUNDTRIP

func.func @floats(%x: tensor<4xf32>) -> tensor<4xf32> {
  %exp = tg.exp %x : tensor<4xf32>
  %log = tg.log %exp : tensor<4xf32>
  %sqrt = tg.sqrt %log : tensor<4xf32>
  %sin = tg.sin %sqrt : tensor<4xf32>
  %cos = tg.cos %sin : tensor<4xf32>
  %tanh = tg.tanh %cos : tensor<4xf32>
  %sigmoid = tg.sigmoid %tanh : tensor<4xf32>
  %stopped = tg.stop_gradient %sigmoid : tensor<4xf32>
  func.return %stopped : tensor<4xf32>
}
// CHECK-LABEL: func.func @floats(
// CHECK-SAME: %x: tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NEXT:   %exp = tg.exp %x : tensor<4xf32>
// CHECK-NEXT:   %log = tg.log %exp : tensor<4xf32>
// CHECK-NEXT:   %sqrt = tg.sqrt %log : tensor<4xf32>
// CHECK-NEXT:   %sin = tg.sin %sqrt : tensor<4xf32>
// CHECK-NEXT:   %cos = tg.cos %sin : tensor<4xf32>
// CHECK-NEXT:   %tanh = tg.tanh %cos : tensor<4xf32>
// CHECK-NEXT:   %sigmoid = tg.sigmoid %tanh : tensor<4xf32>
// CHECK-NEXT:   %stopped = tg.stop_gradient %sigmoid : tensor<4xf32>
// CHECK-NEXT:   func.return %stopped : tensor<4xf32>
// CHECK-NEXT: }

// These ops take floats, and signed and unsigned integers.
func.func @negated(%x: tensor<4xf16>, %i: tensor<4xi32>, %u: tensor<ui32>) -> (tensor<4xf16>, tensor<4xi32>, tensor<ui32>) {
  %neg = tg.neg %x : tensor<4xf16>
  %abs = tg.abs %i : tensor<4xi32>
  %relu = tg.relu %u : tensor<ui32>
  func.return %neg, %abs, %relu : tensor<4xf16>, tensor<4xi32>, tensor<ui32>
}
// CHECK-LABEL: func.func @negated(
// CHECK-SAME: %x: tensor<4xf16>, %i: tensor<4xi32>, %u: tensor<ui32>) -> (tensor<4xf16>, tensor<4xi32>, tensor<ui32>) {
// CHECK-NEXT:   %neg = tg.neg %x : tensor<4xf16>
// CHECK-NEXT:   %abs = tg.abs %i : tensor<4xi32>
// CHECK-NEXT:   %relu = tg.relu %u : tensor<ui32>
// CHECK-NEXT:   func.return %neg, %abs, %relu : tensor<4xf16>, tensor<4xi32>, tensor<ui32>
// CHECK-NEXT: }

func.func @booleans(%b: tensor<2x2xi1>) -> tensor<2x2xi1> {
  %not = tg.not %b : tensor<2x2xi1>
  %stopped = tg.stop_gradient %not : tensor<2x2xi1>
  func.return %stopped : tensor<2x2xi1>
}
// CHECK-LABEL: func.func @booleans(
// CHECK-SAME: %b: tensor<2x2xi1>) -> tensor<2x2xi1> {
// CHECK-NEXT:   %not = tg.not %b : tensor<2x2xi1>
// CHECK-NEXT:   %stopped = tg.stop_gradient %not : tensor<2x2xi1>
// CHECK-NEXT:   func.return %stopped : tensor<2x2xi1>
// CHECK-NEXT: }

func.func @numbers(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %add = tg.add %x, %y : tensor<4xf32>, tensor<4xf32>
  %sub = tg.sub %add, %y : tensor<4xf32>, tensor<4xf32>
  %mul = tg.mul %sub, %y : tensor<4xf32>, tensor<4xf32>
  %div = tg.div %mul, %y : tensor<4xf32>, tensor<4xf32>
  %pow = tg.pow %div, %y : tensor<4xf32>, tensor<4xf32>
  %max = tg.maximum %pow, %y : tensor<4xf32>, tensor<4xf32>
  %min = tg.minimum %max, %y : tensor<4xf32>, tensor<4xf32>
  func.return %min : tensor<4xf32>
}
// CHECK-LABEL: func.func @numbers(
// CHECK-SAME: %x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NEXT:   %add = tg.add %x, %y : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %sub = tg.sub %add, %y : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %mul = tg.mul %sub, %y : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %div = tg.div %mul, %y : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %pow = tg.pow %div, %y : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %max = tg.maximum %pow, %y : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %min = tg.minimum %max, %y : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   func.return %min : tensor<4xf32>
// CHECK-NEXT: }

func.func @bits(%i: tensor<3xi32>, %b: tensor<3xi1>) -> (tensor<3xi32>, tensor<3xi1>) {
  %and = tg.and %i, %i : tensor<3xi32>, tensor<3xi32>
  %or = tg.or %b, %b : tensor<3xi1>, tensor<3xi1>
  func.return %and, %or : tensor<3xi32>, tensor<3xi1>
}
// CHECK-LABEL: func.func @bits(
// CHECK-SAME: %i: tensor<3xi32>, %b: tensor<3xi1>) -> (tensor<3xi32>, tensor<3xi1>) {
// CHECK-NEXT:   %and = tg.and %i, %i : tensor<3xi32>, tensor<3xi32>
// CHECK-NEXT:   %or = tg.or %b, %b : tensor<3xi1>, tensor<3xi1>
// CHECK-NEXT:   func.return %and, %or : tensor<3xi32>, tensor<3xi1>
// CHECK-NEXT: }

// A comparison returns an i1 tensor of the same shape.
func.func @choices(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xi32>) {
  %eq = tg.compare %x, %y predicate = "eq" : tensor<2x3xf32>, tensor<2x3xf32>
  %ne = tg.compare %eq, %eq predicate = "ne" : tensor<2x3xi1>, tensor<2x3xi1>
  %lt = tg.compare %x, %y predicate = "lt" : tensor<2x3xf32>, tensor<2x3xf32>
  %le = tg.compare %x, %y predicate = "le" : tensor<2x3xf32>, tensor<2x3xf32>
  %gt = tg.compare %x, %y predicate = "gt" : tensor<2x3xf32>, tensor<2x3xf32>
  %ge = tg.compare %x, %y predicate = "ge" : tensor<2x3xf32>, tensor<2x3xf32>
  %chosen = tg.select %lt, %x, %y : tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xf32>
  %cast = tg.cast %chosen to = i32 : tensor<2x3xf32>
  %bits = tg.bitcast %chosen to = ui32 : tensor<2x3xf32>
  func.return %chosen, %cast : tensor<2x3xf32>, tensor<2x3xi32>
}
// CHECK-LABEL: func.func @choices(
// CHECK-SAME: %x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xi32>) {
// CHECK-NEXT:   %eq = tg.compare %x, %y predicate = "eq" : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %ne = tg.compare %eq, %eq predicate = "ne" : tensor<2x3xi1>, tensor<2x3xi1>
// CHECK-NEXT:   %lt = tg.compare %x, %y predicate = "lt" : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %le = tg.compare %x, %y predicate = "le" : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %gt = tg.compare %x, %y predicate = "gt" : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %ge = tg.compare %x, %y predicate = "ge" : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %chosen = tg.select %lt, %x, %y : tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %cast = tg.cast %chosen to = i32 : tensor<2x3xf32>
// CHECK-NEXT:   %bits = tg.bitcast %chosen to = ui32 : tensor<2x3xf32>
// CHECK-NEXT:   func.return %chosen, %cast : tensor<2x3xf32>, tensor<2x3xi32>
// CHECK-NEXT: }

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
  %lgamma = tg.lgamma %erfc : tensor<4xf32>
  %polygamma = tg.polygamma %lgamma order = 2 : tensor<4xf32>
  %softplus = tg.softplus %polygamma : tensor<4xf32>
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
// CHECK-NEXT:   %lgamma = tg.lgamma %erfc : tensor<4xf32>
// CHECK-NEXT:   %polygamma = tg.polygamma %lgamma order = 2 : tensor<4xf32>
// CHECK-NEXT:   %softplus = tg.softplus %polygamma : tensor<4xf32>
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
