// Unknown ops are reported with the closest known one, also if the dialect is misspelled or missing.
// RUN: not tg-opt %s --split-input-file 2>&1 | filecheck %s
// CHECK: unknown-ops.mlir:12:8
// CHECK-NEXT: %0 = tg.expp %x : tensor<4xf32>
// CHECK-NEXT: ^^^^^^^
// CHECK-NEXT: Operation tg.expp is not registered; did you mean tg.exp?
// CHECK: Operation tgg.exp is not registered; did you mean tg.exp?
// CHECK: Operation aritth.addff is not registered; did you mean arith.addf?
// CHECK: Operation something.else is not registered{{$}}

func.func @f(%x: tensor<4xf32>) {
  %0 = tg.expp %x : tensor<4xf32>
}

// -----

func.func @f(%x: tensor<4xf32>) {
  %0 = tgg.exp %x : tensor<4xf32>
}

// -----

func.func @f(%x: f32) {
  %0 = aritth.addff %x, %x : f32
}

// -----

"something.else"() : () -> ()
