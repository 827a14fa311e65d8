// RUN: tg-opt %s -p 'expand-math{target=cpu}' | filecheck %s
// RUN: tg-opt %s -p 'expand-math{target=cpu},convert-to-llvm' -t llvm | filecheck %s --check-prefix TEXT

// Remainders of f32 are long divisions in f64, by six digits of the quotient; those of f64 are the C library's.
// CHECK-LABEL: cpu.kernel @remainders
cpu.kernel @remainders access = ["read_write"] {
^bb0(%x: memref<64xf32>, %low: index, %high: index):
  %one = arith.constant 1 : index
  scf.for %i = %low to %high step %one {
    %a = memref.load %x[%i] : memref<64xf32>
    // CHECK: arith.extf %a : f32 to f64
    // CHECK: arith.divf {{.*}} : f64
    // CHECK-COUNT-6: math.floor
    // CHECK-NOT: math.floor
    // CHECK: arith.truncf {{.*}} : f64 to f32
    // CHECK: math.copysign
    // CHECK-NOT: wgsl.remf
    %r = wgsl.remf %a, %a : f32
    memref.store %r, %x[%i] : memref<64xf32>
  }
}
// TEXT-COUNT-6: call double @llvm.fma.f64
