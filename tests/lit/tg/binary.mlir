// RUN: TG_ROUNDTRIP

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

// A comparison gives booleans of the same shape.
func.func @choices(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xi32>) {
  %eq = tg.compare %x, %y predicate = "eq" : tensor<2x3xf32>, tensor<2x3xf32>
  %ne = tg.compare %eq, %eq predicate = "ne" : tensor<2x3xi1>, tensor<2x3xi1>
  %lt = tg.compare %x, %y predicate = "lt" : tensor<2x3xf32>, tensor<2x3xf32>
  %le = tg.compare %x, %y predicate = "le" : tensor<2x3xf32>, tensor<2x3xf32>
  %gt = tg.compare %x, %y predicate = "gt" : tensor<2x3xf32>, tensor<2x3xf32>
  %ge = tg.compare %x, %y predicate = "ge" : tensor<2x3xf32>, tensor<2x3xf32>
  %chosen = tg.select %lt, %x, %y : tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xf32>
  %cast = tg.cast %chosen to = i32 : tensor<2x3xf32>
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
// CHECK-NEXT:   func.return %chosen, %cast : tensor<2x3xf32>, tensor<2x3xi32>
// CHECK-NEXT: }
