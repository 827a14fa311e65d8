// RUN: tg-opt %s --split-input-file --print-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: workgroup_size must be three positive extents, got [64, 0, 1]
wgsl.kernel @k workgroup_size = [64, 0, 1] access = ["read_write"] {
^bb0(%x: memref<64xf32>):
}

// -----

// CHECK: workgroup_size must be three positive extents, got [64]
wgsl.kernel @k workgroup_size = [64] access = ["read_write"] {
^bb0(%x: memref<64xf32>):
}

// -----

// CHECK: 1 bindings need as many access modes, got 2
wgsl.kernel @k workgroup_size = [64, 1, 1] access = ["read", "read"] {
^bb0(%x: memref<64xf32>):
}

// -----

// CHECK: access must be "read" or "read_write", got "write"
wgsl.kernel @k workgroup_size = [64, 1, 1] access = ["write"] {
^bb0(%x: memref<64xf32>):
}

// -----

// CHECK: binding 0 must be a memref, got f32
wgsl.kernel @k workgroup_size = [64, 1, 1] access = ["read_write"] {
^bb0(%x: f32):
}

// -----

// CHECK: binding 0 must be a static, non-empty 1-D memref, got memref<8x8xf32>
wgsl.kernel @k workgroup_size = [64, 1, 1] access = ["read_write"] {
^bb0(%x: memref<8x8xf32>):
}

// -----

// CHECK: binding 0 must hold one of f32, f16, i32, i64, i1, vector<4xf32>, got f64
wgsl.kernel @k workgroup_size = [64, 1, 1] access = ["read_write"] {
^bb0(%x: memref<8xf64>):
}

// -----

// CHECK: binding 0 must have no layout and no memory space, got memref<8xf32, strided<[2]>>
wgsl.kernel @k workgroup_size = [64, 1, 1] access = ["read_write"] {
^bb0(%x: memref<8xf32, strided<[2]>>):
}

// -----

// CHECK: wgsl.barrier after wgsl.return_if: not every invocation would reach it
wgsl.kernel @k workgroup_size = [64, 1, 1] access = ["read_write"] {
^bb0(%x: memref<64xf32>):
  %c = arith.constant true
  wgsl.return_if %c
  wgsl.barrier
}

// -----

// CHECK: wgsl.subgroup_reduce after wgsl.return_if: not every invocation would reach it
wgsl.kernel @k workgroup_size = [64, 1, 1] access = ["read_write"] {
^bb0(%x: memref<64xf32>):
  %c = arith.constant true
  %v = arith.constant 1.0 : f32
  wgsl.return_if %c
  %s = wgsl.subgroup_reduce "add" %v : f32
}

// -----

// CHECK: dim must be 0, 1 or 2, got 3
wgsl.kernel @k workgroup_size = [64, 1, 1] access = ["read_write"] {
^bb0(%x: memref<64xf32>):
  %i = wgsl.global_id dim = 3
}

// -----

// CHECK: workgroup memory must be a static, non-empty 1-D memref, got memref<4x4xf32>
wgsl.kernel @k workgroup_size = [64, 1, 1] access = ["read_write"] {
^bb0(%x: memref<64xf32>):
  %t = wgsl.workgroup_alloc : memref<4x4xf32>
}

// -----

// CHECK: 'wgsl.workgroup_alloc' expects parent op 'wgsl.kernel'
wgsl.kernel @k workgroup_size = [64, 1, 1] access = ["read_write"] {
^bb0(%x: memref<64xf32>):
  %c = arith.constant true
  scf.if %c {
    %t = wgsl.workgroup_alloc : memref<16xf32>
  }
}

// -----

// CHECK: 'wgsl.return_if' expects parent op 'wgsl.kernel'
wgsl.kernel @k workgroup_size = [64, 1, 1] access = ["read_write"] {
^bb0(%x: memref<64xf32>):
  %c = arith.constant true
  scf.if %c {
    wgsl.return_if %c
  }
}

// -----

// CHECK: lane must be in [0, 128), got 128
wgsl.kernel @k workgroup_size = [64, 1, 1] access = ["read_write"] {
^bb0(%x: memref<64xf32>):
  %v = arith.constant 1.0 : f32
  %b = wgsl.subgroup_broadcast %v, 128 : f32
}

// -----

// CHECK: mask must be in [1, 128), got 0
wgsl.kernel @k workgroup_size = [64, 1, 1] access = ["read_write"] {
^bb0(%x: memref<64xf32>):
  %v = arith.constant 1.0 : f32
  %b = wgsl.subgroup_shuffle_xor %v, 0 : f32
}

// -----

// CHECK: kind must be "add", "max" or "min", got "mul"
wgsl.kernel @k workgroup_size = [64, 1, 1] access = ["read_write"] {
^bb0(%x: memref<64xf32>):
  %v = arith.constant 1.0 : f32
  %s = wgsl.subgroup_reduce "mul" %v : f32
}

// -----

// CHECK: Expected one of f16, f32, f64, but got i32
wgsl.kernel @k workgroup_size = [64, 1, 1] access = ["read_write"] {
^bb0(%x: memref<64xf32>):
  %v = arith.constant 1 : i32
  %r = wgsl.remf %v, %v : i32
}

// -----

// CHECK: buffer 1 is written, but its access is "read"
wgsl.kernel @k workgroup_size = [64, 1, 1] access = ["read_write", "read"] {
^bb0(%x: memref<64xf32>, %y: memref<64xf32>):
  %i = wgsl.local_index
  %v = memref.load %x[%i] : memref<64xf32>
  %c = arith.constant true
  scf.if %c {
    memref.store %v, %y[%i] : memref<64xf32>
  }
}
