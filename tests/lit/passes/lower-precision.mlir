// RUN: tg-opt %s -p 'simplify,lower-tg-to-buf,fuse,lower-precision{smallest=8}' | filecheck %s
// RUN: tg-opt %s -p 'simplify,lower-tg-to-buf,fuse,lower-precision{smallest=8 scale=1024}' | filecheck %s --check-prefix SCALED
// RUN: tg-opt %s -p 'simplify,lower-tg-to-buf,fuse,lower-precision' | filecheck %s --check-prefix SMALL
// RUN: tg-opt %s -p 'inference-pipeline{precision=f16 target=lavapipe}' -t wgsl | filecheck %s --check-prefix WGSL
// RUN: not tg-opt %s -p 'lower-tg-to-buf,lower-precision{element=f8}' 2>&1 | filecheck %s --check-prefix ELEMENT
// RUN: not tg-opt %s -p 'lower-tg-to-buf,lower-precision{scale=1000}' 2>&1 | filecheck %s --check-prefix POWER
// RUN: tg-opt %s -p 'simplify,lower-tg-to-buf,fuse,lower-precision{element=bf16 smallest=8}' | filecheck %s --check-prefix BF16

// ELEMENT: lower-precision: element must be one of f16, bf16, got 'f8'
// POWER: lower-precision: scale must be a power of two, got 1000.0

// Products are accumulated in an f32 local and stored as f16; kernels extend what they load. The row sum stays f32.
func.func @products(%x: tensor<8x4xf32>, %w: tensor<4x8xf32>, %v: tensor<8x4xf32>) -> tensor<8xf32> {
  %0 = tg.dot_general %x, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<8x4xf32>, tensor<4x8xf32>
  %1 = tg.tanh %0 : tensor<8x8xf32>
  %2 = tg.dot_general %1, %v lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<8x8xf32>, tensor<8x4xf32>
  %3 = tg.sum %2 axes = [1] : tensor<8x4xf32>
  func.return %3 : tensor<8xf32>
}
// CHECK-LABEL: func.func @products(
// CHECK-DAG: memref.alloc() : memref<8x8xf16>
// CHECK-DAG: memref.alloc() : memref<8x4xf16>
// CHECK-NOT: memref.alloc()
// CHECK: buf.kernel grid = [8, 8] ins(%x, %w : memref<8x4xf32>, memref<4x8xf32>) outs({{%.*}} : memref<8x8xf16>) {
// CHECK: memref.alloca() : memref<8x8xf32>
// CHECK: arith.addf {{.*}} : f32
// CHECK: %[[TANH:.*]] = math.tanh {{.*}} : f32
// CHECK: %[[ROUNDED:.*]] = arith.truncf %[[TANH]] : f32 to f16
// CHECK: linalg.yield %[[ROUNDED]] : f16
// CHECK: buf.kernel grid = [8, 4]
// CHECK: memref.alloca() : memref<8x4xf32>
// CHECK: ^bb{{.*}}(%[[READ:.*]]: f16, {{.*}}: f32, {{.*}}: f32):
// CHECK: arith.extf %[[READ]] : f16 to f32
// CHECK: arith.truncf
// CHECK: buf.kernel grid = [8] ins({{.*}} : memref<8x4xf16>) outs({{.*}} : memref<8xf32>)
// CHECK: arith.extf
// CHECK-NOT: arith.truncf
// CHECK: func.return

// BF16-LABEL: func.func @products(
// BF16-DAG: memref.alloc() : memref<8x8xbf16>
// BF16-DAG: memref.alloc() : memref<8x4xbf16>
// BF16: arith.truncf {{.*}} : f32 to bf16

// By default, buffers this small are not changed.
// SMALL-LABEL: func.func @products(
// SMALL-NOT: f16
// SMALL: func.func @large
// SMALL: f16

