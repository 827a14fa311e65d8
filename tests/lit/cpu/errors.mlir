// RUN: tg-opt %s --print-diagnostics --split-input-file | filecheck %s

// CHECK: the last two arguments are the range of tasks, of type index
cpu.kernel @no_range access = ["read"] {
^bb0(%x: memref<64xf32>):
}

// -----

// CHECK: 2 buffers need as many access modes, got 1
cpu.kernel @modes access = ["read"] {
^bb0(%x: memref<64xf32>, %y: memref<64xf32>, %first: index, %last: index):
}

// -----

// CHECK: access must be "read" or "read_write", got "write"
cpu.kernel @mode access = ["write"] {
^bb0(%x: memref<64xf32>, %first: index, %last: index):
}

// -----

// CHECK: buffer 0 must be a static, non-empty 1-D memref, got memref<8x8xf32>
cpu.kernel @shape access = ["read"] {
^bb0(%x: memref<8x8xf32>, %first: index, %last: index):
}

// -----

// CHECK: expected a vector of 4 of i32, got vector<8xi32>
cpu.kernel @lanes access = [] {
^bb0(%first: index, %last: index):
  %sums, %words = "test.op"() : () -> (vector<4xf32>, vector<8xi32>)
  %0 = cpu.dot_pairs %sums, %words, %words : vector<4xf32>, vector<8xi32>
}

// -----

// CHECK: there are vectors of 4, 8 and 16 sums, got vector<2xf32>
cpu.kernel @width access = [] {
^bb0(%first: index, %last: index):
  %sums, %words = "test.op"() : () -> (vector<2xf32>, vector<2xi32>)
  %0 = cpu.dot_pairs %sums, %words, %words : vector<2xf32>, vector<2xi32>
}

// -----

// CHECK: there are no 3 lanes from 2 on in vector<4xf32>
cpu.kernel @beyond access = ["read"] {
^bb0(%x: memref<64xf32>, %first: index, %last: index):
  %0 = cpu.load_lanes %x[%first] first 2 count 3 : memref<64xf32>, vector<4xf32>
}

// -----

// CHECK: lanes are loaded of f32 and f64, got i32
cpu.kernel @integers access = ["read"] {
^bb0(%x: memref<64xi32>, %first: index, %last: index):
  %0 = cpu.load_lanes %x[%first] first 1 count 3 : memref<64xi32>, vector<4xi32>
}

// -----

// CHECK: the elements are i32, those of the vector f32
cpu.kernel @elements access = ["read"] {
^bb0(%x: memref<64xi32>, %first: index, %last: index):
  %0 = cpu.load_lanes %x[%first] first 1 count 3 : memref<64xi32>, vector<4xf32>
}

// -----

// CHECK: buffer 0 is written, but its access is "read"
cpu.kernel @stored access = ["read"] {
^bb0(%x: memref<64xf32>, %first: index, %last: index):
  %v = arith.constant 1.0 : f32
  memref.store %v, %x[%first] : memref<64xf32>
}

// -----

// CHECK: buffer 0 is written, but its access is "read"
cpu.kernel @stored_in_vectors access = ["read"] {
^bb0(%x: memref<64xf32>, %first: index, %last: index):
  %v = arith.constant dense<1.0> : vector<4xf32>
  vector.store %v, %x[%first] : memref<64xf32>, vector<4xf32>
}
