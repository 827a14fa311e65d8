// RUN: tg-opt %s -p lower-tg-to-buf,fuse | filecheck %s

// Collectives run in two rounds: those that depend on no other one, with equal types adjacent, then those that do.
func.func @f(%x: tensor<4xf32>, %y: tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>, tensor<4xf32>) {
  %0 = tg.all_reduce %x reduction = "sum" size = 2 : tensor<4xf32>
  %1 = tg.exp %0 : tensor<4xf32>
  %2 = tg.all_reduce %y reduction = "sum" size = 2 : tensor<4xi32>
  %3 = tg.neg %x : tensor<4xf32>
  %4 = tg.all_reduce %3 reduction = "sum" size = 2 : tensor<4xf32>
  %5 = tg.all_reduce %1 reduction = "sum" size = 2 : tensor<4xf32>
  %6 = tg.add %5, %4 : tensor<4xf32>, tensor<4xf32>
  func.return %6, %2, %4 : tensor<4xf32>, tensor<4xi32>, tensor<4xf32>
}

// CHECK: arith.negf
// CHECK: buf.collective "all_reduce" ins({{%.*}} : memref<4xf32>)
// CHECK: buf.collective "all_reduce" ins({{%.*}} : memref<4xf32>)
// CHECK: buf.collective "all_reduce" ins({{%.*}} : memref<4xi32>)
// CHECK: math.exp
// CHECK: buf.collective "all_reduce" ins({{%.*}} : memref<4xf32>)
// CHECK: arith.addf
