// RUN: tg-opt %s --split-input-file --print-diagnostics -p 'grad' | filecheck %s
// RUN: tg-opt %s --split-input-file --print-diagnostics -p 'grad{function=f wrt=1}' | filecheck %s --check-prefix WRT
// RUN: tg-opt %s --split-input-file --print-diagnostics -p 'grad{function=f result=1}' | filecheck %s --check-prefix SECOND
// RUN: not tg-opt %s -p 'grad{wrt=x}' 2>&1 | filecheck %s --check-prefix TYPE
// RUN: not tg-opt %s -p 'grad{by=1}' 2>&1 | filecheck %s --check-prefix NAME

// RUN: not tg-opt %S/options.mlir -p 'grad{function=loss wrt=0,0}' 2>&1 | filecheck %s --check-prefix TWICE
// TWICE: tg-opt: error: grad: wrt names argument 0 of @loss twice
// RUN: not tg-opt %S/options.mlir -p 'grad{function=loss result=2}' 2>&1 | filecheck %s --check-prefix RESULT

// RESULT: @loss has no result 2
// TYPE: tg-opt: error: grad: Incompatible types: given ('x',), expected tuple[int, ...] | None
// NAME: tg-opt: error: grad has no option 'by' (its options are function, result, wrt)

// CHECK: expected exactly one function, the module has g, h
// WRT: expected a function @f, the module has g, h
func.func @g() {
  func.return
}
func.func @h() {
  func.return
}

// -----

// CHECK: grad needs a float scalar as first result, @f returns tensor<2xf32>
// WRT: grad needs a float scalar as first result, @f returns tensor<2xf32>
// SECOND: @f has no result 1
func.func @f(%x: tensor<2xf32>, %y: tensor<2xf32>) -> tensor<2xf32> {
  func.return %x : tensor<2xf32>
}

// -----

// CHECK: grad needs a float scalar as first result, @f returns nothing
func.func @f() {
  func.return
}

// -----

// CHECK: argument 0 of @f is tensor<i32>: only floats have derivatives
// WRT: @f has no argument 1
func.func @f(%i: tensor<i32>) -> tensor<f32> {
  %0 = tg.cast %i to = f32 : tensor<i32>
  func.return %0 : tensor<f32>
}

// -----

// CHECK: @f must have one block that ends in func.return
func.func @f(%x: tensor<f32>) -> tensor<f32> {
  cf.br ^bb0
^bb0:
  func.return %x : tensor<f32>
}