// Not changed: values before the first product, values whose last op is an exponential, arguments, results.
func.func @kept(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>) {
  %0 = tg.sin %x : tensor<8x8xf32>
  %1 = tg.dot_general %0, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<8x8xf32>, tensor<8x8xf32>
  %2 = tg.exp %1 : tensor<8x8xf32>
  %3 = tg.dot_general %2, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<8x8xf32>, tensor<8x8xf32>
  %4 = tg.sum %2 axes = [1] : tensor<8x8xf32>
  func.return %3, %4 : tensor<8x8xf32>, tensor<8xf32>
}
// CHECK-LABEL: func.func @kept(
// CHECK-NOT: f16
// CHECK: func.return

// Cotangents, on which no output depends, are stored as f16 only with a `scale`; the gradient of a parameter stays f32.
func.func @cotangents(%x: tensor<8x4xf32> {tg.name = "x", tg.role = "input"}, %w: tensor<4x8xf32> {tg.name = "w", tg.role = "parameter"}) -> (tensor<f32> {tg.name = "loss", tg.role = "output"}, tensor<4x8xf32> {tg.name = "w", tg.role = "gradient"}) {
  %0 = tg.dot_general %x, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<8x4xf32>, tensor<4x8xf32>
  %1 = tg.sum %0 axes = [0, 1] : tensor<8x8xf32>
  %2 = tg.sin %0 : tensor<8x8xf32>
  %3 = tg.dot_general %2, %2 lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<8x8xf32>, tensor<8x8xf32>
  %4 = tg.dot_general %x, %3 lhs_batch = [] rhs_batch = [] lhs_contracting = [0] rhs_contracting = [0] : tensor<8x4xf32>, tensor<8x8xf32>
  func.return %1, %4 : tensor<f32>, tensor<4x8xf32>
}
// CHECK-LABEL: func.func @cotangents(
// SCALED-LABEL: func.func @cotangents(
// SCALED: arith.constant 1.024000e+03 : f32
// SCALED: arith.truncf
// SCALED: arith.extf
// SCALED: arith.constant 0.0009765625 : f32
// SCALED: func.return

// An operand of branches that one of them doesn't read has one type all the same.
func.func @branches(%x: tensor<8x8xf32>, %p: tensor<i1>) -> tensor<8x8xf32> {
  %0 = tg.dot_general %x, %x lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<8x8xf32>, tensor<8x8xf32>
  %1 = tg.dot_general %0, %x lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<8x8xf32>, tensor<8x8xf32>
  %2 = tg.cond %p (%0, %1) : (tensor<8x8xf32>, tensor<8x8xf32>) -> (tensor<8x8xf32>) {
  ^bb0(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>):
    %3 = tg.mul %a, %b : tensor<8x8xf32>, tensor<8x8xf32>
    tg.return %3 : tensor<8x8xf32>
  } else {
  ^bb0(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>):
    %3 = tg.sin %b : tensor<8x8xf32>
    tg.return %3 : tensor<8x8xf32>
  }
  %3 = tg.dot_general %2, %x lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<8x8xf32>, tensor<8x8xf32>
  func.return %3 : tensor<8x8xf32>
}
// CHECK-LABEL: func.func private @branches.branch1(
// CHECK-SAME: %a: memref<8x8xf16> {{.*}}, %b: memref<8x8xf16> {{.*}}, %0: memref<8x8xf16>
// CHECK-LABEL: func.func @branches(
// CHECK: buf.choose

// Pipelines run the pass after `fuse`, and change buffers of at least 1024 elements.
func.func @large(%x: tensor<32x32xf32>) -> tensor<32x32xf32> {
  %0 = tg.dot_general %x, %x lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<32x32xf32>, tensor<32x32xf32>
  %1 = tg.dot_general %0, %x lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<32x32xf32>, tensor<32x32xf32>
  func.return %1 : tensor<32x32xf32>
}
// WGSL: enable f16;
// WGSL: array<f16, 
