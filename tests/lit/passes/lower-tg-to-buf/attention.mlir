// RUN: tg-opt %s -p 'outline-attention{fewest-scores=1},lower-tg-to-buf{target=cpu}' | filecheck %s
// RUN: tg-opt %s -p 'outline-attention{fewest-scores=1},lower-tg-to-buf' | filecheck %s --check-prefix SHADERS

// Operands that are extended, before or after they are moved, are read as they are stored, and so is a result that is
// rounded; shaders round to bf16 in a kernel of their own, since their buffers have no elements of 16 bits.
func.func @narrow(%q: tensor<2x8x16xbf16>, %k: tensor<2x16x8xbf16>, %v: tensor<2x8x16xf32>) -> tensor<2x8x16xbf16> {
  %wide_q = tg.cast %q to = f32 : tensor<2x8x16xbf16>
  %wide_k = tg.cast %k to = f32 : tensor<2x16x8xbf16>
  %turned = tg.transpose %wide_k permutation = [0, 2, 1] : tensor<2x16x8xf32>
  %x = tg.dot_general %wide_q, %turned lhs_batch = [0] rhs_batch = [0] lhs_contracting = [2] rhs_contracting = [2] : tensor<2x8x16xf32>, tensor<2x8x16xf32>
  %top = tg.max %x axes = [2] : tensor<2x8x8xf32>
  %tops = tg.broadcast %top shape = [2, 8, 8] dims = [0, 1] : tensor<2x8xf32>
  %shifted = tg.sub %x, %tops : tensor<2x8x8xf32>, tensor<2x8x8xf32>
  %e = tg.exp %shifted : tensor<2x8x8xf32>
  %sum = tg.sum %e axes = [2] : tensor<2x8x8xf32>
  %sums = tg.broadcast %sum shape = [2, 8, 8] dims = [0, 1] : tensor<2x8xf32>
  %weights = tg.div %e, %sums : tensor<2x8x8xf32>, tensor<2x8x8xf32>
  %o = tg.dot_general %weights, %v lhs_batch = [0] rhs_batch = [0] lhs_contracting = [2] rhs_contracting = [1] : tensor<2x8x8xf32>, tensor<2x8x16xf32>
  %result = tg.cast %o to = bf16 : tensor<2x8x16xf32>
  func.return %result : tensor<2x8x16xbf16>
}
// CHECK-LABEL: func.func @narrow(
// CHECK: buf.attention "forward" ins(%{{.*}}, %{{.*}}, %{{.*}} : memref<2x8x16xbf16>, memref<2x16x8xbf16>, memref<2x8x16xf32>) outs(%{{.*}} : memref<2x8x16xbf16>)
// CHECK-NOT: arith

// SHADERS-LABEL: func.func @narrow(
// SHADERS: buf.attention "forward" ins(%{{.*}}, %{{.*}}, %{{.*}} : memref<2x8x16xbf16>, memref<2x16x8xbf16>, memref<2x8x16xf32>) outs(%{{.*}} : memref<2x8x16xf32>)
// SHADERS: arith.truncf
