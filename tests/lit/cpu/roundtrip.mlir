// RUN: tg-opt %s | filecheck %s
// RUN: TG_ROUNDTRIP

// CHECK:      cpu.kernel @doubled access = ["read", "read_write"] {
// CHECK-NEXT: ^bb0(%x: memref<64xf32>, %y: memref<64xf32>, %first: index, %last: index):
// CHECK:        scf.for %i = %first to %last step %one {
// CHECK:        } {cpu.parallel}
// CHECK-NEXT: }
cpu.kernel @doubled access = ["read", "read_write"] {
^bb0(%x: memref<64xf32>, %y: memref<64xf32>, %first: index, %last: index):
  %one = arith.constant 1 : index
  scf.for %i = %first to %last step %one {
    %v = memref.load %x[%i] : memref<64xf32>
    %w = arith.addf %v, %v : f32
    memref.store %w, %y[%i] : memref<64xf32>
  } {cpu.parallel}
}
