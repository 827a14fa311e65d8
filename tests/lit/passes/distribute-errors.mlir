// RUN: not tg-opt %s -p 'distribute{size=2}' 2>&1 | filecheck %s
// RUN: not tg-opt %s -p 'distribute{size=3}' 2>&1 | filecheck %s --check-prefix PARTS
// RUN: not tg-opt %s -p 'distribute{size=2 rank=2}' 2>&1 | filecheck %s --check-prefix RANK
// RUN: not tg-opt %s -p 'distribute{size=2 shard=all}' 2>&1 | filecheck %s --check-prefix SHARD

func.func @f(%x: tensor<8xf32> {tg.name = "x", tg.role = "input"}) -> tensor<8xf32> {
  %0 = tg.all_reduce %x reduction = "sum" size = 2 : tensor<8xf32>
  func.return %0 : tensor<8xf32>
}

// CHECK: tg.all_reduce at {{.*}}distribute-errors.mlir:{{[0-9]+}} is in a distributed step, which already computes on the batch of all processes; remove it
// PARTS: distribute: input 'x' of @f is tensor<8xf32>: its first axis, of extent 8, is not divisible by 3
// RANK: distribute: rank 2 is out of range for a group of 2 processes
// SHARD: distribute: shard must be 'optimizer' or empty, got 'all'
