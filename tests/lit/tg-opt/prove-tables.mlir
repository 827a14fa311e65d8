// RUN: not tg-opt --prove --split-input-file %s -o %t 2>&1 | filecheck %s

// A table holds the places 0, 2, .. 14, all of them stored before one is read.
// CHECK: kernel  dialect  grid   bounds  races   barriers  results
// CHECK-NEXT: whole   cpu      1x1x1  proved  proved  proved    proved
cpu.kernel @whole access = ["read", "read_write"] {
^bb0(%x: memref<16xf32>, %y: memref<8xf32>, %first: index, %last: index):
  %table = memref.alloca() : memref<8xi32>
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %count = arith.constant 8 : index
  scf.for %task = %first to %last step %one {
    scf.for %i = %zero to %count step %one {
      %twice = arith.muli %i, %two : index
      %entry = arith.index_cast %twice : index to i32
      memref.store %entry, %table[%i] : memref<8xi32>
    }
    scf.for %j = %zero to %count step %one {
      %entry = memref.load %table[%j] {cpu.below = 15 : i32} : memref<8xi32>
      %place = arith.index_cast %entry : i32 to index
      %v = memref.load %x[%place] : memref<16xf32>
      memref.store %v, %y[%j] : memref<8xf32>
    }
  }
}
func.func @wholes() {
  %0 = buf.arena "arena" role = "workspace" : memref<1024xi8>
  %x = buf.view %0[0] : memref<1024xi8> to memref<16xf32>
  %y = buf.view %0[512] : memref<1024xi8> to memref<8xf32>
  buf.dispatch @whole workgroups = [1, 1, 1] (%x, %y) : memref<16xf32>, memref<8xf32>
  func.return
}

// -----

// The last entry is not stored.
// CHECK: partly  cpu      1x1x1  refuted by z3  proved  proved    proved
// CHECK-NEXT: partly: bounds refuted: memref.load ({{.*}}mlir:{{[0-9]+}}) may read what is not stored: turn#{{[0-9]+}} = 7
cpu.kernel @partly access = ["read", "read_write"] {
^bb0(%x: memref<16xf32>, %y: memref<8xf32>, %first: index, %last: index):
  %table = memref.alloca() : memref<8xi32>
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %fewer = arith.constant 7 : index
  %count = arith.constant 8 : index
  scf.for %task = %first to %last step %one {
    scf.for %i = %zero to %fewer step %one {
      %entry = arith.index_cast %i : index to i32
      memref.store %entry, %table[%i] : memref<8xi32>
    }
    scf.for %j = %zero to %count step %one {
      %entry = memref.load %table[%j] : memref<8xi32>
      %place = arith.index_cast %entry : i32 to index
      %v = memref.load %x[%place] : memref<16xf32>
      memref.store %v, %y[%j] : memref<8xf32>
    }
  }
}
func.func @partlies() {
  %0 = buf.arena "arena" role = "workspace" : memref<1024xi8>
  %x = buf.view %0[0] : memref<1024xi8> to memref<16xf32>
  %y = buf.view %0[512] : memref<1024xi8> to memref<8xf32>
  buf.dispatch @partly workgroups = [1, 1, 1] (%x, %y) : memref<16xf32>, memref<8xf32>
  func.return
}

// -----

// Entries of even numbers are kept, as many as the first loop has counted; they are not all below what is claimed.
// CHECK: kept    cpu      1x1x1  unknown  proved  proved    unknown
// CHECK-NEXT: kept: bounds unknown: memref.load ({{.*}}mlir:{{[0-9]+}}) may read what is not below 6: it depends on data, carried#{{[0-9]+}}, load#{{[0-9]+}}{{$}}
cpu.kernel @kept access = ["read", "read_write"] {
^bb0(%x: memref<8xf32>, %y: memref<8xf32>, %first: index, %last: index):
  %table = memref.alloca() : memref<8xi32>
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %count = arith.constant 8 : index
  scf.for %task = %first to %last step %one {
    %kept = scf.for %i = %zero to %count step %one iter_args(%at = %zero) -> (index) {
      %entry = arith.index_cast %i : index to i32
      memref.store %entry, %table[%at] : memref<8xi32>
      %rest = arith.remui %i, %two : index
      %even = arith.cmpi eq, %rest, %zero : index
      %more = arith.addi %at, %one : index
      %next = arith.select %even, %more, %at : index
      scf.yield %next : index
    }
    scf.for %j = %zero to %kept step %one {
      %entry = memref.load %table[%j] {cpu.below = 6 : i32} : memref<8xi32>
      %place = arith.index_cast %entry : i32 to index
      %v = memref.load %x[%place] : memref<8xf32>
      memref.store %v, %y[%j] : memref<8xf32>
    }
  }
}
func.func @kepts() {
  %0 = buf.arena "arena" role = "workspace" : memref<1024xi8>
  %x = buf.view %0[0] : memref<1024xi8> to memref<8xf32>
  %y = buf.view %0[512] : memref<1024xi8> to memref<8xf32>
  buf.dispatch @kept workgroups = [1, 1, 1] (%x, %y) : memref<8xf32>, memref<8xf32>
  func.return
}

