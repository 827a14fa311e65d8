// RUN: tg-opt %s -p inline-calls | filecheck %s
// RUN: tg-opt %s -p 'inline-calls{recompute=false}' | filecheck %s --check-prefix KEPT
// RUN: tg-opt %s -p simplify | filecheck %s --check-prefix ISOLATED

// Calls are replaced with their bodies, also inside other bodies; custom derivatives are dropped.
func.func @f(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %s = tg.sin %a : tensor<4xf32>
  %0 = tg.call @outer(%s) : (tensor<4xf32>) -> (tensor<4xf32>) {
  ^bb0(%x: tensor<4xf32>):
    %e = tg.exp %x : tensor<4xf32>
    %1 = tg.call @inner(%e, %x) recompute : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>) {
    ^bb0(%p: tensor<4xf32>, %q: tensor<4xf32>):
      %d = tg.sub %p, %q : tensor<4xf32>, tensor<4xf32>
      tg.return %d : tensor<4xf32>
    }
    tg.return %1 : tensor<4xf32>
  } wrt [0] forward {
  ^bb0(%x: tensor<4xf32>):
    tg.return %x : tensor<4xf32>
  } backward {
  ^bb0(%g: tensor<4xf32>):
    tg.return %g : tensor<4xf32>
  }
  %2 = tg.call @same(%s) : (tensor<4xf32>) -> (tensor<4xf32>) {
  ^bb0(%x: tensor<4xf32>):
    tg.return %x : tensor<4xf32>
  }
  func.return %0, %2 : tensor<4xf32>, tensor<4xf32>
}
// CHECK: func.func @f
// CHECK-NEXT: %s = tg.sin %a : tensor<4xf32>
// CHECK-NEXT: %e = tg.exp %s : tensor<4xf32>
// CHECK-NEXT: %d = tg.sub %e, %s : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT: func.return %d, %s : tensor<4xf32>, tensor<4xf32>
// KEPT: func.func @f
// KEPT-NEXT: %s = tg.sin %a : tensor<4xf32>
// KEPT-NEXT: %e = tg.exp %s : tensor<4xf32>
// KEPT-NEXT: %0 = tg.call @inner(%e, %s) recompute
// KEPT-NEXT: ^bb0
// KEPT-NEXT: tg.sub
// KEPT-NEXT: tg.return
// KEPT-NEXT: }
// KEPT-NEXT: func.return %0, %s

// The body of a call is isolated: its ops are merged with each other, but not with equal ops outside.
func.func @isolated(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %one = tg.constant value = dense<1.0> : tensor<4xf32>
  %b = tg.add %a, %one : tensor<4xf32>, tensor<4xf32>
  %0 = tg.call @g(%a) : (tensor<4xf32>) -> (tensor<4xf32>) {
  ^bb0(%x: tensor<4xf32>):
    %u = tg.constant value = dense<1.0> : tensor<4xf32>
    %v = tg.add %x, %u : tensor<4xf32>, tensor<4xf32>
    %w = tg.add %x, %u : tensor<4xf32>, tensor<4xf32>
    %p = tg.mul %v, %w : tensor<4xf32>, tensor<4xf32>
    tg.return %p : tensor<4xf32>
  }
  func.return %b, %0 : tensor<4xf32>, tensor<4xf32>
}
// ISOLATED: func.func @isolated
// ISOLATED: tg.call @g
// ISOLATED-NEXT: ^bb0
// ISOLATED-NEXT: %u = tg.constant
// ISOLATED-NEXT: %v = tg.add %x, %u
// ISOLATED-NEXT: %p = tg.mul %v, %v
// ISOLATED-NEXT: tg.return %p
