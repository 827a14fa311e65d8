// RUN: tg-opt %s --split-input-file --parsing-diagnostics --print-diagnostics | filecheck %s

func.func @f(%x: tensor<3xf32>) {
  // CHECK: body takes (tensor<2xf32>), expected (tensor<3xf32>)
  %0 = tg.call @g(%x) : (tensor<3xf32>) -> (tensor<2xf32>) {
  ^bb0(%a: tensor<2xf32>):
    tg.return %a : tensor<2xf32>
  }
  func.return
}

// -----

func.func @f(%x: tensor<3xf32>) {
  // CHECK: the body returns (tensor<3xf32>), the results are (tensor<f32>)
  %0 = tg.call @g(%x) : (tensor<3xf32>) -> (tensor<f32>) {
  ^bb0(%a: tensor<3xf32>):
    tg.return %a : tensor<3xf32>
  }
  func.return
}

// -----

func.func @f(%x: tensor<3xf32>) {
  // CHECK: Operation tg.exp terminates block in single-block region but is not a terminator
  %0 = tg.call @g(%x) : (tensor<3xf32>) -> (tensor<3xf32>) {
  ^bb0(%a: tensor<3xf32>):
    %b = tg.exp %a : tensor<3xf32>
  }
  func.return
}

// -----

// The body is isolated from above: it may use only its arguments.
func.func @f(%x: tensor<3xf32>) {
  // CHECK: Operation using value defined out of its IsolatedFromAbove parent
  %0 = tg.call @g() : () -> (tensor<3xf32>) {
    tg.return %x : tensor<3xf32>
  }
  func.return
}

// -----

func.func @f(%x: tensor<3xf32>) {
  // CHECK: forward returns (tensor<f32>), which must begin with the results (tensor<3xf32>)
  %0 = tg.call @g(%x) : (tensor<3xf32>) -> (tensor<3xf32>) {
  ^bb0(%a: tensor<3xf32>):
    tg.return %a : tensor<3xf32>
  } wrt [0] forward {
  ^bb0(%a: tensor<3xf32>):
    %b = tg.sum %a axes = [0] : tensor<3xf32>
    tg.return %b : tensor<f32>
  } backward {
  ^bb0(%g: tensor<3xf32>):
    tg.return %g : tensor<3xf32>
  }
  func.return
}

// -----

func.func @f(%x: tensor<3xf32>, %i: tensor<3xi32>) {
  // CHECK: backward takes (tensor<3xf32>, tensor<3xf32>), expected (tensor<3xf32>)
  %0, %1 = tg.call @g(%x, %i) : (tensor<3xf32>, tensor<3xi32>) -> (tensor<3xf32>, tensor<3xi32>) {
  ^bb0(%a: tensor<3xf32>, %n: tensor<3xi32>):
    tg.return %a, %n : tensor<3xf32>, tensor<3xi32>
  } wrt [0] forward {
  ^bb0(%a: tensor<3xf32>, %n: tensor<3xi32>):
    tg.return %a, %n : tensor<3xf32>, tensor<3xi32>
  } backward {
  ^bb0(%g: tensor<3xf32>, %h: tensor<3xf32>):
    tg.return %g : tensor<3xf32>
  }
  func.return
}

// -----

func.func @f(%x: tensor<3xf32>) {
  // CHECK: backward returns (tensor<3xf32>), the operands in wrt are ()
  %0 = tg.call @g(%x) : (tensor<3xf32>) -> (tensor<3xf32>) {
  ^bb0(%a: tensor<3xf32>):
    tg.return %a : tensor<3xf32>
  } wrt [] forward {
  ^bb0(%a: tensor<3xf32>):
    tg.return %a : tensor<3xf32>
  } backward {
  ^bb0(%g: tensor<3xf32>):
    tg.return %g : tensor<3xf32>
  }
  func.return
}

// -----

func.func @f(%i: tensor<3xi32>) {
  // CHECK: wrt has tensor<3xi32>: only floats have derivatives
  %0 = tg.call @g(%i) : (tensor<3xi32>) -> (tensor<3xi32>) {
  ^bb0(%a: tensor<3xi32>):
    tg.return %a : tensor<3xi32>
  } wrt [0] forward {
  ^bb0(%a: tensor<3xi32>):
    tg.return %a, %a : tensor<3xi32>, tensor<3xi32>
  } backward {
  ^bb0(%a: tensor<3xi32>):
    tg.return %a : tensor<3xi32>
  }
  func.return
}

// -----

func.func @f(%x: tensor<3xf32>) {
  // CHECK: is recursive, but not inside the derivative of a call of @g with the same types
  %0 = tg.call @g(%x) recursive : (tensor<3xf32>) -> (tensor<3xf32>) {
  ^bb0(%a: tensor<3xf32>):
    tg.return %a : tensor<3xf32>
  }
  func.return
}

// -----

func.func @f(%x: tensor<3xf32>) {
  // CHECK: tg.return ends a region of tg.call, tg.scan, tg.cond
  tg.return %x : tensor<3xf32>
}
