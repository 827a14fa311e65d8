// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu' | filecheck %s
// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu,convert-to-llvm' | filecheck %s --check-prefix LLVM
// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu' --prove -o %t 2>&1 | filecheck %s --check-prefix PROOF

// A request is no access: it may be out of bounds.
// PROOF: packed0 cpu {{.*}}proved {{.*}}proved {{.*}}proved {{.*}}proved
// PROOF: packed2 cpu {{.*}}proved {{.*}}proved {{.*}}proved {{.*}}proved

// While a block of results is summed, each iteration asks for what the next task packs: columns of 2 MB don't stay in the
// caches. The columns are counted in units of 2^-32.
// CHECK:      cpu.kernel @packed0 access = ["read", "read", "read_write"] {
// CHECK:      scf.for %[[K:.*]] = %{{.*}} to %{{.*}} step %{{.*}} iter_args(
// CHECK:      %[[AT:.*]] = arith.addi %{{.*}}, %[[K]] : index
// CHECK:      %[[COLUMNS:.*]] = arith.muli %[[AT]], %{{.*}} : index
// CHECK:      arith.divui %[[COLUMNS]], %{{.*}} : index
// CHECK:      arith.remui %[[COLUMNS]], %{{.*}} : index
// CHECK:      cpu.prefetch %1[%{{.*}}] : memref<524288xf32>
// CHECK:      vector.fma
// LLVM: llvm.call_intrinsic "llvm.prefetch.p0"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (!llvm.ptr, i32, i32, i32) -> ()
func.func @far(%x: tensor<128x1024xf32>, %w: tensor<512x1024xf32>) -> tensor<128x512xf32> {
  %0 = tg.dot_general %x, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [1] : tensor<128x1024xf32>, tensor<512x1024xf32>
  func.return %0 : tensor<128x512xf32>
}

// Smaller columns are near.
// CHECK:     cpu.kernel @packed1
// CHECK-NOT: cpu.prefetch %1
func.func @near(%x: tensor<128x256xf32>, %w: tensor<256x256xf32>) -> tensor<128x256xf32> {
  %0 = tg.dot_general %x, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [1] : tensor<128x256xf32>, tensor<256x256xf32>
  func.return %0 : tensor<128x256xf32>
}

// Rows in place: six of 160 elements, of which a share of 320 is asked for before each of three blocks of columns.
// CHECK:      cpu.kernel @packed2 access = ["read", "read", "read_write"] {
// CHECK:      %[[SHARE:.*]] = arith.constant 320 : index
// CHECK:      scf.for %{{.*}} = %{{.*}} to %{{.*}} step %{{.*}} {
// CHECK:      %[[START:.*]] = arith.muli %{{.*}}, %[[SHARE]] : index
// CHECK:      %[[NEXT:.*]] = arith.addi %{{.*}}, %[[START]] : index
// CHECK:      scf.for %[[LINE:.*]] = %{{.*}} to %{{.*}} step %{{.*}} {
// CHECK-NEXT:   %[[BY:.*]] = arith.muli %[[LINE]], %{{.*}} : index
// CHECK-NEXT:   %[[AT:.*]] = arith.addi %[[NEXT]], %[[BY]] : index
// CHECK-NEXT:   cpu.prefetch %0[%[[AT]]] : memref<153600xf32>
// CHECK-NEXT: }
// CHECK:      vector.fma
func.func @rows(%w: tensor<960x160xf32>, %x: tensor<160x48xf32>) -> tensor<960x48xf32> {
  %0 = tg.dot_general %w, %x lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<960x160xf32>, tensor<160x48xf32>
  func.return %0 : tensor<960x48xf32>
}
