// RUN: not tg-opt %s -p 'distribute{size=2}' 2>&1 | filecheck %s
// RUN: not tg-opt %s -p 'distribute{size=3}' 2>&1 | filecheck %s --check-prefix PARTS
// RUN: not tg-opt %s -p 'distribute{size=2 rank=2}' 2>&1 | filecheck %s --check-prefix RANK
// RUN: not tg-opt %s -p 'distribute{size=2 shard=all}' 2>&1 | filecheck %s --check-prefix SHARD

func.func @f(%x: tensor<8xf32> {tg.name = "x", tg.role = "input"}) -> tensor<8xf32> {
  %0 = tg.all_reduce %x reduction = "sum" size = 2 : tensor<8xf32>
  func.return %0 : tensor<8xf32>
}

// CHECK: tg.all_reduce at <unknown> is in a step that is distributed, which sees the batch of all processes already; leave it out
// PARTS: distribute: input 'x' of @f is tensor<8xf32>: its first axis has no 3 equal parts
// RANK: distribute: rank 2 is not one of a group of 2
// SHARD: distribute: shard is optimizer or nothing, not 'all'
