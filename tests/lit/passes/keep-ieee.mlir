// RUN: tg-opt %s -p keep-ieee | filecheck %s

wgsl.kernel @k workgroup_size = [64, 1, 1] access = ["read_write"] {
^bb0(%x: memref<64xf32>):
  %i = wgsl.global_id dim = 0
  %a = memref.load %x[%i] : memref<64xf32>
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %large = arith.constant 1.0e+38 : f32
  %ten = arith.constant 10.0 : f32

  // %a * 0 is computed on the bits of %a: NaN if the exponent is all ones, else a zero with the sign of %a.
  %b = arith.mulf %a, %zero : f32
  // CHECK:      %[[BITS:.*]] = arith.bitcast %a : f32 to i32
  // CHECK:      arith.cmpi uge
  // CHECK:      %[[CHOSEN:.*]] = arith.select %{{.*}}, %{{.*}}, %{{.*}} : i32
  // CHECK-NEXT: %[[B:.*]] = arith.bitcast %[[CHOSEN]] : i32 to f32

  // (%b + 1) - 1: the inner sum is made opaque, so that compilers can't fold the constants.
  %c = arith.addf %b, %one : f32
  %d = arith.subf %c, %one : f32
  // CHECK-NEXT: %c = arith.addf %[[B]], %one : f32
  // CHECK:      %[[LESS:.*]] = arith.minui %{{.*}}, %{{.*}} : i32
  // CHECK-NEXT: %[[OPAQUE:.*]] = arith.bitcast %[[LESS]] : i32 to f32
  // CHECK-NEXT: %d = arith.subf %[[OPAQUE]], %one : f32

  // (%d * 1e38) * 10 would overflow if folded, so the inner product is made opaque; %f * 10 and (%g + %a) + %a stay.
  %e = arith.mulf %d, %large : f32
  %f = arith.mulf %e, %ten : f32
  %g = arith.mulf %f, %ten : f32
  %h = arith.addf %g, %a : f32
  %r = arith.addf %h, %a : f32
  // CHECK-NEXT: %e = arith.mulf %d, %large : f32
  // CHECK:      arith.minui
  // CHECK-NEXT: %[[E:.*]] = arith.bitcast
  // CHECK-NEXT: %f = arith.mulf %[[E]], %ten : f32
  // CHECK-NEXT: %g = arith.mulf %f, %ten : f32
  // CHECK-NEXT: %h = arith.addf %g, %a : f32
  // CHECK-NEXT: %r = arith.addf %h, %a : f32
  memref.store %r, %x[%i] : memref<64xf32>
}
