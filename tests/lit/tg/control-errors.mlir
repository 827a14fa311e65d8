// RUN: tg-opt %s --split-input-file --print-diagnostics | filecheck %s

func.func @f(%h: tensor<2xf32>, %x: tensor<7x2xf32>) -> tensor<2xf32> {
  // CHECK: goes over tensor<7x2xf32>, whose axis 0 is not the length 8
  %0 = tg.scan () carry (%h) over (%x) length = 8 : (tensor<2xf32>, tensor<7x2xf32>) -> (tensor<2xf32>) {
  ^bb0(%a: tensor<2xf32>, %b: tensor<2xf32>):
    tg.return %a : tensor<2xf32>
  }
  func.return %0 : tensor<2xf32>
}

// -----

func.func @f(%h: tensor<2xf32>) -> tensor<2xf32> {
  // CHECK: the body returns (tensor<f32>), which must begin with what it carries, (tensor<2xf32>)
  %0 = tg.scan () carry (%h) over () length = 8 : (tensor<2xf32>) -> (tensor<2xf32>) {
  ^bb0(%a: tensor<2xf32>):
    %1 = tg.sum %a axes = [0] : tensor<2xf32>
    tg.return %1 : tensor<f32>
  }
  func.return %0 : tensor<2xf32>
}

// -----

func.func @f(%h: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  // CHECK: the results are (tensor<2xf32>, tensor<2xf32>), expected (tensor<2xf32>, tensor<3x2xf32>)
  %0, %1 = tg.scan () carry (%h) over () length = 3 : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  ^bb0(%a: tensor<2xf32>):
    tg.return %a, %a : tensor<2xf32>, tensor<2xf32>
  }
  func.return %0, %1 : tensor<2xf32>, tensor<2xf32>
}

// -----

func.func @f(%h: tensor<2xf32>) -> tensor<2xf32> {
  // CHECK: length -1 is negative
  %0 = tg.scan () carry (%h) over () length = -1 : (tensor<2xf32>) -> (tensor<2xf32>) {
  ^bb0(%a: tensor<2xf32>):
    tg.return %a : tensor<2xf32>
  }
  func.return %0 : tensor<2xf32>
}

// -----

func.func @f(%h: tensor<2xf32>) -> tensor<2xf32> {
  // CHECK: body takes (tensor<3xf32>), expected (tensor<2xf32>)
  %0 = tg.scan () carry (%h) over () length = 1 : (tensor<2xf32>) -> (tensor<2xf32>) {
  ^bb0(%a: tensor<3xf32>):
    %1 = tg.slice %a start = [0] stop = [2] step = [1] : tensor<3xf32>
    tg.return %1 : tensor<2xf32>
  }
  func.return %0 : tensor<2xf32>
}

// -----

func.func @f(%p: tensor<i1>, %h: tensor<2xf32>) -> tensor<2xf32> {
  // CHECK: the second branch returns (tensor<f32>), the results are (tensor<2xf32>)
  %0 = tg.cond %p (%h) : (tensor<2xf32>) -> (tensor<2xf32>) {
  ^bb0(%a: tensor<2xf32>):
    tg.return %a : tensor<2xf32>
  } else {
  ^bb0(%a: tensor<2xf32>):
    %1 = tg.sum %a axes = [0] : tensor<2xf32>
    tg.return %1 : tensor<f32>
  }
  func.return %0 : tensor<2xf32>
}

// -----

func.func @f(%p: tensor<i1>, %h: tensor<2xf32>) -> tensor<2xf32> {
  // CHECK: the first branch takes (), expected (tensor<2xf32>)
  %0 = tg.cond %p (%h) : (tensor<2xf32>) -> (tensor<2xf32>) {
    %1 = tg.constant value = dense<0.0> : tensor<2xf32>
    tg.return %1 : tensor<2xf32>
  } else {
  ^bb0(%a: tensor<2xf32>):
    tg.return %a : tensor<2xf32>
  }
  func.return %0 : tensor<2xf32>
}
