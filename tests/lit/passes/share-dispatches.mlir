// RUN: tg-opt %s -p 'lower-tg-to-buf,schedule,share-dispatches' | filecheck %s
// RUN: tg-opt %s -p 'lower-tg-to-buf,schedule,share-dispatches,plan-memory,lower-buf-to-wgsl' | filecheck %s --check-prefix WGSL

// Two products of one input, and a sum that waits for nobody, run side by side; what reads the products waits.
func.func @independent(%x: tensor<16x16xf32>, %a: tensor<16x16xf32>, %b: tensor<16x16xf32>) -> (tensor<16x16xf32>, tensor<16xf32>) {
  %0 = tg.dot_general %x, %a lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<16x16xf32>, tensor<16x16xf32>
  %1 = tg.dot_general %x, %b lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<16x16xf32>, tensor<16x16xf32>
  %2 = tg.add %0, %1 : tensor<16x16xf32>, tensor<16x16xf32>
  %3 = tg.sum %x axes = [1] : tensor<16x16xf32>
  func.return %2, %3 : tensor<16x16xf32>, tensor<16xf32>
}
// CHECK-LABEL: func.func @independent(
// CHECK: buf.kernel grid = [16, 16] ins(%x, %a : {{.*}}) outs(%2 : {{.*}}) schedule = {{{.*}}workgroup = array<i64: 16, 4, 1>{{.*}}} dispatch = 0 {
// CHECK: buf.kernel grid = [16, 16] ins(%x, %b : {{.*}}) outs(%3 : {{.*}}) schedule = {{{.*}}workgroup = array<i64: 16, 4, 1>{{.*}}} dispatch = 0 {
// CHECK: buf.kernel grid = [16] ins(%x : {{.*}}) outs(%1 : {{.*}}) schedule = {{{.*}}workgroup = array<i64: 16, 4, 1>{{.*}}} dispatch = 0 {
// CHECK: buf.kernel grid = [16, 16] ins(%2, %3 : {{.*}}) outs(%0 : {{.*}}) schedule = {{{.*}}workgroup = array<i64: 64, 1, 1>{{.*}}} {
// CHECK-NOT: buf.kernel

// Each kernel has its range of the workgroups: 4, 4 and 16 of them. One comparison tests both ends of a range.
// WGSL: wgsl.kernel @shared0 workgroup_size = [16, 4, 1]
// WGSL-DAG: %[[ARRAY:.*]] = wgsl.workgroup_alloc : memref<64xf32>
// WGSL: wgsl.workgroup_id dim = 0
// WGSL: scf.if
// WGSL: arith.subi
// WGSL: scf.if
// WGSL: arith.subi
// WGSL: scf.if
// WGSL: wgsl.barrier
// WGSL: wgsl.kernel @thread0
// WGSL-NOT: wgsl.kernel
// WGSL: buf.dispatch @shared0 workgroups = [24, 1, 1]
// WGSL: buf.dispatch @thread0 workgroups = [4, 1, 1]

// What updates a parameter in place does not run beside what reads its old value.
func.func @update(%p: tensor<8xf32> {tg.name = "p", tg.role = "parameter"}) -> (tensor<8xf32> {tg.name = "p", tg.role = "update"}, tensor<8x8xf32>) {
  %0 = tg.exp %p : tensor<8xf32>
  %1 = tg.broadcast %p shape = [8, 8] dims = [1] : tensor<8xf32>
  func.return %0, %1 : tensor<8xf32>, tensor<8x8xf32>
}
// CHECK-LABEL: func.func @update(
// CHECK: buf.kernel grid = [8, 8]
// CHECK-NOT: dispatch =
// CHECK: func.return
