// RUN: tg-opt %s --split-input-file -p 'lower-tg-to-buf,fuse,plan-memory,schedule,lower-buf-to-wgsl' | filecheck %s

// One invocation per grid point: those beyond the last point return at once. The two grid axes are linearized.
func.func @pointwise(%x: tensor<100x3xf32>, %b: tensor<3xf32>) -> tensor<100x3xf32> {
  %0 = tg.broadcast %b shape = [100, 3] dims = [1] : tensor<3xf32>
  %1 = tg.add %x, %0 : tensor<100x3xf32>, tensor<100x3xf32>
  func.return %1 : tensor<100x3xf32>
}
// CHECK: wgsl.kernel @thread0 workgroup_size = [64, 1, 1] access = ["read", "read", "read_write"] {
// CHECK-NEXT: ^bb0(%0: memref<300xf32>, %1: memref<3xf32>, %2: memref<300xf32>):
// CHECK-NEXT:   %3 = wgsl.global_id dim = 0
// CHECK-NEXT:   %4 = arith.constant 300 : index
// CHECK-NEXT:   %5 = arith.cmpi uge, %3, %4 : index
// CHECK-NEXT:   wgsl.return_if %5
// CHECK-NEXT:   %6 = memref.load %0[%3] : memref<300xf32>
// CHECK-NEXT:   %7 = arith.constant 3 : index
// CHECK-NEXT:   %8 = arith.remui %3, %7 : index
// CHECK-NEXT:   %9 = memref.load %1[%8] : memref<3xf32>
// CHECK-NEXT:   %10 = arith.addf %6, %9 : f32
// CHECK-NEXT:   memref.store %10, %2[%3] : memref<300xf32>
// CHECK-NEXT: }
// CHECK: buf.dispatch @thread0 workgroups = [5, 1, 1] attributes {buf.bytes_moved = 2412 : i64, buf.flops = {{[0-9]+}} : i64} (%x, %b, %2) : memref<100x3xf32>, memref<3xf32>, memref<100x3xf32>

// -----

// Short rows: each invocation reduces its own.
func.func @short_rows(%x: tensor<100x3xf32>) -> tensor<100xf32> {
  %0 = tg.sum %x axes = [1] : tensor<100x3xf32>
  func.return %0 : tensor<100xf32>
}
// CHECK: wgsl.kernel @thread0 workgroup_size = [64, 1, 1] access = ["read", "read_write"] {
// CHECK-NEXT: ^bb0(%0: memref<300xf32>, %1: memref<100xf32>):
// CHECK-NEXT:   %2 = wgsl.global_id dim = 0
// CHECK-NEXT:   %3 = arith.constant 100 : index
// CHECK-NEXT:   %4 = arith.cmpi uge, %2, %3 : index
// CHECK-NEXT:   wgsl.return_if %4
// CHECK-NEXT:   %5 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:   %6 = arith.constant 3 : index
// CHECK-NEXT:   %7 = arith.constant 0 : index
// CHECK-NEXT:   %8 = arith.constant 1 : index
// CHECK-NEXT:   %9 = arith.muli %2, %6 : index
// CHECK-NEXT:   %10 = scf.for %11 = %7 to %6 step %8 iter_args(%12 = %5) -> (f32) {
// CHECK-NEXT:     %13 = arith.addi %9, %11 : index
// CHECK-NEXT:     %14 = memref.load %0[%13] : memref<300xf32>
// CHECK-NEXT:     %15 = arith.addf %12, %14 : f32
// CHECK-NEXT:     scf.yield %15 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   memref.store %10, %1[%2] : memref<100xf32>
// CHECK-NEXT: }
// CHECK: buf.dispatch @thread0 workgroups = [2, 1, 1] attributes {buf.bytes_moved = 1600 : i64, buf.flops = {{[0-9]+}} : i64} (%x, %2) : memref<100x3xf32>, memref<100xf32>

// -----

// Long rows: a workgroup reduces each; its invocations fold their shares, then combine them in workgroup memory, eight between barriers.
func.func @long_rows(%x: tensor<10x1001xf32>) -> tensor<10xf32> {
  %0 = tg.max %x axes = [1] : tensor<10x1001xf32>
  func.return %0 : tensor<10xf32>
}
// CHECK: wgsl.kernel @group0 workgroup_size = [256, 1, 1] access = ["read", "read_write"] {
// CHECK: %2 = wgsl.workgroup_id dim = 0
// CHECK: %3 = wgsl.local_index
// CHECK: %10 = scf.for %11 = %3 to %7 step %8 iter_args(%12 = %6) -> (f32) {
// CHECK: %14 = memref.load %0[%13] : memref<10010xf32>
// CHECK: %15 = arith.maximumf %12, %14 : f32
// CHECK: %16 = wgsl.workgroup_alloc : memref<256xf32>
// CHECK: memref.store %10, %16[%3] : memref<256xf32>
// CHECK: wgsl.barrier
// CHECK-COUNT-7: arith.maximumf
// CHECK: memref.store {{%.*}}, %16[%3] : memref<256xf32>
// CHECK: wgsl.barrier
// CHECK-COUNT-7: arith.maximumf
// CHECK: memref.store {{%.*}}, %16[%3] : memref<256xf32>
// CHECK: wgsl.barrier
// CHECK-NOT: wgsl.barrier
// CHECK: memref.store {{%.*}}, %1[%2] : memref<10xf32>
// CHECK: buf.dispatch @group0 workgroups = [10, 1, 1] attributes {buf.bytes_moved = 40080 : i64, buf.flops = {{[0-9]+}} : i64} (%x, %2) : memref<10x1001xf32>, memref<10xf32>

