// RUN: tg-opt %s -t wgsl | filecheck %s
// RUN: not tg-opt %s -t 'wgsl{dialect=standard}' 2>&1 | filecheck %s --check-prefix STANDARD

// Naga has integers of 64 bits, which WGSL lacks.
// CHECK: var<storage, read_write> b0: array<i64, 4>;
// STANDARD: tg-opt: error: wgsl.kernel at {{.*}}integers-of-64-bits.mlir:{{[0-9]+}}: uses integers of 64 bits, which the target lacks
wgsl.kernel @k workgroup_size = [1, 1, 1] access = ["read_write"] {
^bb0(%b: memref<4xi64>):
  %0 = arith.constant 1 : index
  %1 = memref.load %b[%0] : memref<4xi64>
  %2 = arith.addi %1, %1 : i64
  memref.store %2, %b[%0] : memref<4xi64>
}
