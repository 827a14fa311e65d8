// RUN: tg-opt %s --split-input-file -p 'lower-tg-to-buf,plan-memory,schedule,lower-buf-to-wgsl' | filecheck %s

// Equal kernels are deduplicated, wherever their operands are in memory.
// CHECK: wgsl.kernel @thread0
// CHECK: math.exp
// CHECK-NOT: wgsl.kernel
// CHECK: buf.dispatch @thread0 workgroups = [1, 1, 1] attributes {buf.bytes_moved = 32 : i64, buf.flops = {{[0-9]+}} : i64} (%x, %[[FIRST:.*]]) :
// CHECK-NEXT: buf.dispatch @thread0 workgroups = [1, 1, 1] attributes {buf.bytes_moved = 32 : i64, buf.flops = {{[0-9]+}} : i64} (%[[FIRST]], %{{.*}}) :
func.func @twice(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tg.exp %x : tensor<4xf32>
  %1 = tg.exp %0 : tensor<4xf32>
  func.return %1 : tensor<4xf32>
}

// -----

// All scalars share one binding, indexed by constants; a buffer that is updated in place is bound once, as read_write.
// CHECK: wgsl.kernel @thread0 workgroup_size = [64, 1, 1] access = ["read_write", "read"] {
// CHECK-NEXT: ^bb0(%0: memref<4xf32>, %1: memref<2xf32>):
// CHECK: %[[SECOND:.*]] = arith.constant 1 : index
// CHECK: memref.load %1[%[[SECOND]]] : memref<2xf32>
// CHECK: memref.store %{{.*}}, %0[%2] : memref<4xf32>
// CHECK: %w = buf.view
// CHECK: %[[SCALARS:.*]] = buf.view %{{.*}}[0] : memref<8xi8> to memref<2xf32>
// CHECK: buf.dispatch @thread0 workgroups = [1, 1, 1] attributes {{.*}} (%w, %[[SCALARS]]) : memref<4xf32>, memref<2xf32>
func.func @scalars(%w: tensor<4xf32> {tg.name = "w", tg.role = "parameter"}, %s: tensor<f32> {tg.name = "s", tg.role = "scalar", tg.formula = "step"}, %t: tensor<f32> {tg.name = "t", tg.role = "scalar", tg.formula = "learning_rate"}) -> (tensor<4xf32> {tg.name = "w", tg.role = "update"}) {
  %0 = tg.broadcast %t shape = [4] dims = [] : tensor<f32>
  %1 = tg.mul %w, %0 : tensor<4xf32>, tensor<4xf32>
  func.return %1 : tensor<4xf32>
}

// -----

// A kernel that writes to one range of an arena binds all its ranges of that arena as read_write.
// CHECK: wgsl.kernel @thread0 workgroup_size = [64, 1, 1] access = ["read", "read_write"] {
// CHECK: wgsl.kernel @thread1 workgroup_size = [64, 1, 1] access = ["read_write", "read_write"] {
func.func @workspace(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tg.neg %x : tensor<4xf32>
  %1 = tg.exp %0 : tensor<4xf32>
  %2 = tg.log %1 : tensor<4xf32>
  func.return %2 : tensor<4xf32>
}

// -----

// Too many workgroups for one dimension: the index is linearized from two.
// CHECK: ^bb0(%0: memref<33554432xi32>, %1: memref<33554432xi32>):
// CHECK-NEXT: %[[X:.*]] = wgsl.global_id dim = 0
// CHECK-NEXT: %[[Y:.*]] = wgsl.global_id dim = 1
// CHECK-NEXT: %[[WIDTH:.*]] = arith.constant 11184896 : index
// CHECK-NEXT: %[[ROW:.*]] = arith.muli %[[Y]], %[[WIDTH]] : index
// CHECK-NEXT: arith.addi %[[X]], %[[ROW]] : index
// CHECK: buf.dispatch @thread0 workgroups = [43691, 3, 1]
func.func @folded(%x: tensor<33554432xi32>) -> tensor<33554432xi32> {
  %0 = tg.neg %x : tensor<33554432xi32>
  func.return %0 : tensor<33554432xi32>
}
