// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse,plan-memory,schedule,lower-buf-to-wgsl' | filecheck %s
// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse,plan-memory,schedule,lower-buf-to-wgsl' -t wgsl | filecheck %s --check-prefix=WGSL

// A thread computes 8x4 results: of each step it reads two vectors of rows, and four columns. Steps are 68 elements apart,
// and the loop over a chunk has a constant trip count, as 15 divides the reduction and 16 doesn't.
func.func @product(%a: tensor<1024x60xf32>, %b: tensor<60x1024xf32>) -> tensor<1024x1024xf32> {
  %0 = tg.dot_general %a, %b lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<1024x60xf32>, tensor<60x1024xf32>
  func.return %0 : tensor<1024x1024xf32>
}
// CHECK: wgsl.kernel @contraction0 workgroup_size = [16, 8, 1] access = ["read", "read", "read_write"] {
// CHECK: [[rows:%.*]] = wgsl.workgroup_alloc : memref<255xvector<4xf32>>
// CHECK: [[columns:%.*]] = wgsl.workgroup_alloc : memref<1020xf32>
// CHECK: [[chunk:%.*]] = arith.constant 15 : index
// CHECK: [[staged:%.*]] = wgsl.join
// CHECK-NEXT: {{.*}}
// CHECK-NEXT: {{.*}}
// CHECK-NEXT: memref.store [[staged]], [[rows]]
// CHECK: memref.store {{%.*}}, [[columns]]
// CHECK: wgsl.barrier
// CHECK: scf.for {{%.*}} = {{%.*}} to [[chunk]]
// CHECK: memref.load [[rows]]{{.*}} : memref<255xvector<4xf32>>
// CHECK: vector.extract
// CHECK: memref.load [[rows]]{{.*}} : memref<255xvector<4xf32>>
// CHECK: memref.load [[columns]]
// CHECK: memref.load [[columns]]
// CHECK: memref.load [[columns]]
// CHECK: memref.load [[columns]]
// CHECK-NOT: memref.load
// CHECK: wgsl.barrier

// WGSL: var<workgroup> [[rows:w[0-9]+]]: array<vec4<f32>, 255>;
// WGSL: workgroupBarrier();
// WGSL: for (var [[k:v[0-9]+]]: u32 = 0u; [[k]] < 15u; [[k]] += 1u) {
