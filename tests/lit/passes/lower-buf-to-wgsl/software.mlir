// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse,plan-memory{target=lavapipe},schedule{target=lavapipe},lower-buf-to-wgsl{target=lavapipe}' | filecheck %s

// Each lane loads an element of its own row and broadcasts it to the others. Addresses are loop-carried, and what is
// loop-invariant is hoisted.
func.func @product(%a: tensor<16x63xf32>, %b: tensor<63x8xf32>) -> tensor<16x8xf32> {
  %0 = tg.dot_general %a, %b lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<16x63xf32>, tensor<63x8xf32>
  func.return %0 : tensor<16x8xf32>
}
// CHECK: wgsl.kernel @contraction0 workgroup_size = [8, 1, 1] access = ["read", "read", "read_write"] {
// CHECK-NEXT: ^bb0(%0: memref<1008xf32>, %1: memref<504xf32>, %2: memref<128xf32>):
// CHECK-NEXT:   %3 = wgsl.local_id dim = 0
// CHECK-NEXT:   %4 = wgsl.workgroup_id dim = 0
// CHECK-NEXT:   %5 = arith.constant 8 : index
// CHECK-NEXT:   %6 = arith.muli %4, %5 : index
// CHECK-NEXT:   %7 = arith.addi %6, %3 : index
// CHECK-NEXT:   %8 = arith.constant 0 : index
// CHECK-NEXT:   %9 = wgsl.workgroup_id dim = 1
// CHECK-NEXT:   %10 = arith.constant 2 : index
// CHECK-NEXT:   %11 = arith.muli %9, %10 : index
// CHECK-NEXT:   %12 = arith.constant 1 : index
// CHECK-NEXT:   %13 = arith.addi %11, %12 : index
// CHECK-NEXT:   %14 = wgsl.subgroup_lane
// CHECK-NEXT:   %15 = arith.addi %11, %14 : index
// CHECK-NEXT:   %16 = arith.constant 15 : index
// CHECK-NEXT:   %17 = arith.minui %15, %16 : index
// CHECK-NEXT:   %18 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:   %19 = arith.constant 63 : index
// CHECK-NEXT:   %20 = arith.muli %17, %19 : index
// CHECK-NEXT:   %21, %22, %23, %24 = scf.for %25 = %8 to %19 step %12 iter_args(%26 = %18, %27 = %18, %28 = %20, %29 = %7) -> (f32, f32, index, index) {
// CHECK-NEXT:     %30 = memref.load %0[%28] : memref<1008xf32>
// CHECK-NEXT:     %31 = memref.load %1[%29] : memref<504xf32>
// CHECK-NEXT:     %32 = wgsl.subgroup_broadcast %30, 0 : f32
// CHECK-NEXT:     %33 = arith.mulf %32, %31 : f32
// CHECK-NEXT:     %34 = wgsl.subgroup_broadcast %30, 1 : f32
// CHECK-NEXT:     %35 = arith.mulf %34, %31 : f32
// CHECK-NEXT:     %36 = arith.addf %26, %33 : f32
// CHECK-NEXT:     %37 = arith.addf %27, %35 : f32
// CHECK-NEXT:     %38 = arith.constant 1 : index
// CHECK-NEXT:     %39 = arith.addi %28, %38 : index
// CHECK-NEXT:     %40 = arith.constant 8 : index
// CHECK-NEXT:     %41 = arith.addi %29, %40 : index
// CHECK-NEXT:     scf.yield %36, %37, %39, %41 : f32, f32, index, index
// CHECK-NEXT:   }
// CHECK-NEXT:   %42 = arith.muli %11, %5 : index
// CHECK-NEXT:   %43 = arith.addi %42, %7 : index
// CHECK-NEXT:   memref.store %21, %2[%43] : memref<128xf32>
// CHECK-NEXT:   %44 = arith.muli %13, %5 : index
// CHECK-NEXT:   %45 = arith.addi %44, %7 : index
// CHECK-NEXT:   memref.store %22, %2[%45] : memref<128xf32>
// CHECK-NEXT: }

