// RUN: tg-opt %s -p 'lower-tg-to-buf,schedule,share-dispatches' | filecheck %s
// RUN: tg-opt %s -p 'lower-tg-to-buf,schedule,share-dispatches,plan-memory,lower-buf-to-wgsl' | filecheck %s --check-prefix WGSL
// RUN: tg-opt %s -p 'lower-tg-to-buf,schedule{target=lavapipe},share-dispatches{target=lavapipe}' | filecheck %s --check-prefix APART

// Two independent products and a sum are co-scheduled; the kernel that reads the products runs in a later dispatch.
func.func @independent(%x: tensor<16x16xf32>, %a: tensor<16x16xf32>, %b: tensor<16x16xf32>) -> (tensor<16x16xf32>, tensor<16xf32>) {
  %0 = tg.dot_general %x, %a lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<16x16xf32>, tensor<16x16xf32>
  %1 = tg.dot_general %x, %b lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<16x16xf32>, tensor<16x16xf32>
  %2 = tg.add %0, %1 : tensor<16x16xf32>, tensor<16x16xf32>
  %3 = tg.sum %x axes = [1] : tensor<16x16xf32>
  func.return %2, %3 : tensor<16x16xf32>, tensor<16xf32>
}
// CHECK-LABEL: func.func @independent(
// CHECK: buf.kernel grid = [16, 16] ins(%x, %a : {{.*}}) outs(%2 : {{.*}}) schedule = #buf.schedule<contraction, {{.*}}lanes = 16, depth = 8{{.*}}> dispatch = 0 {
// CHECK: buf.kernel grid = [16, 16] ins(%x, %b : {{.*}}) outs(%3 : {{.*}}) schedule = #buf.schedule<contraction, {{.*}}lanes = 16, depth = 8{{.*}}> dispatch = 0 {
// CHECK: buf.kernel grid = [16] ins(%x : {{.*}}) outs(%1 : {{.*}}) schedule = #buf.schedule<{{.*}}workgroup = [16, 8, 1]{{.*}}> dispatch = 0 {
// CHECK: buf.kernel grid = [16, 16] ins(%2, %3 : {{.*}}) outs(%0 : {{.*}}) schedule = #buf.schedule<thread, workgroup = [64, 1, 1], {{.*}}> {
// CHECK-NOT: buf.kernel

// The code of the products is emitted once. A table, the last binding, holds the offsets of their buffers: three for
// each product, one for the sum. The products take 4 workgroups, the sum 16; one comparison tests both ends of a range.
// WGSL: wgsl.kernel @shared0 workgroup_size = [16, 8, 1] access = ["read", "read_write", "read_write", "read"]
// WGSL-NEXT: ^bb0(%{{.*}}: memref<768xf32>, %{{.*}}: memref<512xf32>, %{{.*}}: memref<16xf32>, %[[TABLE:.*]]: memref<7xi32>):
// WGSL-DAG: %[[ARRAY:.*]] = wgsl.workgroup_alloc : memref<128xf32>
// WGSL: %[[GROUP:.*]] = wgsl.workgroup_id dim = 0
// WGSL: scf.if
// WGSL: %[[MEMBER:.*]] = arith.divui %[[GROUP]]
// WGSL: arith.remui %[[GROUP]]
// WGSL: %[[ROW:.*]] = arith.muli %[[MEMBER]]
// WGSL: memref.load %[[TABLE]][%[[ROW]]]
// WGSL: arith.mulf
// WGSL-NOT: arith.mulf
// WGSL: arith.subi %[[GROUP]]
// WGSL: scf.if
// WGSL: memref.load %[[TABLE]]
// WGSL: wgsl.barrier
// WGSL: wgsl.kernel @thread0
// WGSL-NOT: wgsl.kernel
// WGSL: buf.view %{{.*}}[0] attributes {tg.name = "starts0", tg.role = "constant", tg.value = dense<[0, 256, 0, 0, 512, 256, 0]> : tensor<7xi32>}
// WGSL: buf.dispatch @shared0 workgroups = [20, 1, 1] attributes {{.*}}buf.kernels = 3 : i64
// WGSL: buf.dispatch @thread0 workgroups = [4, 1, 1]

// A kernel that updates a parameter in place is not co-scheduled with one that reads the old value.
func.func @update(%p: tensor<8xf32> {tg.name = "p", tg.role = "parameter"}) -> (tensor<8xf32> {tg.name = "p", tg.role = "update"}, tensor<8x8xf32>) {
  %0 = tg.exp %p : tensor<8xf32>
  %1 = tg.broadcast %p shape = [8, 8] dims = [1] : tensor<8xf32>
  func.return %0, %1 : tensor<8xf32>, tensor<8x8xf32>
}
// CHECK-LABEL: func.func @update(
// CHECK: buf.kernel grid = [8, 8]
// CHECK-NOT: dispatch =
// CHECK: func.return

// Not co-scheduled: the product recurs and the sum does not, so a shader of both would compile the product again.
func.func @layers(%x: tensor<128x128xf32>, %a: tensor<128x128xf32>, %b: tensor<128x128xf32>, %k: tensor<64xf32>) -> (tensor<128x128xf32>, tensor<128x128xf32>, tensor<f32>) {
  %0 = tg.dot_general %x, %a lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<128x128xf32>, tensor<128x128xf32>
  %1 = tg.dot_general %0, %b lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<128x128xf32>, tensor<128x128xf32>
  %2 = tg.sum %k axes = [0] : tensor<64xf32>
  func.return %0, %1, %2 : tensor<128x128xf32>, tensor<128x128xf32>, tensor<f32>
}
// APART-LABEL: func.func @layers(
// APART: buf.kernel grid = [128, 128]
// APART-NOT: dispatch =
// APART: func.return