// -----

// A loop stores six entries, and what is behind it the others: the remainder of a vector.
// CHECK: cut     cpu      1x1x1  proved  proved  proved    proved
cpu.kernel @cut access = ["read", "read_write"] {
^bb0(%x: memref<16xf32>, %y: memref<8xf32>, %first: index, %last: index):
  %table = memref.alloca() : memref<8xi32>
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %six = arith.constant 6 : index
  %seven = arith.constant 7 : index
  %count = arith.constant 8 : index
  %entry = arith.constant 5 : i32
  scf.for %task = %first to %last step %one {
    scf.for %i = %zero to %six step %one {
      memref.store %entry, %table[%i] : memref<8xi32>
    }
    memref.store %entry, %table[%six] : memref<8xi32>
    memref.store %entry, %table[%seven] : memref<8xi32>
    scf.for %j = %zero to %count step %one {
      %held = memref.load %table[%j] : memref<8xi32>
      %place = arith.index_cast %held : i32 to index
      %v = memref.load %x[%place] : memref<16xf32>
      memref.store %v, %y[%j] : memref<8xf32>
    }
  }
}
func.func @cut_all() {
  %0 = buf.arena "arena" role = "workspace" : memref<1024xi8>
  %x = buf.view %0[0] : memref<1024xi8> to memref<16xf32>
  %y = buf.view %0[512] : memref<1024xi8> to memref<8xf32>
  buf.dispatch @cut workgroups = [1, 1, 1] (%x, %y) : memref<16xf32>, memref<8xf32>
  func.return
}

// -----

// One entry is missing between these; whether that one is read is not asked.
// CHECK: hole    cpu      1x1x1  unknown  proved  proved    proved
// CHECK-NEXT: hole: bounds unknown: memref.load ({{.*}}mlir:{{[0-9]+}}) may read what is not stored{{$}}
cpu.kernel @hole access = ["read", "read_write"] {
^bb0(%x: memref<16xf32>, %y: memref<8xf32>, %first: index, %last: index):
  %table = memref.alloca() : memref<8xi32>
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %six = arith.constant 6 : index
  %seven = arith.constant 7 : index
  %count = arith.constant 8 : index
  %entry = arith.constant 5 : i32
  scf.for %task = %first to %last step %one {
    scf.for %i = %zero to %six step %one {
      memref.store %entry, %table[%i] : memref<8xi32>
    }
    memref.store %entry, %table[%seven] : memref<8xi32>
    scf.for %j = %zero to %count step %one {
      %held = memref.load %table[%j] : memref<8xi32>
      %place = arith.index_cast %held : i32 to index
      %v = memref.load %x[%place] : memref<16xf32>
      memref.store %v, %y[%j] : memref<8xf32>
    }
  }
}
func.func @hole_all() {
  %0 = buf.arena "arena" role = "workspace" : memref<1024xi8>
  %x = buf.view %0[0] : memref<1024xi8> to memref<16xf32>
  %y = buf.view %0[512] : memref<1024xi8> to memref<8xf32>
  buf.dispatch @hole workgroups = [1, 1, 1] (%x, %y) : memref<16xf32>, memref<8xf32>
  func.return
}

// -----

// That two loops fill a table isn't followed, but refutes nothing.
// CHECK: halves  cpu      1x1x1  unknown  proved  proved    proved
// CHECK-NEXT: halves: bounds unknown: memref.load ({{.*}}mlir:{{[0-9]+}}) may read what is not stored{{$}}
cpu.kernel @halves access = ["read", "read_write"] {
^bb0(%x: memref<16xf32>, %y: memref<8xf32>, %first: index, %last: index):
  %table = memref.alloca() : memref<8xi32>
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %six = arith.constant 6 : index
  %seven = arith.constant 7 : index
  %count = arith.constant 8 : index
  %entry = arith.constant 5 : i32
  scf.for %task = %first to %last step %one {
    scf.for %i = %zero to %six step %one {
      memref.store %entry, %table[%i] : memref<8xi32>
    }
    scf.for %i = %six to %count step %one {
      memref.store %entry, %table[%i] : memref<8xi32>
    }
    scf.for %j = %zero to %count step %one {
      %held = memref.load %table[%j] : memref<8xi32>
      %place = arith.index_cast %held : i32 to index
      %v = memref.load %x[%place] : memref<16xf32>
      memref.store %v, %y[%j] : memref<8xf32>
    }
  }
}
func.func @halves_all() {
  %0 = buf.arena "arena" role = "workspace" : memref<1024xi8>
  %x = buf.view %0[0] : memref<1024xi8> to memref<16xf32>
  %y = buf.view %0[512] : memref<1024xi8> to memref<8xf32>
  buf.dispatch @halves workgroups = [1, 1, 1] (%x, %y) : memref<16xf32>, memref<8xf32>
  func.return
}