// A lane loads four consecutive elements of a row as a vector: the loop is unrolled by 4.
func.func @vectors(%a: tensor<16x64xf32>, %b: tensor<64x8xf32>) -> tensor<16x8xf32> {
  %0 = tg.dot_general %a, %b lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<16x64xf32>, tensor<64x8xf32>
  func.return %0 : tensor<16x8xf32>
}
// CHECK: wgsl.kernel @contraction1 workgroup_size = [8, 1, 1] access = ["read", "read", "read_write"] {
// CHECK-NEXT: ^bb0(%0: memref<256xvector<4xf32>>, %1: memref<512xf32>, %2: memref<128xf32>):
// CHECK: scf.for {{%.*}} = {{%.*}} to %19 step {{%.*}} iter_args(%28 = %18, %29 = %18, %30 = %20, %31 = %7) -> (f32, f32, index, index) {
// CHECK-NEXT: %32 = memref.load %0[%30] : memref<256xvector<4xf32>>
// CHECK-NEXT: %33 = vector.extract %32[0] : f32 from vector<4xf32>
// CHECK: %37 = memref.load %1[%31] : memref<512xf32>
// CHECK: %44 = wgsl.subgroup_broadcast %33, 0 : f32
// CHECK-NEXT: %45 = arith.mulf %44, %37 : f32

// An invocation computes four neighbouring points: contiguous elements are vectors, and a shared one is loaded once.
func.func @points(%x: tensor<64x32x8xf32>, %b: tensor<64x1x1xf32>) -> tensor<64x32x8xf32> {
  %0 = tg.reshape %b shape = [64] : tensor<64x1x1xf32>
  %1 = tg.broadcast %0 shape = [64, 32, 8] dims = [0] : tensor<64xf32>
  %2 = tg.mul %x, %1 : tensor<64x32x8xf32>, tensor<64x32x8xf32>
  func.return %2 : tensor<64x32x8xf32>
}
// CHECK: wgsl.kernel @thread0 workgroup_size = [64, 1, 1] access = ["read", "read", "read_write"] {
// CHECK-NEXT: ^bb0(%0: memref<4096xvector<4xf32>>, %1: memref<64xf32>, %2: memref<4096xvector<4xf32>>):
// CHECK: %6 = memref.load %0[%3] : memref<4096xvector<4xf32>>
// CHECK: %12 = arith.divui %3, %11 : index
// CHECK-NEXT: %13 = memref.load %1[%12] : memref<64xf32>
// CHECK: %18 = wgsl.join %14, %15, %16, %17
// CHECK-NEXT: memref.store %18, %2[%3] : memref<4096xvector<4xf32>>

// Reductions are unrolled by 4, with four accumulators: in vectors for 64 elements, with a remainder loop for 65.
func.func @steps(%x: tensor<32x64xf32>, %y: tensor<32x65xf32>) -> (tensor<32xf32>, tensor<32xf32>) {
  %0 = tg.sum %x axes = [1] : tensor<32x64xf32>
  %1 = tg.max %y axes = [1] : tensor<32x65xf32>
  func.return %0, %1 : tensor<32xf32>, tensor<32xf32>
}
// CHECK: wgsl.kernel @thread1 workgroup_size = [8, 1, 1] access = ["read", "read", "read_write", "read_write"] {
// CHECK-NEXT: ^bb0(%0: memref<512xvector<4xf32>>, %1: memref<2080xf32>, %2: memref<32xf32>, %3: memref<32xf32>):
// CHECK: scf.for {{%.*}} to {{%.*}} step {{%.*}} iter_args([[A:%.*]] = %7, [[B:%.*]] = %7, [[C:%.*]] = %7, [[D:%.*]] = %7, [[AT:%.*]] = {{%.*}}) -> (f32, f32, f32, f32, index) {
// CHECK-NEXT: [[V:%.*]] = memref.load %0[[[AT]]] : memref<512xvector<4xf32>>
// CHECK-NEXT: [[X:%.*]] = vector.extract [[V]][0] : f32 from vector<4xf32>
// CHECK: arith.addf [[A]], [[X]] : f32
// CHECK-NEXT: arith.addf [[B]], {{%.*}} : f32
// CHECK-NEXT: arith.addf [[C]], {{%.*}} : f32
// CHECK-NEXT: arith.addf [[D]], {{%.*}} : f32
// CHECK: memref.store {{%.*}}, %2[%4] : memref<32xf32>
// CHECK: [[TOP:%.*]], {{%.*}}, {{%.*}}, {{%.*}}, {{%.*}} = scf.for
// CHECK-NEXT: memref.load %1[[[AT:%.*]]] : memref<2080xf32>
// CHECK-NEXT: [[NEXT:%.*]] = arith.addi [[AT]], {{%.*}} : index
// CHECK-NEXT: memref.load %1[[[NEXT]]] : memref<2080xf32>
// CHECK: scf.for {{.*}} = [[TOP]], {{%.*}} = {{%.*}}) -> (f32, index) {
// CHECK-NEXT: memref.load %1[{{%.*}}] : memref<2080xf32>
// CHECK-NEXT: arith.maximumf
// CHECK: memref.store {{%.*}}, %3[%4] : memref<32xf32>

