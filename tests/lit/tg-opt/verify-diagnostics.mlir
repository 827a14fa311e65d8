// RUN: tg-opt %s --split-input-file --verify-diagnostics --lower-tg-to-buf | filecheck %s

// A part without an error is printed, and expects none.
// CHECK: func.func @fine
func.func @fine(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}

// -----

// CHECK-NOT: func.func
func.func @parser(%x: tensor<4xf32>) {
  // expected-error@+1 {{Operation tg.expp is not registered; did you mean tg.exp?}}
  %0 = tg.expp %x : tensor<4xf32>
  func.return
}

// -----

func.func @verifier(%x: tensor<4xf32>) {
  %0 = "tg.exp"(%x) : (tensor<4xf32>) -> tensor<5xf32> // expected-error {{result is tensor<5xf32>}}
  func.return
}

// -----

func.func @above(%x: tensor<4xf32>) {
  %0 = "tg.exp"(%x) : (tensor<4xf32>) -> tensor<5xf32>
  // expected-error@above {{result is tensor<5xf32>, expected tensor<4xf32>}}
  func.return
}

// -----

func.func @before(%x: tensor<4xf32>) {
  %0 = "tg.exp"(%x) : (tensor<4xf32>) -> tensor<5xf32>
  // A line between them.
  // expected-error@-2 {{expected tensor<4xf32>}}
  func.return
}

// -----

func.func @regex(%x: tensor<4xf32>) {
  // expected-error-re@below {{result is tensor<{{[0-9]+}}xf32>, expected}}
  %0 = "tg.exp"(%x) : (tensor<4xf32>) -> tensor<5xf32>
  func.return
}

// -----

func.func @dominance(%x: tensor<f32>) -> tensor<f32> {
  // expected-error@below {{operand 0 of tg.neg is the result of tg.exp that is not defined before it}}
  %0 = "tg.neg"(%1) : (tensor<f32>) -> tensor<f32>
  %1 = tg.exp %x : tensor<f32>
  func.return %0 : tensor<f32>
}

// -----

// What a pass refuses has no line.
// expected-error@unknown {{lower-tg-to-buf expects a module at level tg, this one is at level buf}}
func.func @pass(%x: memref<4xf32>, %y: memref<4xf32>) {
  buf.kernel grid = [4] ins(%x : memref<4xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%0: memref<4xf32>, %1: memref<4xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%0 : memref<4xf32>) outs(%1 : memref<4xf32>) {
    ^bb0(%2: f32, %3: f32):
      linalg.yield %2 : f32
    }
  }
  func.return
}
