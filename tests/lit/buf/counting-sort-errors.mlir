// RUN: tg-opt %s --split-input-file --parsing-diagnostics --print-diagnostics | filecheck %s

// CHECK: buckets are integers of 32 or 64 bits, not f32
func.func @f(%x: memref<8xf32>, %o: memref<1x8xi32>, %s: memref<1x7xi32>) {
  buf.kernel grid = [1] ins(%x : memref<8xf32>) outs(%o, %s : memref<1x8xi32>, memref<1x7xi32>) {
  ^bb0(%0: memref<8xf32>, %1: memref<1x8xi32>, %2: memref<1x7xi32>):
    buf.counting_sort ins(%0 : memref<8xf32>) outs(%1 : memref<1x8xi32>) starts(%2 : memref<1x7xi32>) {buckets = 5 : i64, map = affine_map<(d0, d1) -> (d1)>}
  }
  func.return
}

// -----

// CHECK: an order is a matrix of i32, not memref<8xi32>
func.func @f(%x: memref<8xi32>, %o: memref<8xi32>, %s: memref<1x7xi32>) {
  buf.kernel grid = [1] ins(%x : memref<8xi32>) outs(%o, %s : memref<8xi32>, memref<1x7xi32>) {
  ^bb0(%0: memref<8xi32>, %1: memref<8xi32>, %2: memref<1x7xi32>):
    buf.counting_sort ins(%0 : memref<8xi32>) outs(%1 : memref<8xi32>) starts(%2 : memref<1x7xi32>) {buckets = 5 : i64, map = affine_map<(d0, d1) -> (d1)>}
  }
  func.return
}

// -----

// CHECK: the starts of 5 buckets are memref<2x7xi32>, not memref<1x7xi32>
func.func @f(%x: memref<2x8xi32>, %o: memref<2x8xi32>, %s: memref<1x7xi32>) {
  buf.kernel grid = [2] ins(%x : memref<2x8xi32>) outs(%o, %s : memref<2x8xi32>, memref<1x7xi32>) {
  ^bb0(%0: memref<2x8xi32>, %1: memref<2x8xi32>, %2: memref<1x7xi32>):
    buf.counting_sort ins(%0 : memref<2x8xi32>) outs(%1 : memref<2x8xi32>) starts(%2 : memref<1x7xi32>) {buckets = 5 : i64, map = affine_map<(d0, d1) -> (d0, d1)>}
  }
  func.return
}

// -----

// CHECK: affine_map<(d0) -> (d0)> is not a map from (row, position) to an element of memref<8xi32>
func.func @f(%x: memref<8xi32>, %o: memref<1x8xi32>, %s: memref<1x7xi32>) {
  buf.kernel grid = [1] ins(%x : memref<8xi32>) outs(%o, %s : memref<1x8xi32>, memref<1x7xi32>) {
  ^bb0(%0: memref<8xi32>, %1: memref<1x8xi32>, %2: memref<1x7xi32>):
    buf.counting_sort ins(%0 : memref<8xi32>) outs(%1 : memref<1x8xi32>) starts(%2 : memref<1x7xi32>) {buckets = 5 : i64, map = affine_map<(d0) -> (d0)>}
  }
  func.return
}

// -----

// CHECK: index (d0 + d1) of 2 rows leaves an axis of extent 8 of memref<8xi32>
func.func @f(%x: memref<8xi32>, %o: memref<2x8xi32>, %s: memref<2x7xi32>) {
  buf.kernel grid = [2] ins(%x : memref<8xi32>) outs(%o, %s : memref<2x8xi32>, memref<2x7xi32>) {
  ^bb0(%0: memref<8xi32>, %1: memref<2x8xi32>, %2: memref<2x7xi32>):
    buf.counting_sort ins(%0 : memref<8xi32>) outs(%1 : memref<2x8xi32>) starts(%2 : memref<2x7xi32>) {buckets = 5 : i64, map = affine_map<(d0, d1) -> (d0 + d1)>}
  }
  func.return
}

// -----

// CHECK: a buf.counting_sort must be the only op of its kernel, whose grid must be [2]
func.func @f(%x: memref<8xi32>, %o: memref<2x8xi32>, %s: memref<2x7xi32>) {
  buf.kernel grid = [2, 8] ins(%x : memref<8xi32>) outs(%o, %s : memref<2x8xi32>, memref<2x7xi32>) {
  ^bb0(%0: memref<8xi32>, %1: memref<2x8xi32>, %2: memref<2x7xi32>):
    buf.counting_sort ins(%0 : memref<8xi32>) outs(%1 : memref<2x8xi32>) starts(%2 : memref<2x7xi32>) {buckets = 5 : i64, map = affine_map<(d0, d1) -> (d1)>}
  }
  func.return
}

// -----

// CHECK: the schedule has [1, 1, 1] tasks, grid [2] needs 2
func.func @f(%x: memref<8xi32>, %o: memref<2x8xi32>, %s: memref<2x7xi32>) {
  buf.kernel grid = [2] ins(%x : memref<8xi32>) outs(%o, %s : memref<2x8xi32>, memref<2x7xi32>) schedule = #buf.schedule<counting_sort, groups = [1, 1, 1]> {
  ^bb0(%0: memref<8xi32>, %1: memref<2x8xi32>, %2: memref<2x7xi32>):
    buf.counting_sort ins(%0 : memref<8xi32>) outs(%1 : memref<2x8xi32>) starts(%2 : memref<2x7xi32>) {buckets = 5 : i64, map = affine_map<(d0, d1) -> (d1)>}
  }
  func.return
}

// -----

// CHECK: a number of buckets is not negative, got -1
func.func @f(%x: memref<8xi32>, %o: memref<1x8xi32>) {
  buf.kernel grid = [1] ins(%x : memref<8xi32>) outs(%o : memref<1x8xi32>) {
  ^bb0(%0: memref<8xi32>, %1: memref<1x8xi32>):
    buf.counting_sort ins(%0 : memref<8xi32>) outs(%1 : memref<1x8xi32>) {buckets = -1 : i64, map = affine_map<(d0, d1) -> (d1)>}
  }
  func.return
}

// -----

// CHECK: a recipe is for stages or for an attention, not for buf.counting_sort
func.func @f(%x: memref<8xi32>, %o: memref<1x8xi32>, %s: memref<1x7xi32>) {
  buf.kernel grid = [1] ins(%x : memref<8xi32>) outs(%o, %s : memref<1x8xi32>, memref<1x7xi32>) recipe = #buf.recipe<collapse> {
  ^bb0(%0: memref<8xi32>, %1: memref<1x8xi32>, %2: memref<1x7xi32>):
    buf.counting_sort ins(%0 : memref<8xi32>) outs(%1 : memref<1x8xi32>) starts(%2 : memref<1x7xi32>) {buckets = 5 : i64, map = affine_map<(d0, d1) -> (d1)>}
  }
  func.return
}
