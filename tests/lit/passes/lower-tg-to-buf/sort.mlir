// RUN: tg-opt %s -p lower-tg-to-buf | filecheck %s
// RUN: tg-opt %s -p 'lower-tg-to-buf{target=cpu}' | filecheck %s --check-prefix=NATIVE

// Each element of the result is loaded from the operand that contains it.
func.func @concat(%x: tensor<2xf32>, %y: tensor<3xf32>) -> tensor<5xf32> {
  %0 = tg.concat %x, %y axis = 0 : tensor<2xf32>, tensor<3xf32>
  func.return %0 : tensor<5xf32>
}
// CHECK-LABEL: func.func @concat(
// CHECK-SAME: %x: memref<2xf32> {tg.name = "arg0", tg.role = "input"}, %y: memref<3xf32> {tg.name = "arg1", tg.role = "input"}, %0: memref<5xf32> {tg.name = "result0", tg.role = "output"}) {
// CHECK-NEXT:   buf.kernel grid = [5] ins(%x, %y : memref<2xf32>, memref<3xf32>) outs(%0 : memref<5xf32>) {
// CHECK-NEXT:   ^bb0(%1: memref<2xf32>, %2: memref<3xf32>, %3: memref<5xf32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} outs(%3 : memref<5xf32>) {
// CHECK-NEXT:     ^bb0(%4: f32):
// CHECK-NEXT:       %5 = linalg.index 0 : index
// CHECK-NEXT:       %6 = arith.constant 2 : index
// CHECK-NEXT:       %7 = arith.cmpi ult, %5, %6 : index
// CHECK-NEXT:       %8 = scf.if %7 -> (f32) {
// CHECK-NEXT:         %9 = memref.load %1[%5] : memref<2xf32>
// CHECK-NEXT:         scf.yield %9 : f32
// CHECK-NEXT:       } else {
// CHECK-NEXT:         %10 = arith.constant 2 : index
// CHECK-NEXT:         %11 = arith.subi %5, %10 : index
// CHECK-NEXT:         %12 = memref.load %2[%11] : memref<3xf32>
// CHECK-NEXT:         scf.yield %12 : f32
// CHECK-NEXT:       }
// CHECK-NEXT:       linalg.yield %8 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

// A merge sort: runs of one element are merged into runs of two, and these into the whole row.
func.func @sort(%x: tensor<4x3xf32>) -> tensor<4x3xi32> {
  %0 = tg.argsort %x descending = 0 : tensor<4x3xf32>
  func.return %0 : tensor<4x3xi32>
}
// CHECK-LABEL: func.func @sort(
// CHECK: %1 = memref.alloc() : memref<4x3xi32>
// CHECK-NEXT: buf.kernel grid = [4, 3] ins(%x : memref<4x3xf32>) outs(%1 : memref<4x3xi32>) {
// CHECK: buf.kernel grid = [4, 3] ins(%x, %1 : memref<4x3xf32>, memref<4x3xi32>) outs(%0 : memref<4x3xi32>) {
// CHECK: func.return

// Few indices: a single kernel compares every index with every row of the result.
func.func @few(%u: tensor<3x4xf32>, %i: tensor<3xi32>) -> tensor<9x4xf32> {
  %0 = tg.scatter_add %u, %i axis = 0 extent = 9 : tensor<3x4xf32>, tensor<3xi32>
  func.return %0 : tensor<9x4xf32>
}
// CHECK-LABEL: func.func @few(
// CHECK: buf.kernel grid = [9, 4] ins(%i, %u : memref<3xi32>, memref<3x4xf32>) outs(%0 : memref<9x4xf32>) {
// CHECK: iterator_types = ["parallel", "parallel", "reduction"]
// CHECK: func.return

// Longer runs are sorted by comparing all pairs: one kernel computes ranks, the next inverts them. A row is one run.
func.func @ranked(%x: tensor<4x30xf32>) -> tensor<4x30xi32> {
  %0 = tg.argsort %x descending = 1 : tensor<4x30xf32>
  func.return %0 : tensor<4x30xi32>
}
// CHECK-LABEL: func.func @ranked(
// CHECK: buf.kernel grid = [4, 30] ins(%x : memref<4x30xf32>) outs(%1 : memref<4x30xi32>) {
// CHECK: iterator_types = ["parallel", "parallel", "reduction"]
// CHECK: arith.cmpf oge
// CHECK: buf.kernel grid = [4, 30] ins(%1 : memref<4x30xi32>) outs(%0 : memref<4x30xi32>) {
// CHECK: iterator_types = ["parallel", "parallel", "reduction"]
// CHECK: arith.cmpi eq
// CHECK: arith.maxsi
// CHECK: func.return

