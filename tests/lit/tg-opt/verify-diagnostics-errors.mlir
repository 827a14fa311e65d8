// Every difference in any part fails the command, and is reported with its line in the file.
// RUN: not tg-opt %s --split-input-file --verify-diagnostics 2>&1 | filecheck %s
// CHECK: tg-opt: error: {{.*}}errors.mlir:23: unexpected error: result is tensor<5xf32>, expected tensor<4xf32>
// CHECK-NEXT: tg-opt: error: {{.*}}errors.mlir:30: unexpected error: result is
// CHECK-NEXT: {{.*}}errors.mlir:29: expected error "another message" was not produced
// CHECK-NEXT: tg-opt: error: {{.*}}errors.mlir:38: unexpected error: result is
// CHECK-NEXT: {{.*}}errors.mlir:36: expected error "result is" was not produced
// CHECK-NEXT: tg-opt: error: {{.*}}errors.mlir:45: expected error "nothing is wrong" was not produced
// CHECK-NEXT: tg-opt: error: {{.*}}errors.mlir:53: expected warning "result is" was not produced

// Without the flag all parts are processed too, and all errors reported.
// RUN: not tg-opt %s --split-input-file 2>&1 | filecheck %s --check-prefix PLAIN
// PLAIN: func.func @none
// PLAIN-NOT: func.func
// PLAIN: tg-opt: error: result is tensor<5xf32>, expected tensor<4xf32>
// PLAIN-NEXT: %0 = "tg.exp"(%x)
// PLAIN-NEXT: at {{.*}}errors.mlir:23
// PLAIN: tg-opt: error: result is tensor<5xf32>, expected tensor<4xf32>
// PLAIN: tg-opt: error: result is tensor<5xf32>, expected tensor<4xf32>
// PLAIN: tg-opt: error: result is tensor<5xf32>, expected tensor<4xf32>

func.func @unexpected(%x: tensor<4xf32>) {
  %0 = "tg.exp"(%x) : (tensor<4xf32>) -> tensor<5xf32>
  func.return
}

// -----

func.func @another(%x: tensor<4xf32>) { // expected-error@+1 {{another message}}
  %0 = "tg.exp"(%x) : (tensor<4xf32>) -> tensor<5xf32>
  func.return
}

// -----

func.func @another_line(%x: tensor<4xf32>) { // expected-error {{result is}}
  %0 = tg.neg %x : tensor<4xf32>
  %1 = "tg.exp"(%x) : (tensor<4xf32>) -> tensor<5xf32>
  func.return
}

// -----

func.func @none(%x: tensor<4xf32>) {
  // expected-error@below {{nothing is wrong}}
  func.return
}

// -----

func.func @kind(%x: tensor<4xf32>) {
  // expected-error@below {{result is}}
  // expected-warning@below {{result is}}
  %1 = "tg.exp"(%x) : (tensor<4xf32>) -> tensor<5xf32>
  func.return
}

// -----
