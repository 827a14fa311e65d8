// RUN: tg-opt %s --split-input-file --parsing-diagnostics --print-diagnostics | filecheck %s

func.func @f(%x: tensor<8xf32>) {
  // CHECK: tg.all_reduce: reduction "mean" is not one of sum, max, min
  %0 = tg.all_reduce %x reduction = "mean" size = 4 : tensor<8xf32>
  func.return
}

// -----

func.func @f(%x: tensor<8xi1>) {
  // CHECK: tg.all_reduce: takes numbers, not i1
  %0 = tg.all_reduce %x reduction = "sum" size = 4 : tensor<8xi1>
  func.return
}

// -----

func.func @f(%x: tensor<8xf32>) {
  // CHECK: tg.all_gather: a group must have at least one process, got 0
  %0 = tg.all_gather %x axis = 0 size = 0 : tensor<8xf32>
  func.return
}

// -----

func.func @f(%x: tensor<8xf32>) {
  // CHECK: tg.reduce_scatter: axis 0 of [8] is not divisible by 3
  %0 = tg.reduce_scatter %x axis = 0 size = 3 : tensor<8xf32>
  func.return
}

// -----

func.func @f(%x: tensor<8xf32>) {
  // CHECK: tg.reduce_scatter: axis 1 is out of range for rank 1
  %0 = tg.reduce_scatter %x axis = 1 size = 2 : tensor<8xf32>
  func.return
}

// -----

func.func @f(%x: tensor<8xf32>) {
  // CHECK: tg.collective_broadcast: root 2 is out of range for a group of 2 processes
  %0 = tg.collective_broadcast %x root = 2 size = 2 : tensor<8xf32>
  func.return
}