// The last run is cut short by the end of the row: loads beyond it are guarded. The two runs are then merged.
func.func @rest(%x: tensor<300xi32>) -> tensor<300xi32> {
  %0 = tg.argsort %x descending = 0 : tensor<300xi32>
  func.return %0 : tensor<300xi32>
}
// CHECK-LABEL: func.func @rest(
// CHECK: buf.kernel grid = [300] ins(%x : memref<300xi32>) outs(%1 : memref<300xi32>) {
// CHECK: arith.constant 300 : index
// CHECK-NEXT: arith.cmpi ult
// CHECK-NEXT: arith.constant false
// CHECK-NEXT: linalg.index 0
// CHECK-NEXT: scf.if
// CHECK: buf.kernel grid = [300] ins(%1 : memref<300xi32>) outs(%2 : memref<300xi32>) {
// CHECK: buf.kernel grid = [300] ins(%x, %2 : memref<300xi32>, memref<300xi32>) outs(%0 : memref<300xi32>) {
// CHECK: func.return

// Many indices are sorted. One kernel finds where those of each row start, and the last sums the updates in that order.
func.func @many(%u: tensor<200x4xf32>, %i: tensor<200xi32>) -> tensor<300x4xf32> {
  %0 = tg.scatter_add %u, %i axis = 0 extent = 300 : tensor<200x4xf32>, tensor<200xi32>
  func.return %0 : tensor<300x4xf32>
}
// CHECK-LABEL: func.func @many(
// CHECK: buf.kernel grid = [200] ins(%i : memref<200xi32>) outs(%1 : memref<200xi32>) {
// CHECK: buf.kernel grid = [200] ins(%1 : memref<200xi32>) outs(%2 : memref<200xi32>) {
// CHECK: buf.kernel grid = [301] ins(%i, %2 : memref<200xi32>, memref<200xi32>) outs(%3 : memref<301xi32>) {
// CHECK: buf.kernel grid = [300, 4] ins(%u, %2, %3 : memref<200x4xf32>, memref<200xi32>, memref<301xi32>) outs(%0 : memref<300x4xf32>) {
// CHECK: scf.for
// CHECK: memref.load
// CHECK: arith.addf
// CHECK: func.return

// Constant indices are sorted here: equal scatters share the order and the starts of its segments.
func.func @known(%u: tensor<4x2xi32>, %v: tensor<4x2xi32>) -> (tensor<4097x2xi32>, tensor<4097x2xi32>) {
  %i = tg.constant value = dense<[2, 0, -1, 2]> : tensor<4xi32>
  %0 = tg.scatter_add %u, %i axis = 0 extent = 4097 : tensor<4x2xi32>, tensor<4xi32>
  %1 = tg.scatter_add %v, %i axis = 0 extent = 4097 : tensor<4x2xi32>, tensor<4xi32>
  func.return %0, %1 : tensor<4097x2xi32>, tensor<4097x2xi32>
}
// CHECK-LABEL: func.func @known(
// CHECK-SAME: %0: memref<4xi32> {tg.name = "constant1", tg.role = "constant", tg.value = dense<[2, 1, 0, 3]> : tensor<4xi32>}, %1: memref<4098xi32> {tg.name = "constant2",
// CHECK: buf.kernel grid = [4097, 2] ins(%u, %0, %1 : memref<4x2xi32>, memref<4xi32>, memref<4098xi32>) outs(%2 : memref<4097x2xi32>) {
// CHECK: buf.kernel grid = [4097, 2] ins(%v, %0, %1 : memref<4x2xi32>, memref<4xi32>, memref<4098xi32>) outs(%3 : memref<4097x2xi32>) {
// CHECK: func.return

// On a CPU the elements of a short row are ranked, however many rows there are: 64 merge in six kernels.
func.func @short_rows(%x: tensor<4096x64xf32>) -> tensor<4096x64xi32> {
  %0 = tg.argsort %x descending = 0 : tensor<4096x64xf32>
  func.return %0 : tensor<4096x64xi32>
}
// NATIVE-LABEL: func.func @short_rows(
// NATIVE-COUNT-2: buf.kernel grid = [4096, 64]
// NATIVE-NOT:     buf.kernel
// NATIVE:         func.return

// Longer rows are sorted there by the digits of their bits: four of 8 bits in rows of fewer than 2048, else three of 11.
func.func @digits(%x: tensor<2x100xf32>) -> tensor<2x100xi32> {
  %0 = tg.argsort %x descending = 0 : tensor<2x100xf32>
  func.return %0 : tensor<2x100xi32>
}
// The bits are inverted where the sign is set, else only the sign is; zeros are equal, and NaN comes last.
// NATIVE-LABEL: func.func @digits(
// NATIVE:         arith.addf
// NATIVE:         arith.bitcast %{{.*}} : f32 to i32
// NATIVE:         arith.shrsi
// NATIVE:         arith.xori
// NATIVE:         arith.cmpf une
// NATIVE:         arith.select
// NATIVE-COUNT-4: buf.counting_sort ins(%{{.*}} : memref<2x100xi32>) outs(%{{.*}} : memref<2x100xi32>) {buckets = 256
// NATIVE-NOT:     buf.counting_sort
// NATIVE:         func.return

