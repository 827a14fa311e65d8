// RUN: TG_ROUNDTRIP

// CHECK: wgsl.kernel @every workgroup_size = [64, 2, 1] access = ["read", "read_write"] {
// CHECK-NEXT: ^bb0(%x: memref<64xf32>, %y: memref<64xf32>):
wgsl.kernel @every workgroup_size = [64, 2, 1] access = ["read", "read_write"] {
^bb0(%x: memref<64xf32>, %y: memref<64xf32>):
  // CHECK-NEXT: %tile = wgsl.workgroup_alloc : memref<256xf32>
  %tile = wgsl.workgroup_alloc : memref<256xf32>
  // CHECK-NEXT: %g = wgsl.global_id dim = 0
  %g = wgsl.global_id dim = 0
  // CHECK-NEXT: %t = wgsl.local_index
  %t = wgsl.local_index
  %v = memref.load %x[%g] : memref<64xf32>
  // CHECK: wgsl.barrier
  wgsl.barrier
  // CHECK-NEXT: wgsl.barrier {storage = true}
  wgsl.barrier {storage = true}
  // CHECK-NEXT: %b = wgsl.subgroup_broadcast %v, 3 : f32
  %b = wgsl.subgroup_broadcast %v, 3 : f32
  // CHECK-NEXT: %s = wgsl.subgroup_reduce "add" %b : f32
  %s = wgsl.subgroup_reduce "add" %b : f32
  // CHECK-NEXT: %w = wgsl.subgroup_shuffle_xor %s, 16 : f32
  %w = wgsl.subgroup_shuffle_xor %s, 16 : f32
  // CHECK-NEXT: %j = wgsl.join %s, %s, %s, %s
  %j = wgsl.join %s, %s, %s, %s
  // CHECK-NEXT: %r = wgsl.remf %s, %b : f32
  %r = wgsl.remf %s, %b : f32
  %c = arith.cmpi uge, %g, %t : index
  // CHECK: wgsl.return_if %c
  wgsl.return_if %c
  memref.store %r, %y[%g] : memref<64xf32>
}
