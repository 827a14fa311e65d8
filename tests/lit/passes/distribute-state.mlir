// RUN: tg-opt %s -p 'distribute{size=4 rank=3 shard=optimizer}' | filecheck %s

// Optimizer state is sharded (ZeRO-1): the gradient is reduce-scattered, and the updated parameter is all-gathered.
func.func @zero(%w: tensor<8x3xf32> {tg.name = "w", tg.role = "parameter"}, %m: tensor<8x3xf32> {tg.name = "m/w", tg.role = "state"}, %x: tensor<16x8xf32> {tg.name = "x", tg.role = "input"}, %g: tensor<16x3xf32> {tg.name = "g", tg.role = "input"}) -> (tensor<8x3xf32> {tg.name = "w", tg.role = "update"}, tensor<8x3xf32> {tg.name = "m/w", tg.role = "update"}) {
  %0 = tg.dot_general %x, %g lhs_batch = [] rhs_batch = [] lhs_contracting = [0] rhs_contracting = [0] : tensor<16x8xf32>, tensor<16x3xf32>
  %1 = tg.add %m, %0 : tensor<8x3xf32>, tensor<8x3xf32>
  %2 = tg.sub %w, %1 : tensor<8x3xf32>, tensor<8x3xf32>
  func.return %2, %1 : tensor<8x3xf32>, tensor<8x3xf32>
}

// CHECK: func.func @zero(%w: tensor<8x3xf32> {tg.name = "w", tg.role = "parameter"}, %m: tensor<2x3xf32> {tg.name = "m/w", tg.role = "state"}, %x: tensor<4x8xf32> {tg.name = "x", tg.role = "input"}, %g: tensor<4x3xf32> {tg.name = "g", tg.role = "input"}) -> (tensor<8x3xf32> {tg.name = "w", tg.role = "update"}, tensor<2x3xf32> {tg.name = "m/w", tg.role = "update"}) {
// CHECK-NEXT:   %0 = tg.dot_general %x, %g lhs_batch = [] rhs_batch = [] lhs_contracting = [0] rhs_contracting = [0] : tensor<4x8xf32>, tensor<4x3xf32>
// CHECK-NEXT:   %1 = tg.reduce_scatter %0 axis = 0 size = 4 : tensor<8x3xf32>
// CHECK-NEXT:   %2 = tg.add %m, %1 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %3 = tg.slice %w start = [6, 0] stop = [8, 3] step = [1, 1] : tensor<8x3xf32>
// CHECK-NEXT:   %4 = tg.sub %3, %2 : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %5 = tg.all_gather %4 axis = 0 size = 4 : tensor<2x3xf32>
// CHECK-NEXT:   func.return %5, %2 : tensor<8x3xf32>, tensor<2x3xf32>
// CHECK-NEXT: }
