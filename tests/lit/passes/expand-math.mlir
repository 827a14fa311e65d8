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

// bf16 is the upper half of f32: rounded to nearest and ties to even, a NaN quieted. What is extended at once, as shaders
// do, is never a bf16.
// CHECK-LABEL: wgsl.kernel @rounded
wgsl.kernel @rounded workgroup_size = [64, 1, 1] access = ["read_write"] {
^bb0(%x: memref<64xf32>):
  %i = wgsl.global_id dim = 0
  %v = memref.load %x[%i] : memref<64xf32>
  // CHECK:      %[[BITS:.*]] = arith.bitcast %v : f32 to i32
  // CHECK:      arith.shrui %[[BITS]]
  // CHECK:      arith.cmpf uno, %v, %v : f32
  // CHECK:      arith.select %{{.*}}, %{{.*}}, %{{.*}} : i32
  // CHECK:      arith.andi %{{.*}}, %{{.*}} : i32
  // CHECK-NEXT: arith.bitcast %{{.*}} : i32 to f32
  // CHECK-NOT:  bf16
  %n = arith.truncf %v : f32 to bf16
  %e = arith.extf %n : bf16 to f32
  memref.store %e, %x[%i] : memref<64xf32>
}
