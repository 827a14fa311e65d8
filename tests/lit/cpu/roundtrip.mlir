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

// CHECK:      cpu.kernel @pairs
// CHECK:        cpu.prefetch %x[%last] : memref<64xf32>
// CHECK:        %lanes = cpu.load_lanes %x[%first] first 1 count 3 : memref<64xf32>, vector<4xf32>
// CHECK:        %word = cpu.pair %v, %w
// CHECK:        %both = cpu.pair_neighbours %before, %before : vector<4xf32>, vector<4xi32>
// CHECK:        %sums = cpu.dot_pairs %before, %words, %words : vector<4xf32>, vector<4xi32>
cpu.kernel @pairs access = ["read_write", "read_write"] {
^bb0(%x: memref<64xf32>, %y: memref<64xi32>, %first: index, %last: index):
  %v = memref.load %x[%first] : memref<64xf32>
  %w = memref.load %x[%last] : memref<64xf32>
  cpu.prefetch %x[%last] : memref<64xf32>
  %lanes = cpu.load_lanes %x[%first] first 1 count 3 : memref<64xf32>, vector<4xf32>
  %word = cpu.pair %v, %w
  memref.store %word, %y[%first] : memref<64xi32>
  %before = vector.load %x[%first] : memref<64xf32>, vector<4xf32>
  %words = vector.load %y[%first] : memref<64xi32>, vector<4xi32>
  %both = cpu.pair_neighbours %before, %before : vector<4xf32>, vector<4xi32>
  %sums = cpu.dot_pairs %before, %words, %words : vector<4xf32>, vector<4xi32>
  vector.store %sums, %x[%first] : memref<64xf32>, vector<4xf32>
}
