// RUN: tg-opt %s -p 'outline-attention{fewest-scores=1}' | filecheck %s
// RUN: tg-opt %s -p outline-attention | filecheck %s --check-prefix SMALL
// RUN: tg-opt %s -p 'outline-attention{fewest-scores=1},inline-calls,lower-tg-to-buf' | filecheck %s --check-prefix BUF

// Four bindings are too few for five buffers, 256 bytes too few for an arena of all live values: the call is inlined.
// RUN: tg-opt %s -p 'outline-attention{fewest-scores=1},inline-calls{target="{\"max_storage_buffers_per_shader_stage\": 4, \"max_storage_buffer_binding_size\": 256}"}' | filecheck %s --check-prefix SMALL
// RUN: tg-opt %s -p 'outline-attention{fewest-scores=1},inline-calls{target="{\"max_storage_buffers_per_shader_stage\": 4}"}' | filecheck %s --check-prefix HELD
// HELD: tg.call @attention(

// RUN: tg-opt %s -p 'outline-attention{target=cpu}' | filecheck %s --check-prefix SMALL

// SMALL-NOT: tg.call

// The scores are scaled, the mask compares positions (causal), and the operands are transposed to have heads first.
func.func @causal(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x4x16xf32>, %v: tensor<2x8x4x16xf32>) -> tensor<2x8x4x16xf32> {
  %s = tg.dot_general %q, %k lhs_batch = [0, 2] rhs_batch = [0, 2] lhs_contracting = [3] rhs_contracting = [3] : tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>
  %four = tg.constant value = dense<4.0> : tensor<2x4x8x8xf32>
  %scaled = tg.div %s, %four : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>
  %keys = tg.iota shape = [8, 8] axis = 1 element = i32
  %queries = tg.iota shape = [8, 8] axis = 0 element = i32
  %c = tg.compare %keys, %queries predicate = "le" : tensor<8x8xi32>, tensor<8x8xi32>
  %allowed = tg.broadcast %c shape = [2, 4, 8, 8] dims = [2, 3] : tensor<8x8xi1>
  %none = tg.constant value = dense<"0x000080FF"> : tensor<2x4x8x8xf32>
  %x = tg.select %allowed, %scaled, %none : tensor<2x4x8x8xi1>, tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>
  %top = tg.max %x axes = [3] : tensor<2x4x8x8xf32>
  %tops = tg.broadcast %top shape = [2, 4, 8, 8] dims = [0, 1, 2] : tensor<2x4x8xf32>
  %shifted = tg.sub %x, %tops : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>
  %e = tg.exp %shifted : tensor<2x4x8x8xf32>
  %sum = tg.sum %e axes = [3] : tensor<2x4x8x8xf32>
  %sums = tg.broadcast %sum shape = [2, 4, 8, 8] dims = [0, 1, 2] : tensor<2x4x8xf32>
  %w = tg.div %e, %sums : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>
  %o = tg.dot_general %w, %v lhs_batch = [0, 1] rhs_batch = [0, 2] lhs_contracting = [3] rhs_contracting = [1] : tensor<2x4x8x8xf32>, tensor<2x8x4x16xf32>
  %r = tg.transpose %o permutation = [0, 2, 1, 3] : tensor<2x4x8x16xf32>
  func.return %r : tensor<2x8x4x16xf32>
}
// CHECK: func.func @causal
// CHECK-NEXT: [[Q:%.*]] = tg.transpose %q permutation = [0, 2, 1, 3]
// CHECK-NEXT: [[Q1:%.*]] = tg.reshape [[Q]] shape = [8, 8, 16]
// CHECK-NEXT: [[K:%.*]] = tg.transpose %k permutation = [0, 2, 1, 3]
// CHECK-NEXT: [[K1:%.*]] = tg.reshape [[K]] shape = [8, 8, 16]
// CHECK-NEXT: [[V:%.*]] = tg.transpose %v permutation = [0, 2, 1, 3]
// CHECK-NEXT: [[V1:%.*]] = tg.reshape [[V]] shape = [8, 8, 16]
// CHECK-NEXT: tg.call @attention([[Q1]], [[K1]], [[V1]]) composite {groups = 8 : i64, queries = 8 : i64, keys = 8 : i64, features = 16 : i64, values = 16 : i64, period = 8 : i64, biases = 0 : i64, masks = 0 : i64, causal = 0 : i64, scale = 2.500000e-01 : f64, fill = 0xfff0000000000000 : f64, zeros = false} : (tensor<8x8x16xf32>, tensor<8x8x16xf32>, tensor<8x8x16xf32>) -> (tensor<8x8x16xf32>, tensor<8x8xf32>) {
// CHECK: wrt [0, 1, 2] forward {
// CHECK: tg.call @attention({{.*}}) recursive composite
// CHECK: backward {
// CHECK: tg.call @attention.backward
// CHECK: tg.reshape {{%.*}} shape = [2, 4, 8, 16] : tensor<8x8x16xf32>
// CHECK-NEXT: tg.transpose
// CHECK-NEXT: func.return

// One kernel: the transposes of operands and result become its index maps.
// BUF: func.func @causal
// BUF: buf.kernel grid = [8, 8] ins(%q, %k, %v : memref<2x8x4x16xf32>, memref<2x8x4x16xf32>, memref<2x8x4x16xf32>) outs({{%.*}} : memref<2x8x4x16xf32>) {
// BUF-NEXT: ^bb0
// BUF-NEXT: buf.attention "forward"
// BUF-SAME: maps = [affine_map<(d0, d1, d2, d3) -> ((d0 floordiv 4), d1, (d0 mod 4), d3)>
// BUF-NEXT: }
// BUF-NEXT: func.return