// -----

func.func @product(%a: tensor<128x64xf32>, %b: tensor<64x256xf32>) -> tensor<128x256xf32> {
  %0 = tg.dot_general %a, %b lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<128x64xf32>, tensor<64x256xf32>
  func.return %0 : tensor<128x256xf32>
}
// CHECK: wgsl.kernel @contraction0 workgroup_size = [16, 8, 1] access = ["read", "read", "read_write"] {
// CHECK: {{%.*}} = wgsl.local_id dim = 0
// CHECK: {{%.*}} = wgsl.workgroup_id dim = 0
// CHECK: {{%.*}} = wgsl.workgroup_id dim = 1
// CHECK: {{%.*}} = wgsl.local_id dim = 1
// CHECK: {{%.*}} = wgsl.workgroup_alloc : memref<192xf32>
// CHECK: {{%.*}} = wgsl.workgroup_alloc : memref<576xf32>
// CHECK: {{%.*}} = wgsl.local_index
// CHECK: {{%.*}}, {{%.*}} = scf.for {{%.*}} = {{%.*}} to {{%.*}} step {{%.*}} iter_args({{%.*}} = {{%.*}}, {{%.*}} = {{%.*}}) -> (f32, f32) {
// CHECK: wgsl.barrier
// CHECK: {{%.*}}, {{%.*}} = scf.for {{%.*}} = {{%.*}} to {{%.*}} step {{%.*}} iter_args({{%.*}} = {{%.*}}, {{%.*}} = {{%.*}}) -> (f32, f32) {
// CHECK: {{%.*}} = arith.mulf {{%.*}}, {{%.*}} : f32
// CHECK: {{%.*}} = arith.mulf {{%.*}}, {{%.*}} : f32
// CHECK: {{%.*}} = arith.addf {{%.*}}, {{%.*}} : f32
// CHECK: {{%.*}} = arith.addf {{%.*}}, {{%.*}} : f32
// CHECK: wgsl.barrier
// CHECK: memref.store {{%.*}}, {{%.*}}[{{%.*}}] : memref<32768xf32>
// CHECK: memref.store {{%.*}}, {{%.*}}[{{%.*}}] : memref<32768xf32>
// CHECK: buf.dispatch @contraction0 workgroups = [8, 16, 1] attributes {buf.bytes_moved = 229376 : i64, buf.flops = {{[0-9]+}} : i64} (%a, %b, %2) : memref<128x64xf32>, memref<64x256xf32>, memref<128x256xf32>

// -----

// The load is guarded: nothing is read where the index is out of range.
func.func @gather(%x: tensor<65x8xf32>, %i: tensor<2xi32>) -> tensor<2x8xf32> {
  %0 = tg.take %x, %i axis = 0 : tensor<65x8xf32>, tensor<2xi32>
  func.return %0 : tensor<2x8xf32>
}
// CHECK: wgsl.kernel @thread0 workgroup_size = [64, 1, 1] access = ["read", "read", "read_write"] {
// CHECK-NEXT: ^bb0(%0: memref<2xi32>, %1: memref<520xf32>, %2: memref<16xf32>):
// CHECK-NEXT:   %3 = wgsl.global_id dim = 0
// CHECK-NEXT:   %4 = arith.constant 16 : index
// CHECK-NEXT:   %5 = arith.cmpi uge, %3, %4 : index
// CHECK-NEXT:   wgsl.return_if %5
// CHECK-NEXT:   %6 = arith.constant 8 : index
// CHECK-NEXT:   %7 = arith.divui %3, %6 : index
// CHECK-NEXT:   %8 = memref.load %0[%7] : memref<2xi32>
// CHECK-NEXT:   %9 = arith.constant 65 : i32
// CHECK-NEXT:   %10 = arith.cmpi ult, %8, %9 : i32
// CHECK-NEXT:   %11 = arith.constant 0x7fc00000 : f32
// CHECK-NEXT:   %12 = arith.remui %3, %6 : index
// CHECK-NEXT:   %13 = scf.if %10 -> (f32) {
// CHECK-NEXT:     %14 = arith.index_cast %8 : i32 to index
// CHECK-NEXT:     %15 = arith.muli %14, %6 : index
// CHECK-NEXT:     %16 = arith.addi %15, %12 : index
// CHECK-NEXT:     %17 = memref.load %1[%16] : memref<520xf32>
// CHECK-NEXT:     scf.yield %17 : f32
// CHECK-NEXT:   } else {
// CHECK-NEXT:     scf.yield %11 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   memref.store %13, %2[%3] : memref<16xf32>
// CHECK-NEXT: }
// CHECK: buf.dispatch @thread0 workgroups = [1, 1, 1] attributes {buf.bytes_moved = 136 : i64, buf.flops = {{[0-9]+}} : i64} (%i, %x, %2) : memref<2xi32>, memref<65x8xf32>, memref<2x8xf32>
