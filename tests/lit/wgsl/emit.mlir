// RUN: tg-opt %s -t wgsl | filecheck %s

// A loop with an accumulator, a branch with a result, workgroup memory and an i1 buffer.
wgsl.kernel @row_sum workgroup_size = [64, 1, 1] access = ["read", "read", "read_write"] {
^bb0(%x: memref<4096xf32>, %mask: memref<64xi1>, %y: memref<1xf32>):
  %tile = wgsl.workgroup_alloc : memref<64xf32>
  %t = wgsl.local_index
  %zero = arith.constant 0 : index
  %limit = arith.constant 4096 : index
  %step = arith.constant 64 : index
  %init = arith.constant 0.0 : f32
  %keep = memref.load %mask[%t] : memref<64xi1>
  %sum = scf.for %i = %t to %limit step %step iter_args(%acc = %init) -> (f32) {
    %v = memref.load %x[%i] : memref<4096xf32>
    %next = arith.addf %acc, %v : f32
    scf.yield %next : f32
  }
  %part = scf.if %keep -> (f32) {
    scf.yield %sum : f32
  } else {
    scf.yield %init : f32
  }
  memref.store %part, %tile[%t] : memref<64xf32>
  wgsl.barrier
  %inside = arith.cmpi ne, %t, %zero : index
  wgsl.return_if %inside
  %first = memref.load %tile[%zero] : memref<64xf32>
  %largest = arith.maximumf %first, %init : f32
  memref.store %largest, %y[%zero] : memref<1xf32>
}

// CHECK: // kernel: row_sum
// CHECK-NEXT: @group(0) @binding(0) var<storage, read> b0: array<f32, 4096>;
// CHECK-NEXT: @group(0) @binding(1) var<storage, read> b1: array<u32, 64>;
// CHECK-NEXT: @group(0) @binding(2) var<storage, read_write> b2: array<f32, 1>;
// CHECK: var<workgroup> w0: array<f32, 64>;
// CHECK: fn tg_is_nan(
// CHECK: fn tg_maximum(
// CHECK: @compute @workgroup_size(64, 1, 1)
// CHECK-NEXT: fn row_sum(
// CHECK-NEXT:   @builtin(local_invocation_index) local_invocation_index: u32,
// CHECK-NEXT: ) {
// CHECK-NEXT:   let v0 = local_invocation_index;
// CHECK-NEXT:   let v1 = b1[v0] != 0u;
// CHECK-NEXT:   var v2: f32 = 0.0f;
// CHECK-NEXT:   for (var v3: u32 = v0; v3 < 4096u; v3 += 64u) {
// CHECK-NEXT:     v2 = v2 + b0[v3];
// CHECK-NEXT:   }
// CHECK-NEXT:   var v4: f32;
// CHECK-NEXT:   if (v1) {
// CHECK-NEXT:     v4 = v2;
// CHECK-NEXT:   } else {
// CHECK-NEXT:     v4 = 0.0f;
// CHECK-NEXT:   }
// CHECK-NEXT:   w0[v0] = v4;
// CHECK-NEXT:   workgroupBarrier();
// CHECK-NEXT:   if (v0 != 0u) { return; }
// CHECK-NEXT:   b2[0u] = tg_maximum(w0[0u], 0.0f);
// CHECK-NEXT: }
