// RUN: tg-opt %s --prove --verify-numerics-each -p 'inference-pipeline{target=cpu}' -o %t 2>&1 | filecheck %s
// RUN: not tg-opt %s --prove 2>&1 | filecheck %s --check-prefix NOTHING

// NOTHING: there is nothing to prove: memory plans are proved after plan-memory, and kernels after lower-buf-to-wgsl
// Values are compared on a device here, and kernels proved in another process, which has z3.
// CHECK: kernel dialect grid {{.*}}bounds {{.*}}races {{.*}}barriers results
// CHECK-NEXT: loops0 cpu {{.*}}proved {{.*}}proved {{.*}}proved {{.*}}proved
func.func @twice(%x: tensor<100xf32>) -> tensor<100xf32> {
  %0 = tg.add %x, %x : tensor<100xf32>, tensor<100xf32>
  return %0 : tensor<100xf32>
}
