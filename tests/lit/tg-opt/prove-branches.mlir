// RUN: tg-opt --prove --split-input-file %s -o %t 2>&1 | filecheck %s

// By data, one of two loops stores a line: either stores all of it.
// CHECK: kernel  dialect  grid   bounds  races   barriers  results
// CHECK-NEXT: gather  cpu      1x1x1  proved  proved  proved    proved
cpu.kernel @gather access = ["read", "read", "read_write"] {
^bb0(%at: memref<3xi32>, %x: memref<15xf32>, %y: memref<9xf32>, %first: index, %last: index):
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %three = arith.constant 3 : index
  %rows = arith.constant 5 : i32
  %nothing = arith.constant 0.0 : f32
  scf.for %task = %first to %last step %one {
    scf.for %i = %zero to %three step %one {
      %index = memref.load %at[%i] : memref<3xi32>
      %inside = arith.cmpi ult, %index, %rows : i32
      %to = arith.muli %i, %three : index
      scf.if %inside {
        %row = arith.index_cast %index : i32 to index
        %from = arith.muli %row, %three : index
        scf.for %j = %zero to %three step %one {
          %source = arith.addi %from, %j : index
          %v = memref.load %x[%source] : memref<15xf32>
          %target = arith.addi %to, %j : index
          memref.store %v, %y[%target] : memref<9xf32>
        }
      } else {
        scf.for %k = %zero to %three step %one {
          %target = arith.addi %to, %k : index
          memref.store %nothing, %y[%target] : memref<9xf32>
        }
      }
    }
  }
}
func.func @gathers() {
  %0 = buf.arena "arena" role = "workspace" : memref<1024xi8>
  %at = buf.view %0[0] : memref<1024xi8> to memref<3xi32>
  %x = buf.view %0[256] : memref<1024xi8> to memref<15xf32>
  %y = buf.view %0[512] : memref<1024xi8> to memref<9xf32>
  buf.dispatch @gather workgroups = [1, 1, 1] (%at, %x, %y) : memref<3xi32>, memref<15xf32>, memref<9xf32>
  func.return
}

// -----

// The one loop leaves the last element of each line out.
// CHECK: shorter  cpu      1x1x1  proved  proved  proved    unknown
// CHECK-NEXT: shorter: results unknown: binding 1: whether it is stored depends on data
cpu.kernel @shorter access = ["read", "read_write"] {
^bb0(%at: memref<3xi32>, %y: memref<9xf32>, %first: index, %last: index):
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %three = arith.constant 3 : index
  %none = arith.constant 0 : i32
  %nothing = arith.constant 0.0 : f32
  scf.for %task = %first to %last step %one {
    scf.for %i = %zero to %three step %one {
      %index = memref.load %at[%i] : memref<3xi32>
      %chosen = arith.cmpi eq, %index, %none : i32
      %to = arith.muli %i, %three : index
      scf.if %chosen {
        scf.for %j = %zero to %three step %one {
          %target = arith.addi %to, %j : index
          memref.store %nothing, %y[%target] : memref<9xf32>
        }
      } else {
        scf.for %k = %zero to %two step %one {
          %target = arith.addi %to, %k : index
          memref.store %nothing, %y[%target] : memref<9xf32>
        }
      }
    }
  }
}
func.func @shorters() {
  %0 = buf.arena "arena" role = "workspace" : memref<1024xi8>
  %at = buf.view %0[0] : memref<1024xi8> to memref<3xi32>
  %y = buf.view %0[512] : memref<1024xi8> to memref<9xf32>
  buf.dispatch @shorter workgroups = [1, 1, 1] (%at, %y) : memref<3xi32>, memref<9xf32>
  func.return
}
