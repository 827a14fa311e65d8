// RUN: tg-opt %s -p 'schedule{target=cpu}' | filecheck %s --check-prefix SCHEDULE
// RUN: tg-opt %s -p 'schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu' | filecheck %s
// RUN: not tg-opt %s -p schedule 2>&1 | filecheck %s --check-prefix SHADERS

// SCHEDULE: schedule = #buf.schedule<counting_sort, groups = [1, 1, 1], rows = 4>
// SHADERS: target 'webgpu-default' has no schedule for the kernel

func.func @sort(%x: memref<4x8xi32> {tg.name = "x", tg.role = "input"}, %o: memref<4x8xi32> {tg.name = "o", tg.role = "output"}, %s: memref<4x7xi32> {tg.name = "s", tg.role = "output"}) {
  buf.kernel grid = [4] ins(%x : memref<4x8xi32>) outs(%o, %s : memref<4x8xi32>, memref<4x7xi32>) {
  ^bb0(%0: memref<4x8xi32>, %1: memref<4x8xi32>, %2: memref<4x7xi32>):
    buf.counting_sort ins(%0 : memref<4x8xi32>) outs(%1 : memref<4x8xi32>) starts(%2 : memref<4x7xi32>) {buckets = 5 : i64, map = affine_map<(d0, d1) -> (d0, d1)>}
  }
  func.return
}

// Without starts as a result, they lie in the memory of a task.
func.func @order(%x: memref<4x8xi32> {tg.name = "x", tg.role = "input"}, %o: memref<4x8xi32> {tg.name = "o", tg.role = "output"}) {
  buf.kernel grid = [4] ins(%x : memref<4x8xi32>) outs(%o : memref<4x8xi32>) {
  ^bb0(%0: memref<4x8xi32>, %1: memref<4x8xi32>):
    buf.counting_sort ins(%0 : memref<4x8xi32>) outs(%1 : memref<4x8xi32>) {buckets = 5 : i64, map = affine_map<(d0, d1) -> (d0, d1)>}
  }
  func.return
}

// CHECK:      cpu.kernel @counting_sort0 access = ["read", "read_write", "read_write"] {
// CHECK:        scf.for %{{.*}} = %{{.*}} to %{{.*}} step %{{.*}} {

// All starts of the row are 0.
// CHECK:          memref.store %{{.*}}, %2[%{{.*}}] : memref<28xi32>
// CHECK:        } {cpu.parallel}

// Numbers are counted two places behind their bucket's, but those of no bucket.
// CHECK:          %[[N:.*]] = memref.load %0[%{{.*}}] : memref<32xi32>
// CHECK-NEXT:     %[[LONG:.*]] = arith.extui %[[N]] : i32 to i64
// CHECK-NEXT:     %[[AT:.*]] = arith.index_cast %[[LONG]] : i64 to index
// CHECK-NEXT:     %[[BUCKET:.*]] = arith.minui %[[AT]], %{{.*}} : index
// CHECK-NEXT:     %[[IS_IN:.*]] = arith.cmpi ult, %[[BUCKET]], %{{.*}} : index
// CHECK-NEXT:     scf.if %[[IS_IN]] {
// CHECK:            arith.addi %{{.*}}, %{{.*}} : i32

// Counts are summed up.
// CHECK:        %{{.*}} = scf.for %{{.*}} iter_args(%[[SUM:.*]] = %{{.*}}) -> (i32) {
// CHECK:          %[[TOTAL:.*]] = arith.addi %[[SUM]], %{{.*}} : i32
// CHECK-NEXT:     memref.store %[[TOTAL]], %2[%{{.*}}] : memref<28xi32>
// CHECK-NEXT:     scf.yield %[[TOTAL]] : i32

// A position goes to the start of its bucket, which then is that of the next one.
// CHECK:          %[[OLD:.*]] = memref.load %2[%[[HERE:.*]]] : memref<28xi32>
// CHECK-NEXT:     %[[NEW:.*]] = arith.addi %[[OLD]], %{{.*}} : i32
// CHECK-NEXT:     memref.store %[[NEW]], %2[%[[HERE]]] : memref<28xi32>
// CHECK-NEXT:     %[[PLACE:.*]] = arith.index_cast %[[OLD]] : i32 to index
// CHECK-NEXT:     arith.minui %[[PLACE]], %{{.*}} : index
// CHECK:          memref.store %{{.*}}, %1[%{{.*}}] : memref<32xi32>

// CHECK:      cpu.kernel @counting_sort1 access = ["read", "read_write"] {
// CHECK:        %[[STARTS:.*]] = memref.alloca() : memref<7xi32>
// CHECK:        scf.for
// CHECK:          memref.store %{{.*}}, %[[STARTS]][%{{.*}}] : memref<7xi32>
// CHECK:          memref.store %{{.*}}, %1[%{{.*}}] : memref<32xi32>