// The mask is true where a score is excluded, so it is negated; the queries are scaled; the bias gets a cotangent.
func.func @masked(%q: tensor<4x8x16xf32>, %k: tensor<4x6x16xf32>, %v: tensor<4x6x5xf32>, %m: tensor<4x6xi1>, %b: tensor<4x8x6xf32>) -> tensor<4x8x5xf32> {
  %half = tg.constant value = dense<0.5> : tensor<4x8x16xf32>
  %scaled = tg.mul %q, %half : tensor<4x8x16xf32>, tensor<4x8x16xf32>
  %s = tg.dot_general %scaled, %k lhs_batch = [0] rhs_batch = [0] lhs_contracting = [2] rhs_contracting = [2] : tensor<4x8x16xf32>, tensor<4x6x16xf32>
  %biased = tg.add %s, %b : tensor<4x8x6xf32>, tensor<4x8x6xf32>
  %out = tg.broadcast %m shape = [4, 8, 6] dims = [0, 2] : tensor<4x6xi1>
  %low = tg.constant value = dense<-1.0e9> : tensor<4x8x6xf32>
  %x = tg.select %out, %low, %biased : tensor<4x8x6xi1>, tensor<4x8x6xf32>, tensor<4x8x6xf32>
  %top = tg.max %x axes = [2] : tensor<4x8x6xf32>
  %constant = tg.stop_gradient %top : tensor<4x8xf32>
  %tops = tg.broadcast %constant shape = [4, 8, 6] dims = [0, 1] : tensor<4x8xf32>
  %shifted = tg.sub %x, %tops : tensor<4x8x6xf32>, tensor<4x8x6xf32>
  %e = tg.exp %shifted : tensor<4x8x6xf32>
  %sum = tg.sum %e axes = [2] : tensor<4x8x6xf32>
  %sums = tg.broadcast %sum shape = [4, 8, 6] dims = [0, 1] : tensor<4x8xf32>
  %w = tg.div %e, %sums : tensor<4x8x6xf32>, tensor<4x8x6xf32>
  %o = tg.dot_general %w, %v lhs_batch = [0] rhs_batch = [0] lhs_contracting = [2] rhs_contracting = [1] : tensor<4x8x6xf32>, tensor<4x6x5xf32>
  func.return %o : tensor<4x8x5xf32>
}
// CHECK: func.func @masked
// CHECK-NEXT: [[N:%.*]] = tg.not %m : tensor<4x6xi1>
// CHECK-NEXT: [[M:%.*]] = tg.broadcast [[N]] shape = [4, 8, 6] dims = [0, 2]
// CHECK-NEXT: tg.call @attention(%q, %k, %v, %b, [[M]]) composite {groups = 4 : i64, queries = 8 : i64, keys = 6 : i64, features = 16 : i64, values = 5 : i64, period = 8 : i64, biases = 1 : i64, masks = 1 : i64, scale = 5.000000e-01 : f64, fill = -1.000000e+09 : f64, zeros = false}
// CHECK: wrt [0, 1, 2, 3] forward {

// Not outlined: the attention weights have other uses, namely dropout and the function's result.
func.func @kept(%q: tensor<4x8x16xf32>, %v: tensor<4x8x16xf32>, %d: tensor<4x8x8xf32>) -> (tensor<4x8x16xf32>, tensor<4x8x16xf32>, tensor<4x8x8xf32>) {
  %x = tg.dot_general %q, %v lhs_batch = [0] rhs_batch = [0] lhs_contracting = [2] rhs_contracting = [2] : tensor<4x8x16xf32>, tensor<4x8x16xf32>
  %top = tg.max %x axes = [2] : tensor<4x8x8xf32>
  %tops = tg.broadcast %top shape = [4, 8, 8] dims = [0, 1] : tensor<4x8xf32>
  %shifted = tg.sub %x, %tops : tensor<4x8x8xf32>, tensor<4x8x8xf32>
  %e = tg.exp %shifted : tensor<4x8x8xf32>
  %sum = tg.sum %e axes = [2] : tensor<4x8x8xf32>
  %sums = tg.broadcast %sum shape = [4, 8, 8] dims = [0, 1] : tensor<4x8xf32>
  %w = tg.div %e, %sums : tensor<4x8x8xf32>, tensor<4x8x8xf32>
  %dropped = tg.mul %w, %d : tensor<4x8x8xf32>, tensor<4x8x8xf32>
  %o = tg.dot_general %w, %v lhs_batch = [0] rhs_batch = [0] lhs_contracting = [2] rhs_contracting = [1] : tensor<4x8x8xf32>, tensor<4x8x16xf32>
  %p = tg.dot_general %dropped, %v lhs_batch = [0] rhs_batch = [0] lhs_contracting = [2] rhs_contracting = [1] : tensor<4x8x8xf32>, tensor<4x8x16xf32>
  func.return %o, %p, %w : tensor<4x8x16xf32>, tensor<4x8x16xf32>, tensor<4x8x8xf32>
}
// CHECK: func.func @kept
// CHECK-NOT: tg.call