func.func @longer_digits(%x: tensor<2048xi32>) -> tensor<2048xi32> {
  %0 = tg.argsort %x descending = 1 : tensor<2048xi32>
  func.return %0 : tensor<2048xi32>
}
// NATIVE-LABEL: func.func @longer_digits(
// NATIVE-COUNT-3: buf.counting_sort ins(%{{.*}} : memref<2048xi32>) outs(%{{.*}} : memref<1x2048xi32>) {buckets = 2048
// NATIVE-NOT:     buf.counting_sort
// NATIVE:         func.return

// Indices are counted there: the order and the starts of each index's updates are those of one sort.
func.func @counted(%u: tensor<300x4xf32>, %i: tensor<300xi32>) -> tensor<90x4xf32> {
  %0 = tg.scatter_add %u, %i axis = 0 extent = 90 : tensor<300x4xf32>, tensor<300xi32>
  func.return %0 : tensor<90x4xf32>
}
// NATIVE-LABEL: func.func @counted(
// NATIVE:         buf.kernel grid = [1] ins(%i : memref<300xi32>)
// NATIVE:           buf.counting_sort ins(%{{.*}} : memref<300xi32>) outs(%{{.*}} : memref<1x300xi32>) starts(%{{.*}} : memref<1x92xi32>) {buckets = 90
// NATIVE:         buf.kernel grid = [90, 4]
// NATIVE:           scf.for
// NATIVE-NOT:     buf.kernel
// NATIVE:         func.return

// Scatters by the same indices share the order and the starts; what combines the updates is the only difference.
func.func @shared(%u: tensor<300x4xf32>, %v: tensor<300x4xui32>, %i: tensor<300xi32>) -> (tensor<90x4xf32>, tensor<90x4xui32>) {
  %0 = tg.scatter_reduce %u, %i axis = 0 extent = 90 reduction = "prod" : tensor<300x4xf32>, tensor<300xi32>
  %1 = tg.scatter_reduce %v, %i axis = 0 extent = 90 reduction = "min" : tensor<300x4xui32>, tensor<300xi32>
  func.return %0, %1 : tensor<90x4xf32>, tensor<90x4xui32>
}
// NATIVE-LABEL: func.func @shared(
// NATIVE:         buf.counting_sort
// NATIVE:         buf.kernel grid = [90, 4]
// NATIVE:           arith.constant 1.000000e+00 : f32
// NATIVE:           scf.for
// NATIVE:             arith.mulf
// NATIVE-NOT:     buf.counting_sort
// NATIVE:         buf.kernel grid = [90, 4]
// NATIVE:           arith.constant -1 : i32
// NATIVE:           scf.for
// NATIVE:             arith.minui
// NATIVE-NOT:     buf.kernel
// NATIVE:         func.return

// Few updates are compared with every position, and the identity element takes the place of all others.
func.func @few_products(%u: tensor<3x4xf32>, %i: tensor<3xi32>) -> tensor<9x4xf32> {
  %0 = tg.scatter_reduce %u, %i axis = 0 extent = 9 reduction = "prod" : tensor<3x4xf32>, tensor<3xi32>
  func.return %0 : tensor<9x4xf32>
}
// CHECK-LABEL: func.func @few_products(
// CHECK: buf.kernel grid = [9, 4] ins(%i, %u : memref<3xi32>, memref<3x4xf32>) outs(%0 : memref<9x4xf32>) {
// CHECK: iterator_types = ["parallel", "parallel", "reduction"]
// CHECK: arith.constant 1.000000e+00 : f32
// CHECK: scf.if
// CHECK: arith.mulf
// CHECK: func.return

// Where the next element has another index, its first three updates are read without a branch, and the rest in a loop.
func.func @own_indices(%u: tensor<8x300xf32>, %i: tensor<8x300xi32>) -> tensor<8x200xf32> {
  %0 = tg.scatter_reduce_along_axis %u, %i axis = 1 extent = 200 reduction = "max" : tensor<8x300xf32>, tensor<8x300xi32>
  func.return %0 : tensor<8x200xf32>
}
// NATIVE-LABEL: func.func @own_indices(
// NATIVE:         buf.counting_sort
// NATIVE:         buf.kernel grid = [8, 200]
// NATIVE-COUNT-3:   arith.select
// NATIVE:           scf.for
// NATIVE:             arith.maximumf
// NATIVE-NOT:     buf.kernel
// NATIVE:         func.return

// The largest of an index's positions is the last one, which needs no loop.
func.func @last(%i: tensor<8x300xi32>) -> tensor<8x200xi32> {
  %0 = tg.iota shape = [300] axis = 0 element = i32
  %1 = tg.broadcast %0 shape = [8, 300] dims = [1] : tensor<300xi32>
  %2 = tg.scatter_reduce_along_axis %1, %i axis = 1 extent = 200 reduction = "max" : tensor<8x300xi32>, tensor<8x300xi32>
  func.return %2 : tensor<8x200xi32>
}
// NATIVE-LABEL: func.func @last(
// NATIVE:         buf.counting_sort
// NATIVE:         buf.kernel grid = [8, 200]
// NATIVE:           arith.constant -2147483648 : i32
// NATIVE:           arith.maxui
// NATIVE-NOT:       scf.for
// NATIVE:           arith.select
// NATIVE-NOT:     scf.for
// NATIVE:         func.return
