// RUN: not tg-opt %s -p 'expand-math{target=cpu}' 2>&1 | filecheck %s
// CHECK: arith.truncf at {{.*}}: expand-math converts scalars between f32 and bf16, got bf16, f64
cpu.kernel @from_f64 access = ["read", "read_write"] {
^bb0(%x: memref<64xf64>, %y: memref<64xbf16>, %first: index, %last: index):
  %0 = memref.load %x[%first] : memref<64xf64>
  %1 = arith.truncf %0 : f64 to bf16
  memref.store %1, %y[%first] : memref<64xbf16>
}
