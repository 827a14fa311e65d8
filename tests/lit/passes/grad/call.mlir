// RUN: tg-opt %s --split-input-file -p grad,simplify | filecheck %s
// RUN: tg-opt %s --split-input-file -p 'grad,inline-calls{recompute=false},simplify,inline-calls' | filecheck %s --check-prefix INLINED

// A custom derivative: `grad` inlines forward and backward; once the call itself is inlined, equal ops are merged.
func.func @custom(%x: tensor<f32>) -> tensor<f32> {
  %0 = tg.call @g(%x) : (tensor<f32>) -> (tensor<f32>) {
  ^bb0(%a: tensor<f32>):
    %b = tg.exp %a : tensor<f32>
    tg.return %b : tensor<f32>
  } wrt [0] forward {
  ^bb0(%a: tensor<f32>):
    %b = tg.exp %a : tensor<f32>
    tg.return %b, %b : tensor<f32>, tensor<f32>
  } backward {
  ^bb0(%r: tensor<f32>, %g: tensor<f32>):
    %d = tg.sin %r : tensor<f32>
    tg.return %d : tensor<f32>
  }
  func.return %0 : tensor<f32>
}
// CHECK: func.func @custom
// CHECK-NEXT: %0 = tg.call @g(%x)
// CHECK: %b = tg.exp %x
// CHECK-NEXT: %d = tg.sin %b
// CHECK-NEXT: func.return %0, %d
// INLINED: func.func @custom
// INLINED-NEXT: %b = tg.exp %x
// INLINED-NEXT: %d = tg.sin %b
// INLINED-NEXT: func.return %b, %d

// -----

// Without a custom derivative, the body is differentiated.
func.func @plain(%x: tensor<f32>) -> tensor<f32> {
  %0 = tg.call @g(%x) : (tensor<f32>) -> (tensor<f32>) {
  ^bb0(%a: tensor<f32>):
    %b = tg.exp %a : tensor<f32>
    tg.return %b : tensor<f32>
  }
  func.return %0 : tensor<f32>
}
// CHECK: func.func @plain
// INLINED: func.func @plain
// INLINED-NEXT: %b = tg.exp %x
// INLINED-NEXT: func.return %b, %b

// -----

// With `recompute`, the derivative is a call that shares no ops with the original one, even after inlining.
func.func @again(%x: tensor<f32>) -> tensor<f32> {
  %0 = tg.call @g(%x) recompute : (tensor<f32>) -> (tensor<f32>) {
  ^bb0(%a: tensor<f32>):
    %b = tg.exp %a : tensor<f32>
    %c = tg.exp %b : tensor<f32>
    tg.return %c : tensor<f32>
  }
  func.return %0 : tensor<f32>
}
// CHECK: func.func @again
// CHECK-NEXT: %0 = tg.call @g(%x) recompute
// CHECK: %[[ONE:.*]] = tg.constant value = dense<1.000000e+00>
// CHECK-NEXT: %[[D:.*]] = tg.call @g.backward(%x, %[[ONE]]) recompute
// CHECK-NEXT: ^bb0
// CHECK-NEXT: tg.exp
// CHECK-NEXT: tg.exp
// CHECK: func.return %0, %[[D]]
// INLINED: func.func @again
// INLINED-COUNT-4: tg.exp
