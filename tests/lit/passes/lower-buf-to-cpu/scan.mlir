// RUN: tg-opt %s --split-input-file -p 'schedule{target=cpu}' | filecheck %s --check-prefix SCHEDULE
// RUN: tg-opt %s --split-input-file -p 'schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu' | filecheck %s

// A running sum: one term is added at each point of a row, and two rows are side by side.
func.func @sums(%x: memref<2x48xf32> {tg.name = "x", tg.role = "input"}, %o: memref<2x48xf32> {tg.name = "o", tg.role = "output"}) {
  buf.kernel grid = [2, 48] ins(%x : memref<2x48xf32>) outs(%o : memref<2x48xf32>) {
  ^bb0(%0: memref<2x48xf32>, %1: memref<2x48xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%0 : memref<2x48xf32>) outs(%1 : memref<2x48xf32>) {
    ^bb0(%2: f32, %3: f32):
      %i = linalg.index 1 : index
      %j = linalg.index 2 : index
      %ii = arith.index_cast %i : index to i32
      %jj = arith.index_cast %j : index to i32
      %seen = arith.cmpi sge, %ii, %jj : i32
      %zero = arith.constant 0.000000e+00 : f32
      %term = arith.select %seen, %2, %zero : f32
      %sum = arith.addf %3, %term : f32
      linalg.yield %sum : f32
    }
  }
  func.return
}
// SCHEDULE: schedule = #buf.schedule<scan, groups = [1, 1, 1], loop = 1, abreast = 2, strips = 682>
// CHECK:      cpu.kernel @scan0 access = ["read", "read_write"] {
// CHECK:        scf.for %[[STRIP:.*]] = %{{.*}} to %{{.*}} step %{{.*}} {
// CHECK:          scf.for %[[I:.*]] = %{{.*}} to %{{.*}} step %{{.*}} iter_args(%[[S:.*]] = %[[ZERO:.*]], %[[T:.*]] = %[[ZERO]]) -> (f32, f32) {
// CHECK-NEXT:       arith.addi %{{.*}}, %[[I]] : index
// CHECK-NEXT:       %[[X:.*]] = memref.load %0
// CHECK-NEXT:       %[[II:.*]] = arith.index_cast %[[I]] : index to i32
// CHECK-NEXT:       %[[SEEN:.*]] = arith.cmpi sge, %[[II]], %[[II]] : i32
// CHECK-NEXT:       %[[TERM:.*]] = arith.select %[[SEEN]], %[[X]], %[[ZERO]] : f32
// CHECK-NEXT:       %[[SUM:.*]] = arith.addf %[[S]], %[[TERM]] : f32
// CHECK:            arith.addf %[[T]], %{{.*}} : f32
// CHECK:            memref.store %[[SUM]], %1
// CHECK:            scf.yield %[[SUM]], %{{.*}} : f32, f32

// -----

// The terms behind each point, from the last point to the first: the nearest term stands for the one behind the last.
func.func @behind(%x: memref<48xf32> {tg.name = "x", tg.role = "input"}, %o: memref<48xf32> {tg.name = "o", tg.role = "output"}) {
  buf.kernel grid = [48] ins(%x : memref<48xf32>) outs(%o : memref<48xf32>) {
  ^bb0(%0: memref<48xf32>, %1: memref<48xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%0 : memref<48xf32>) outs(%1 : memref<48xf32>) {
    ^bb0(%2: f32, %3: f32):
      %i = linalg.index 0 : index
      %j = linalg.index 1 : index
      %behind = arith.cmpi sgt, %j, %i : index
      %zero = arith.constant 0.000000e+00 : f32
      %term = arith.select %behind, %2, %zero : f32
      %sum = arith.addf %3, %term : f32
      linalg.yield %sum : f32
    }
  }
  func.return
}
// SCHEDULE: schedule = #buf.schedule<scan, groups = [1, 1, 1], strips = 1365>
// CHECK:      scf.for %[[N:.*]] = %{{.*}} to %{{.*}} step %{{.*}} iter_args(%[[S:.*]] = %{{.*}}) -> (f32) {
// CHECK-NEXT:   %[[I:.*]] = arith.subi %[[LAST:.*]], %[[N]] : index
// CHECK-NEXT:   %[[NEXT:.*]] = arith.addi %[[I]], %{{.*}} : index
// CHECK-NEXT:   %[[J:.*]] = arith.minui %[[NEXT]], %[[LAST]] : index
// CHECK-NEXT:   memref.load %0[%[[J]]]
// CHECK-NEXT:   arith.cmpi sgt, %[[J]], %[[I]] : index
// CHECK:        memref.store %{{.*}}, %1[%[[I]]]

// -----

// Three terms are multiplied at each point; none at the first, for which the nearest ones stand.
func.func @strides(%x: memref<9xf32> {tg.name = "x", tg.role = "input"}, %o: memref<4xf32> {tg.name = "o", tg.role = "output"}) {
  buf.kernel grid = [4] ins(%x : memref<9xf32>) outs(%o : memref<4xf32>) {
  ^bb0(%0: memref<9xf32>, %1: memref<4xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%0 : memref<9xf32>) outs(%1 : memref<4xf32>) {
    ^bb0(%2: f32, %3: f32):
      %i = linalg.index 0 : index
      %j = linalg.index 1 : index
      %three = arith.constant 3 : index
      %count = arith.muli %i, %three : index
      %before = arith.cmpi slt, %j, %count : index
      %one = arith.constant 1.000000e+00 : f32
      %term = arith.select %before, %2, %one : f32
      %product = arith.mulf %3, %term : f32
      linalg.yield %product : f32
    }
  }
  func.return
}
// SCHEDULE: schedule = #buf.schedule<scan, groups = [1, 1, 1], strips = 5461>
// CHECK:      scf.for %[[I:.*]] = %{{.*}} to %{{.*}} step %{{.*}} iter_args(%[[P:.*]] = %{{.*}}) -> (f32) {
// CHECK:        scf.for %[[N:.*]] = %{{.*}} to %[[THREE:.*]] step %{{.*}} iter_args(%{{.*}} = %[[P]]) -> (f32) {
// CHECK:          %[[NEXT:.*]] = arith.addi %{{.*}}, %[[N]] : index
// CHECK-NEXT:     %[[LEAST:.*]] = arith.maxui %[[NEXT]], %[[THREE]] : index
// CHECK-NEXT:     %[[J:.*]] = arith.subi %[[LEAST]], %[[THREE]] : index
// CHECK-NEXT:     memref.load %0[%[[J]]]
// CHECK:          arith.mulf
// CHECK:        memref.store

// -----

// What is added depends on the point: no scan.
func.func @no_scan(%x: memref<48x48xf32> {tg.name = "x", tg.role = "input"}, %o: memref<48xf32> {tg.name = "o", tg.role = "output"}) {
  buf.kernel grid = [48] ins(%x : memref<48x48xf32>) outs(%o : memref<48xf32>) {
  ^bb0(%0: memref<48x48xf32>, %1: memref<48xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%0 : memref<48x48xf32>) outs(%1 : memref<48xf32>) {
    ^bb0(%2: f32, %3: f32):
      %i = linalg.index 0 : index
      %j = linalg.index 1 : index
      %seen = arith.cmpi sge, %i, %j : index
      %zero = arith.constant 0.000000e+00 : f32
      %term = arith.select %seen, %2, %zero : f32
      %sum = arith.addf %3, %term : f32
      linalg.yield %sum : f32
    }
  }
  func.return
}
// SCHEDULE: schedule = #buf.schedule<loops
