// RUN: not tg-opt %s -p 'relay-loops{target="{\"max_loop_iterations\": 100}"}' 2>&1 | filecheck %s
// RUN: not tg-opt %s -p 'relay-loops{target="{\"max_loop_iterations\": 2000, \"max_compute_workgroup_storage_size\": 16}"}' 2>&1 | filecheck %s --check-prefix MEMORY
// RUN: not tg-opt %s -p 'relay-loops{target="{\"max_loop_iterations\": 2000, \"subgroup_size\": 16}"}' 2>&1 | filecheck %s --check-prefix VECTORS
// RUN: not tg-opt %S/simplify.mlir --split-input-file -p relay-loops 2>&1 | filecheck %s --check-prefix LEVEL

// LEVEL: relay-loops expects a module at level wgsl, this one is at level tg: run `lower-buf-to-wgsl` first
// CHECK: tg-opt: error: relay-loops: the loops of the kernel made at
// CHECK-SAME: are too long for 'custom', which ends an invocation's loops silently after 100 iterations: up to 60001 iterations, more than 32 can run together.
// CHECK-SAME: Reduce in several steps
// MEMORY: relaying needs 32 bytes of workgroup memory, there are 16.
// VECTORS: up to 60001 iterations, more than 1 can run together.
wgsl.kernel @sum workgroup_size = [8, 1, 1] access = ["read", "read_write"] {
^bb0(%x: memref<1xf32>, %y: memref<8xf32>):
  %row = wgsl.local_id dim = 0
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %long = arith.constant 60000 : index
  %zero = arith.constant 0.0 : f32
  %total = scf.for %i = %c0 to %long step %c1 iter_args(%held = %zero) -> (f32) {
    %value = memref.load %x[%c0] : memref<1xf32>
    %new = arith.addf %held, %value : f32
    scf.yield %new : f32
  }
  memref.store %total, %y[%row] : memref<8xf32>
}
