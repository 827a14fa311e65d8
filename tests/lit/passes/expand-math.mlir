// RUN: tg-opt %s -p expand-math | filecheck %s

// CHECK-LABEL: wgsl.kernel @half
wgsl.kernel @half workgroup_size = [64, 1, 1] access = ["read_write"] {
^bb0(%x: memref<64xf16>):
  %i = wgsl.global_id dim = 0
  %v = memref.load %x[%i] : memref<64xf16>
  // CHECK: arith.extf %v : f16 to f32
  // CHECK: arith.select
  // CHECK: arith.truncf %{{.*}} : f32 to f16
  %e = math.exp %v : f16
  memref.store %e, %x[%i] : memref<64xf16>
}

// CHECK-LABEL: wgsl.kernel @kept
wgsl.kernel @kept workgroup_size = [64, 1, 1] access = ["read_write"] {
^bb0(%x: memref<64xf32>):
  %i = wgsl.global_id dim = 0
  %v = memref.load %x[%i] : memref<64xf32>
  // CHECK: math.sqrt
  // CHECK-NEXT: math.floor
  // CHECK-NEXT: memref.store
  %e = math.sqrt %v : f32
  %f = math.floor %e : f32
  memref.store %f, %x[%i] : memref<64xf32>
}
