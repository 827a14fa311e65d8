// RUN: tg-opt %s -p 'simplify,lower-tg-to-buf,fuse,round-factors' | filecheck %s
// RUN: tg-opt %s -p 'simplify,lower-tg-to-buf,fuse,round-factors,round-factors' | filecheck %s
// RUN: tg-opt %s -p 'inference-pipeline{precision=bf16-products target=lavapipe}' -t wgsl | filecheck %s --check-prefix WGSL
// RUN: tg-opt %s -p 'simplify,lower-tg-to-buf,fuse,round-factors,schedule{target="{\"language\": \"llvm\", \"vector_bytes\": 64, \"bf16_dot\": true}"},plan-memory{target=cpu},lower-buf-to-cpu' | filecheck %s --check-prefix CPU
// RUN: not tg-opt %s -p 'lower-tg-to-buf,round-factors{element=f16}' 2>&1 | filecheck %s --check-prefix ELEMENT
// RUN: not tg-opt %s -p 'inference-pipeline{precision=bf8}' 2>&1 | filecheck %s --check-prefix PRECISION

// ELEMENT: round-factors: element must be one of bf16, got 'f16'
// PRECISION: inference-pipeline: precision must be one of f32, f16, bf16, bf16-products, not bf8

// Both factors of each term are rounded, once; the sum isn't.
func.func @product(%x: tensor<64x96xf32>, %w: tensor<96x64xf32>) -> tensor<64x64xf32> {
  %0 = tg.dot_general %x, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<64x96xf32>, tensor<96x64xf32>
  func.return %0 : tensor<64x64xf32>
}
// CHECK-LABEL: func.func @product(
// CHECK:      ^bb0(%[[X:.*]]: f32, %[[W:.*]]: f32, %[[SUM:.*]]: f32):
// CHECK-NEXT:   %[[LOW:.*]] = arith.truncf %[[X]] : f32 to bf16
// CHECK-NEXT:   %[[LEFT:.*]] = arith.extf %[[LOW]] : bf16 to f32
// CHECK-NEXT:   %[[HIGH:.*]] = arith.truncf %[[W]] : f32 to bf16
// CHECK-NEXT:   %[[RIGHT:.*]] = arith.extf %[[HIGH]] : bf16 to f32
// CHECK-NEXT:   %[[TERM:.*]] = arith.mulf %[[LEFT]], %[[RIGHT]] : f32
// CHECK-NEXT:   %[[NEXT:.*]] = arith.addf %[[SUM]], %[[TERM]] : f32
// CHECK-NEXT:   linalg.yield %[[NEXT]] : f32

// Shaders round the bits.
// WGSL-COUNT-2: 32767i

// Pairs of iterations become words, of columns and of rows, and their products are added at once.
// CPU-LABEL: cpu.kernel @packed0
// CPU:         cpu.pair %{{.*}}, %{{.*}}
// CPU:         cpu.pair_neighbours %{{.*}}, %{{.*}} : vector<16xf32>, vector<16xi32>
// CPU:         cpu.dot_pairs %{{.*}}, %{{.*}}, %{{.*}} : vector<16xf32>, vector<16xi32>
// CPU-NOT:     vector.fma
// CPU:         cpu.kernel @

// A sum of products that reuses neither operand is no product of matrices, and neither is a sum of squares.
func.func @sums(%x: tensor<64x96xf32>, %y: tensor<64x96xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %0 = tg.mul %x, %y : tensor<64x96xf32>, tensor<64x96xf32>
  %1 = tg.sum %0 axes = [1] : tensor<64x96xf32>
  %2 = tg.mul %x, %x : tensor<64x96xf32>, tensor<64x96xf32>
  %3 = tg.sum %2 axes = [1] : tensor<64x96xf32>
  func.return %1, %3 : tensor<64xf32>, tensor<64xf32>
}
// CHECK-LABEL: func.func @sums(
// CHECK-NOT: bf16
// CHECK: func.return

// Products that use a factor few times take as long as reading it: nothing is rounded.
func.func @few_rows(%x: tensor<47x96xf32>, %w: tensor<96x64xf32>) -> tensor<47x64xf32> {
  %0 = tg.dot_general %x, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<47x96xf32>, tensor<96x64xf32>
  func.return %0 : tensor<47x64xf32>
}
// CHECK-LABEL: func.func @few_rows(
// CHECK-NOT: bf16
// CHECK: func.return