// Long rows: an iteration loads and stores two vectors.
func.func @long_rows(%x: tensor<32x512xf32>) -> tensor<32x512xf32> {
  %0 = tg.sum %x axes = [1] : tensor<32x512xf32>
  %1 = tg.broadcast %0 shape = [32, 512] dims = [0] : tensor<32xf32>
  %2 = tg.div %x, %1 : tensor<32x512xf32>, tensor<32x512xf32>
  func.return %2 : tensor<32x512xf32>
}
// CHECK: wgsl.kernel @thread2 workgroup_size = [8, 1, 1] access = ["read", "read_write"] {
// CHECK-NEXT: ^bb0(%0: memref<4096xvector<4xf32>>, %1: memref<4096xvector<4xf32>>):
// CHECK: arith.addf
// CHECK: scf.for {{.*}} iter_args([[AT:%.*]] = {{%.*}}) -> (index) {
// CHECK-NEXT: memref.load %0[[[AT]]] : memref<4096xvector<4xf32>>
// CHECK: [[NEXT:%.*]] = arith.addi [[AT]], {{%.*}} : index
// CHECK-NEXT: memref.load %0[[[NEXT]]] : memref<4096xvector<4xf32>>
// CHECK: memref.store {{%.*}}, %1[[[AT]]] : memref<4096xvector<4xf32>>
// CHECK: memref.store {{%.*}}, %1[[[NEXT]]] : memref<4096xvector<4xf32>>

// Lanes share a row, and each unrolls its loop by 8. The remainder loop loads elements here, and vectors below.
func.func @shared_row(%x: tensor<4x1027xf32>) -> tensor<4xf32> {
  %0 = tg.sum %x axes = [1] : tensor<4x1027xf32>
  func.return %0 : tensor<4xf32>
}
// CHECK: wgsl.kernel @group0 workgroup_size = [8, 1, 1] access = ["read", "read_write"] {
// CHECK-NEXT: ^bb0(%0: memref<4108xf32>, %1: memref<4xf32>):
// CHECK: scf.for
// CHECK-COUNT-8: memref.load
// CHECK: scf.for
// CHECK-NEXT: memref.load
// CHECK-NEXT: arith.addf
// CHECK: wgsl.barrier

func.func @shared_vectors(%x: tensor<4x1028xf32>) -> tensor<4xf32> {
  %0 = tg.sum %x axes = [1] : tensor<4x1028xf32>
  func.return %0 : tensor<4xf32>
}
// CHECK: wgsl.kernel @group1 workgroup_size = [8, 1, 1] access = ["read", "read_write"] {
// CHECK-NEXT: ^bb0(%0: memref<1028xvector<4xf32>>, %1: memref<4xf32>):
// CHECK: scf.for
// CHECK-COUNT-2: memref.load %0
// CHECK: scf.for
// CHECK-NEXT: memref.load %0
// CHECK-NOT: memref.load
// CHECK: wgsl.barrier
