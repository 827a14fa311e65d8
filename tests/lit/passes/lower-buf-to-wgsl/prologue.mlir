// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{target=lavapipe},schedule{target=lavapipe},plan-memory{target=lavapipe},lower-buf-to-wgsl{target=lavapipe}' | filecheck %s --check-prefix=CPU
// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse,schedule,plan-memory,lower-buf-to-wgsl' | filecheck %s --check-prefix=GPU

// The prologue scales rows and adds a vector to each. On a CPU, each lane loads a row, in vectors along the reduction,
// and the scale is hoisted. The prologue is computed once per row, and broadcast to the other lanes.
func.func @scaled(%x: tensor<64x64xf32>, %r: tensor<64xf32>, %s: tensor<64xf32>, %w: tensor<64x16xf32>) -> tensor<64x16xf32> {
  %0 = tg.broadcast %r shape = [64, 64] dims = [0] : tensor<64xf32>
  %1 = tg.broadcast %s shape = [64, 64] dims = [1] : tensor<64xf32>
  %2 = tg.mul %x, %0 : tensor<64x64xf32>, tensor<64x64xf32>
  %3 = tg.add %2, %1 : tensor<64x64xf32>, tensor<64x64xf32>
  %4 = tg.dot_general %3, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<64x64xf32>, tensor<64x16xf32>
  func.return %4 : tensor<64x16xf32>
}
// CPU: wgsl.kernel @contraction0 workgroup_size = [8, 1, 1]
// CPU: ^bb0(%0: memref<1024xf32>, %1: memref<16xvector<4xf32>>, %2: memref<1024xvector<4xf32>>, %3: memref<64xf32>, %4: memref<1024xf32>):
// CPU: {{%.*}} = wgsl.subgroup_lane
// CPU: [[scale:%.*]] = memref.load %3[{{%.*}}] : memref<64xf32>
// CPU: scf.for
// CPU: [[added:%.*]] = memref.load %1[{{%.*}}] : memref<16xvector<4xf32>>
// CPU: [[first:%.*]] = vector.extract [[added]][0] : f32 from vector<4xf32>
// CPU: [[row:%.*]] = memref.load %2[{{%.*}}] : memref<1024xvector<4xf32>>
// CPU: [[x:%.*]] = vector.extract [[row]][0] : f32 from vector<4xf32>
// CPU: [[scaled:%.*]] = arith.mulf [[x]], [[scale]] : f32
// CPU-NEXT: [[sum:%.*]] = arith.addf [[scaled]], [[first]] : f32
// CPU-NEXT: {{%.*}} = wgsl.subgroup_broadcast [[sum]], 0 : f32
// CPU-NEXT: arith.mulf
// CPU-NEXT: arith.mulf
// CPU-NEXT: {{%.*}} = wgsl.subgroup_broadcast [[sum]], 1 : f32
// CPU-NEXT: arith.mulf

// On a GPU, the invocations of a workgroup compute a tile of the prologue cooperatively, in workgroup memory.
// GPU: wgsl.kernel @contraction0 workgroup_size = [16, 8, 1]
// GPU: [[columns:%.*]] = wgsl.workgroup_alloc : memref<320xf32>
// GPU: [[rows:%.*]] = wgsl.workgroup_alloc : memref<192xf32>
// GPU: scf.for
// GPU: scf.for
// GPU: memref.store {{%.*}}, [[columns]][{{%.*}}] : memref<320xf32>
// GPU: [[added:%.*]] = memref.load %1[{{%.*}}] : memref<64xf32>
// GPU: [[x:%.*]] = memref.load %2[{{%.*}}] : memref<4096xf32>
// GPU: [[scale:%.*]] = memref.load %3[{{%.*}}] : memref<64xf32>
// GPU: [[scaled:%.*]] = arith.mulf [[x]], [[scale]] : f32
// GPU: [[sum:%.*]] = arith.addf [[scaled]], [[added]] : f32
// GPU: memref.store [[sum]], [[rows]][{{%.*}}] : memref<192xf32>
// GPU: wgsl.barrier
// GPU: scf.for
// GPU: [[row:%.*]] = memref.load [[rows]][{{%.*}}] : memref<192xf32>
// GPU-NEXT: {{%.*}} = arith.mulf
// GPU-NEXT: {{%.*}} = arith.addf
// GPU: wgsl.barrier
