// RUN: tg-opt %s --split-input-file --parsing-diagnostics --print-diagnostics | filecheck %s

func.func @f(%x: memref<2xf32>, %y: memref<8xf32>) {
  buf.kernel grid = [] ins(%x : memref<2xf32>) outs(%y : memref<8xf32>) {
  ^bb0(%0: memref<2xf32>, %1: memref<8xf32>):
    // CHECK: all_gather over a group of 2 processes cannot return memref<8xf32> for memref<2xf32>
    buf.collective "all_gather" ins(%0 : memref<2xf32>) outs(%1 : memref<8xf32>) {reduction = "sum", root = 0 : i64, size = 2 : i64}
  }
  func.return
}

// -----

func.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  buf.kernel grid = [] ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) {
  ^bb0(%0: memref<8xf32>, %1: memref<8xf32>):
    // CHECK: 'all_to_all' is not one of all_reduce, reduce_scatter, all_gather, broadcast
    buf.collective "all_to_all" ins(%0 : memref<8xf32>) outs(%1 : memref<8xf32>) {reduction = "sum", root = 0 : i64, size = 2 : i64}
  }
  func.return
}

// -----

func.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  buf.kernel grid = [] ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) {
  ^bb0(%0: memref<8xf32>, %1: memref<8xf32>):
    // CHECK: rank 2 is out of range for a group of 2 processes
    buf.collective "broadcast" ins(%0 : memref<8xf32>) outs(%1 : memref<8xf32>) {reduction = "sum", root = 2 : i64, size = 2 : i64}
  }
  func.return
}

// -----

// CHECK: a buf.collective must be the only op of its kernel, whose grid must be []
func.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  buf.kernel grid = [8] ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) {
  ^bb0(%0: memref<8xf32>, %1: memref<8xf32>):
    buf.collective "all_reduce" ins(%0 : memref<8xf32>) outs(%1 : memref<8xf32>) {reduction = "sum", root = 0 : i64, size = 2 : i64}
  }
  func.return
}

// -----

func.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  buf.kernel grid = [] ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) {
  ^bb0(%0: memref<8xf32>, %1: memref<8xf32>):
    // CHECK: 'begin' is not one of start, wait
    buf.collective "all_reduce" ins(%0 : memref<8xf32>) outs(%1 : memref<8xf32>) {reduction = "sum", root = 0 : i64, size = 2 : i64, phase = "begin"}
  }
  func.return
}

// -----

func.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  buf.kernel grid = [] ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) {
  ^bb0(%0: memref<8xf32>, %1: memref<8xf32>):
    // CHECK: a start must return one request of memref<i32>, which its wait must take after its inputs
    buf.collective "all_reduce" ins(%0 : memref<8xf32>) outs(%1 : memref<8xf32>) {reduction = "sum", root = 0 : i64, size = 2 : i64, phase = "start"}
  }
  func.return
}

// -----

func.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  buf.kernel grid = [] ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) {
  ^bb0(%0: memref<8xf32>, %1: memref<8xf32>):
    // CHECK: a start must return one request of memref<i32>, which its wait must take after its inputs
    buf.collective "all_reduce" ins(%0 : memref<8xf32>) outs(%1 : memref<8xf32>) {reduction = "sum", root = 0 : i64, size = 2 : i64, phase = "wait"}
  }
  func.return
}

// -----

func.func @f(%r: memref<i32>, %y: memref<8xf32>) {
  buf.kernel grid = [] ins(%r : memref<i32>) outs(%y : memref<8xf32>) {
  ^bb0(%0: memref<i32>, %1: memref<8xf32>):
    // CHECK: needs an input to exchange
    buf.collective "all_reduce" ins(%0 : memref<i32>) outs(%1 : memref<8xf32>) {reduction = "sum", root = 0 : i64, size = 2 : i64, phase = "wait"}
  }
  func.return
}

// -----

func.func @f(%x: memref<8xf32>, %z: memref<8xf32>, %y: memref<8xf32>) {
  buf.kernel grid = [] ins(%x, %z : memref<8xf32>, memref<8xf32>) outs(%y : memref<8xf32>) {
  ^bb0(%0: memref<8xf32>, %1: memref<8xf32>, %2: memref<8xf32>):
    // CHECK: 2 inputs need as many results, got 1
    buf.collective "all_reduce" ins(%0, %1 : memref<8xf32>, memref<8xf32>) outs(%2 : memref<8xf32>) {reduction = "sum", root = 0 : i64, size = 2 : i64}
  }
  func.return
}
