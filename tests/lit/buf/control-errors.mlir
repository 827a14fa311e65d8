// RUN: tg-opt %s --split-input-file --print-diagnostics --parsing-diagnostics | filecheck %s

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
  // CHECK: only a loop (with a length) may carry values or go over sequences
  buf.run @step over(%x : memref<7x4xf32>) stacks(%y : memref<8x4xf32>)
  func.return
}

// -----

func.func @f(%y: memref<0x4xf32>) {
  // CHECK: a loop must have a length of at least 1, got 0
  buf.run @step length = 0 stacks(%y : memref<0x4xf32>)
  func.return
}

// -----

func.func @f(%h: memref<4xf32>, %l: memref<5xf32>) {
  // CHECK: the final values of a loop must have the types of its initial values
  buf.run @step length = 2 init(%h : memref<4xf32>) last(%l : memref<5xf32>)
  func.return
}

// -----

func.func @f() {
  // CHECK: must repeat at least once, got 0
  buf.repeat count = 0 {
  ^bb0(%i: index):
  }
  func.return
}

// -----

func.func @f() {
  buf.repeat count = 2 {
  ^bb0(%i: index):
    // CHECK: may repeat only kernels and dispatches, got memref.alloc
    %0 = memref.alloc() : memref<4xf32>
  }
  func.return
}

// -----

func.func @f(%x: memref<32xf32>) {
  buf.repeat count = 2 {
  ^bb0(%i: index):
    // CHECK: a row must be a part of a buf.view
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
    // CHECK: the map must take the indices to the position of the first element
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
    // CHECK: a row of memref<32xf32> must have its element type, got memref<4xi32>
    %0 = buf.row %x[%i] at affine_map<(d0) -> (d0 * 4)> : memref<32xf32> to memref<4xi32>
  }
  func.return
}

// -----

func.func @f(%p: memref<i1>) {
  // CHECK: a branch may hold only kernels and dispatches, got memref.alloc
  buf.branch %p : memref<i1> {
    %0 = memref.alloc() : memref<4xf32>
  } else {
  }
  func.return
}
