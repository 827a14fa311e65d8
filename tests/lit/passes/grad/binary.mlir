// RUN: tg-opt %s --split-input-file -p 'grad{wrt=0,1},simplify' | filecheck %s

func.func @add(%x: tensor<4xf32>, %y: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<f32> {
  %r = tg.add %x, %y : tensor<4xf32>, tensor<4xf32>
  %p = tg.mul %r, %w : tensor<4xf32>, tensor<4xf32>
  %loss = tg.sum %p axes = [0] : tensor<4xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @add(
// CHECK-SAME: %x: tensor<4xf32> {tg.name = "arg0", tg.role = "input"}, %y: tensor<4xf32> {tg.name = "arg1", tg.role = "input"}, %w: tensor<4xf32> {tg.name = "arg2", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<4xf32> {tg.name = "arg0", tg.role = "gradient"}, tensor<4xf32> {tg.name = "arg1", tg.role = "gradient"}) {
// CHECK-NEXT:   %r = tg.add %x, %y : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %p = tg.mul %r, %w : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0] : tensor<4xf32>
// CHECK-NEXT:   func.return %loss, %w, %w : tensor<f32>, tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT: }

// -----

func.func @sub(%x: tensor<4xf32>, %y: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<f32> {
  %r = tg.sub %x, %y : tensor<4xf32>, tensor<4xf32>
  %p = tg.mul %r, %w : tensor<4xf32>, tensor<4xf32>
  %loss = tg.sum %p axes = [0] : tensor<4xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @sub(
// CHECK-SAME: %x: tensor<4xf32> {tg.name = "arg0", tg.role = "input"}, %y: tensor<4xf32> {tg.name = "arg1", tg.role = "input"}, %w: tensor<4xf32> {tg.name = "arg2", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<4xf32> {tg.name = "arg0", tg.role = "gradient"}, tensor<4xf32> {tg.name = "arg1", tg.role = "gradient"}) {
// CHECK-NEXT:   %r = tg.sub %x, %y : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %p = tg.mul %r, %w : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0] : tensor<4xf32>
// CHECK-NEXT:   %0 = tg.neg %w : tensor<4xf32>
// CHECK-NEXT:   func.return %loss, %w, %0 : tensor<f32>, tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT: }

// -----

func.func @mul(%x: tensor<4xf32>, %y: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<f32> {
  %r = tg.mul %x, %y : tensor<4xf32>, tensor<4xf32>
  %p = tg.mul %r, %w : tensor<4xf32>, tensor<4xf32>
  %loss = tg.sum %p axes = [0] : tensor<4xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @mul(
// CHECK-SAME: %x: tensor<4xf32> {tg.name = "arg0", tg.role = "input"}, %y: tensor<4xf32> {tg.name = "arg1", tg.role = "input"}, %w: tensor<4xf32> {tg.name = "arg2", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<4xf32> {tg.name = "arg0", tg.role = "gradient"}, tensor<4xf32> {tg.name = "arg1", tg.role = "gradient"}) {
// CHECK-NEXT:   %r = tg.mul %x, %y : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %p = tg.mul %r, %w : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0] : tensor<4xf32>
// CHECK-NEXT:   %0 = tg.mul %w, %y : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %1 = tg.mul %w, %x : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   func.return %loss, %0, %1 : tensor<f32>, tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT: }

// -----

func.func @div(%x: tensor<4xf32>, %y: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<f32> {
  %r = tg.div %x, %y : tensor<4xf32>, tensor<4xf32>
  %p = tg.mul %r, %w : tensor<4xf32>, tensor<4xf32>
  %loss = tg.sum %p axes = [0] : tensor<4xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @div(
// CHECK-SAME: %x: tensor<4xf32> {tg.name = "arg0", tg.role = "input"}, %y: tensor<4xf32> {tg.name = "arg1", tg.role = "input"}, %w: tensor<4xf32> {tg.name = "arg2", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<4xf32> {tg.name = "arg0", tg.role = "gradient"}, tensor<4xf32> {tg.name = "arg1", tg.role = "gradient"}) {
// CHECK-NEXT:   %r = tg.div %x, %y : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %p = tg.mul %r, %w : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0] : tensor<4xf32>
// CHECK-NEXT:   %0 = tg.div %w, %y : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %1 = tg.mul %0, %r : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %2 = tg.neg %1 : tensor<4xf32>
// CHECK-NEXT:   func.return %loss, %0, %2 : tensor<f32>, tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT: }

// -----

// The derivative by the base is 0 if the exponent is 0; that by the exponent, if the base is 0 and the exponent >= 0.
func.func @pow(%x: tensor<4xf32>, %y: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<f32> {
  %r = tg.pow %x, %y : tensor<4xf32>, tensor<4xf32>
  %p = tg.mul %r, %w : tensor<4xf32>, tensor<4xf32>
  %loss = tg.sum %p axes = [0] : tensor<4xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @pow(
// CHECK-SAME: %x: tensor<4xf32> {tg.name = "arg0", tg.role = "input"}, %y: tensor<4xf32> {tg.name = "arg1", tg.role = "input"}, %w: tensor<4xf32> {tg.name = "arg2", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<4xf32> {tg.name = "arg0", tg.role = "gradient"}, tensor<4xf32> {tg.name = "arg1", tg.role = "gradient"}) {
// CHECK-NEXT:   %r = tg.pow %x, %y : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %p = tg.mul %r, %w : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0] : tensor<4xf32>
// CHECK-NEXT:   %0 = tg.constant value = dense<1.000000e+00> : tensor<4xf32>
// CHECK-NEXT:   %1 = tg.constant value = dense<0.000000e+00> : tensor<4xf32>
// CHECK-NEXT:   %2 = tg.sub %y, %0 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %3 = tg.pow %x, %2 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %4 = tg.mul %y, %3 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %5 = tg.compare %y, %1 predicate = "eq" : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %6 = tg.mul %w, %4 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %7 = tg.select %5, %1, %6 : tensor<4xi1>, tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %8 = tg.compare %x, %1 predicate = "eq" : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %9 = tg.compare %y, %1 predicate = "ge" : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %10 = tg.and %8, %9 : tensor<4xi1>, tensor<4xi1>
// CHECK-NEXT:   %11 = tg.select %10, %0, %x : tensor<4xi1>, tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %12 = tg.log %11 : tensor<4xf32>
// CHECK-NEXT:   %13 = tg.mul %r, %12 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %14 = tg.mul %w, %13 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %15 = tg.select %10, %1, %14 : tensor<4xi1>, tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   func.return %loss, %7, %15 : tensor<f32>, tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT: }

// -----

// Equal operands get half of the cotangent each; if one is NaN, both get all of it.
func.func @maximum(%x: tensor<4xf32>, %y: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<f32> {
  %r = tg.maximum %x, %y : tensor<4xf32>, tensor<4xf32>
  %p = tg.mul %r, %w : tensor<4xf32>, tensor<4xf32>
  %loss = tg.sum %p axes = [0] : tensor<4xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @maximum(
// CHECK-SAME: %x: tensor<4xf32> {tg.name = "arg0", tg.role = "input"}, %y: tensor<4xf32> {tg.name = "arg1", tg.role = "input"}, %w: tensor<4xf32> {tg.name = "arg2", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<4xf32> {tg.name = "arg0", tg.role = "gradient"}, tensor<4xf32> {tg.name = "arg1", tg.role = "gradient"}) {
// CHECK-NEXT:   %r = tg.maximum %x, %y : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %p = tg.mul %r, %w : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0] : tensor<4xf32>
// CHECK-NEXT:   %0 = tg.constant value = dense<0.000000e+00> : tensor<4xf32>
// CHECK-NEXT:   %1 = tg.constant value = dense<5.000000e-01> : tensor<4xf32>
// CHECK-NEXT:   %2 = tg.mul %w, %1 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %3 = tg.compare %x, %y predicate = "eq" : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %4 = tg.select %3, %2, %w : tensor<4xi1>, tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %5 = tg.compare %y, %x predicate = "gt" : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %6 = tg.select %5, %0, %4 : tensor<4xi1>, tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %7 = tg.compare %x, %y predicate = "gt" : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %8 = tg.select %7, %0, %4 : tensor<4xi1>, tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   func.return %loss, %6, %8 : tensor<f32>, tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT: }

// -----

func.func @minimum(%x: tensor<4xf32>, %y: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<f32> {
  %r = tg.minimum %x, %y : tensor<4xf32>, tensor<4xf32>
  %p = tg.mul %r, %w : tensor<4xf32>, tensor<4xf32>
  %loss = tg.sum %p axes = [0] : tensor<4xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @minimum(
// CHECK-SAME: %x: tensor<4xf32> {tg.name = "arg0", tg.role = "input"}, %y: tensor<4xf32> {tg.name = "arg1", tg.role = "input"}, %w: tensor<4xf32> {tg.name = "arg2", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<4xf32> {tg.name = "arg0", tg.role = "gradient"}, tensor<4xf32> {tg.name = "arg1", tg.role = "gradient"}) {
// CHECK-NEXT:   %r = tg.minimum %x, %y : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %p = tg.mul %r, %w : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0] : tensor<4xf32>
// CHECK-NEXT:   %0 = tg.constant value = dense<0.000000e+00> : tensor<4xf32>
// CHECK-NEXT:   %1 = tg.constant value = dense<5.000000e-01> : tensor<4xf32>
// CHECK-NEXT:   %2 = tg.mul %w, %1 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %3 = tg.compare %x, %y predicate = "eq" : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %4 = tg.select %3, %2, %w : tensor<4xi1>, tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %5 = tg.compare %y, %x predicate = "lt" : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %6 = tg.select %5, %0, %4 : tensor<4xi1>, tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %7 = tg.compare %x, %y predicate = "lt" : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %8 = tg.select %7, %0, %4 : tensor<4xi1>, tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   func.return %loss, %6, %8 : tensor<f32>, tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT: }

// -----

func.func @select(%x: tensor<4xf32>, %y: tensor<4xf32>, %c: tensor<4xi1>, %w: tensor<4xf32>) -> tensor<f32> {
  %r = tg.select %c, %x, %y : tensor<4xi1>, tensor<4xf32>, tensor<4xf32>
  %p = tg.mul %r, %w : tensor<4xf32>, tensor<4xf32>
  %loss = tg.sum %p axes = [0] : tensor<4xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @select(
// CHECK-SAME: %x: tensor<4xf32> {tg.name = "arg0", tg.role = "input"}, %y: tensor<4xf32> {tg.name = "arg1", tg.role = "input"}, %c: tensor<4xi1> {tg.name = "arg2", tg.role = "input"}, %w: tensor<4xf32> {tg.name = "arg3", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<4xf32> {tg.name = "arg0", tg.role = "gradient"}, tensor<4xf32> {tg.name = "arg1", tg.role = "gradient"}) {
// CHECK-NEXT:   %r = tg.select %c, %x, %y : tensor<4xi1>, tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %p = tg.mul %r, %w : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0] : tensor<4xf32>
// CHECK-NEXT:   %0 = tg.constant value = dense<0.000000e+00> : tensor<4xf32>
// CHECK-NEXT:   %1 = tg.select %c, %w, %0 : tensor<4xi1>, tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %2 = tg.select %c, %0, %w : tensor<4xi1>, tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   func.return %loss, %1, %2 : tensor<f32>, tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT: }

// -----

// The cotangents of both uses are added; an argument on which the loss doesn't depend has a zero gradient.
func.func @square(%x: tensor<4xf32>, %y: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<f32> {
  %r = tg.mul %x, %x : tensor<4xf32>, tensor<4xf32>
  %p = tg.mul %r, %w : tensor<4xf32>, tensor<4xf32>
  %loss = tg.sum %p axes = [0] : tensor<4xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @square(
// CHECK-SAME: %x: tensor<4xf32> {tg.name = "arg0", tg.role = "input"}, %y: tensor<4xf32> {tg.name = "arg1", tg.role = "input"}, %w: tensor<4xf32> {tg.name = "arg2", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<4xf32> {tg.name = "arg0", tg.role = "gradient"}, tensor<4xf32> {tg.name = "arg1", tg.role = "gradient"}) {
// CHECK-NEXT:   %r = tg.mul %x, %x : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %p = tg.mul %r, %w : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0] : tensor<4xf32>
// CHECK-NEXT:   %0 = tg.mul %w, %x : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %1 = tg.add %0, %0 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %2 = tg.constant value = dense<0.000000e+00> : tensor<4xf32>
// CHECK-NEXT:   func.return %loss, %1, %2 : tensor<f32>, tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT: }

// -----

// Booleans have no derivative, and ops without operands (`iota`, `constant`) have none to propagate to.
func.func @no_rule(%x: tensor<4xf32>, %y: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<f32> {
  %a = tg.compare %x, %y predicate = "lt" : tensor<4xf32>, tensor<4xf32>
  %b = tg.not %a : tensor<4xi1>
  %c = tg.and %a, %b : tensor<4xi1>, tensor<4xi1>
  %d = tg.or %c, %b : tensor<4xi1>, tensor<4xi1>
  %i = tg.iota shape = [4] axis = 0 element = f32
  %k = tg.constant value = dense<2.000000e+00> : tensor<4xf32>
  %r = tg.select %d, %i, %k : tensor<4xi1>, tensor<4xf32>, tensor<4xf32>
  %p = tg.mul %r, %w : tensor<4xf32>, tensor<4xf32>
  %loss = tg.sum %p axes = [0] : tensor<4xf32>
  func.return %loss : tensor<f32>
}
// CHECK-LABEL: func.func @no_rule(
// CHECK-SAME: %x: tensor<4xf32> {tg.name = "arg0", tg.role = "input"}, %y: tensor<4xf32> {tg.name = "arg1", tg.role = "input"}, %w: tensor<4xf32> {tg.name = "arg2", tg.role = "input"}) -> (tensor<f32> {tg.name = "result0", tg.role = "output"}, tensor<4xf32> {tg.name = "arg0", tg.role = "gradient"}, tensor<4xf32> {tg.name = "arg1", tg.role = "gradient"}) {
// CHECK-NEXT:   %a = tg.compare %x, %y predicate = "lt" : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %b = tg.not %a : tensor<4xi1>
// CHECK-NEXT:   %c = tg.and %a, %b : tensor<4xi1>, tensor<4xi1>
// CHECK-NEXT:   %d = tg.or %c, %b : tensor<4xi1>, tensor<4xi1>
// CHECK-NEXT:   %i = tg.iota shape = [4] axis = 0 element = f32
// CHECK-NEXT:   %k = tg.constant value = dense<2.000000e+00> : tensor<4xf32>
// CHECK-NEXT:   %r = tg.select %d, %i, %k : tensor<4xi1>, tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %p = tg.mul %r, %w : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   %loss = tg.sum %p axes = [0] : tensor<4xf32>
// CHECK-NEXT:   %0 = tg.constant value = dense<0.000000e+00> : tensor<4xf32>
// CHECK-NEXT:   func.return %loss, %0, %0 : tensor<f32>, tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT: }
