// RUN: tg-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

func.func private @step(%x: memref<4xf32>, %y: memref<4xf32>) {
  func.return
}
func.func @f(%x: memref<7x4xf32>, %y: memref<8x4xf32>) {
  // CHECK: goes over memref<7x4xf32>, whose axis 0 is not the length 8
  buf.run @step length = 8 over(%x : memref<7x4xf32>) stacks(%y : memref<8x4xf32>)
  func.return
}

// -----

func.func @f(%x: memref<7x4xf32>, %y: memref<8x4xf32>) {
  // CHECK: only a loop carries values or goes over sequences
  buf.run @step over(%x : memref<7x4xf32>) stacks(%y : memref<8x4xf32>)
  func.return
}

// -----

func.func @f(%y: memref<0x4xf32>) {
  // CHECK: a loop runs at least once, not 0 times
  buf.run @step length = 0 stacks(%y : memref<0x4xf32>)
  func.return
}

// -----

func.func @f(%h: memref<4xf32>, %l: memref<5xf32>) {
  // CHECK: a loop ends with values of the types that it begins with
  buf.run @step length = 2 init(%h : memref<4xf32>) last(%l : memref<5xf32>)
  func.return
}

// -----

func.func @f() {
  // CHECK: repeats at least once, not 0 times
  buf.repeat count = 0 {
  ^bb0(%i: index):
  }
  func.return
}

// -----

func.func @f() {
  buf.repeat count = 2 {
  ^bb0(%i: index):
    // CHECK: repeats kernels and dispatches, not memref.alloc
    %0 = memref.alloc() : memref<4xf32>
  }
  func.return
}

// -----

func.func @f(%x: memref<32xf32>) {
  buf.repeat count = 2 {
  ^bb0(%i: index):
    // CHECK: a row is a part of a buf.view
    %0 = buf.row %x[%i] at affine_map<(d0) -> (d0 * 4)> : memref<32xf32> to memref<4xf32>
  }
  func.return
}

// -----

func.func @f() {
  %a = buf.arena "a" role = "input" : memref<128xi8>
  %x = buf.view %a[0] : memref<128xi8> to memref<32xf32>
  buf.repeat count = 2 {
  ^bb0(%i: index):
    // CHECK: the map goes from the indices to the first element
    %0 = buf.row %x[%i] at affine_map<(d0, d1) -> (d0 * 4)> : memref<32xf32> to memref<4xf32>
  }
  func.return
}

// -----

func.func @f() {
  %a = buf.arena "a" role = "input" : memref<128xi8>
  %x = buf.view %a[0] : memref<128xi8> to memref<32xf32>
  buf.repeat count = 2 {
  ^bb0(%i: index):
    // CHECK: a row of memref<32xf32> has its elements, not those of memref<4xi32>
    %0 = buf.row %x[%i] at affine_map<(d0) -> (d0 * 4)> : memref<32xf32> to memref<4xi32>
  }
  func.return
}

// -----

func.func @f(%p: memref<i1>) {
  // CHECK: a branch has kernels and dispatches, not memref.alloc
  buf.branch %p : memref<i1> {
    %0 = memref.alloc() : memref<4xf32>
  } else {
  }
  func.return
}
