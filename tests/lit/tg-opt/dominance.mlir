// RUN: tg-opt %s --split-input-file --print-diagnostics | filecheck %s
// RUN: tg-opt %s --split-input-file --disable-verify | filecheck %s --check-prefix OFF

// OFF: tg.neg %1

// The use precedes the definition in the same block.
// CHECK: operand 0 of tg.neg is the result of tg.exp that is not defined before it
func.func @later(%x: tensor<f32>) -> tensor<f32> {
  %0 = "tg.neg"(%1) : (tensor<f32>) -> tensor<f32>
  %1 = tg.exp %x : tensor<f32>
  func.return %0 : tensor<f32>
}

// -----

// The same in a block of a nested region.
// CHECK: operand 1 of tg.add is the result of tg.exp (%e) that is not defined before it
func.func @in_a_region(%c: i1, %x: tensor<f32>) -> tensor<f32> {
  %0 = scf.if %c -> (tensor<f32>) {
    %1 = "tg.add"(%x, %e) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %e = tg.exp %x : tensor<f32>
    scf.yield %1 : tensor<f32>
  } else {
    scf.yield %x : tensor<f32>
  }
  func.return %0 : tensor<f32>
}

// -----

// The definition doesn't dominate the use: one path bypasses its block.
// CHECK: operand 0 of tg.neg is the result of tg.exp (%e) that is not defined before it
func.func @not_on_every_path(%c: i1, %x: tensor<f32>) -> tensor<f32> {
  cf.cond_br %c, ^bb0, ^bb1
^bb0:
  %e = tg.exp %x : tensor<f32>
  cf.br ^bb1
^bb1:
  %0 = "tg.neg"(%e) : (tensor<f32>) -> tensor<f32>
  func.return %0 : tensor<f32>
}

// -----

// Valid: the definition dominates the use, which is in a later block, inside a nested region.
// CHECK: func.func @fine
func.func @fine(%c: i1, %x: tensor<f32>) -> tensor<f32> {
  %0 = tg.exp %x : tensor<f32>
  cf.br ^bb0
^bb0:
  %1 = scf.if %c -> (tensor<f32>) {
    %2 = tg.neg %0 : tensor<f32>
    scf.yield %2 : tensor<f32>
  } else {
    scf.yield %x : tensor<f32>
  }
  func.return %1 : tensor<f32>
}
