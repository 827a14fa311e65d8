// RUN: tg-opt %s -p 'convert-to-llvm' | filecheck %s
// RUN: tg-opt %s -p 'convert-to-llvm' -t llvm | filecheck %s --check-prefix=LLVM

// LLVM is told that a loop has fewer iterations than the 32 it assumes: exactly six, or at most four. It isn't told of
// the tasks, whose number is not known here, nor of a parallel loop whose number is not exact.
cpu.kernel @few access = ["read", "read_write"] {
^bb0(%x: memref<64xf32>, %y: memref<64xf32>, %first: index, %last: index):
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %four = arith.constant 4 : index
  %six = arith.constant 6 : index
  scf.for %task = %first to %last step %one {
    %count = arith.minui %task, %four : index
    scf.for %i = %zero to %six step %one {
      scf.for %j = %zero to %count step %one {
        %v = memref.load %x[%j] : memref<64xf32>
        memref.store %v, %y[%i] : memref<64xf32>
      }
    }
    scf.for %i = %zero to %count step %one {
      %v = memref.load %x[%i] : memref<64xf32>
      memref.store %v, %y[%i] : memref<64xf32>
    } {cpu.parallel}
  }
}
// CHECK:     llvm.cond_br %{{[0-9]+}}, ^bb2, ^bb12
// CHECK:     llvm.cond_br %{{[0-9]+}}, ^bb4, ^bb8 {cpu.iterations = 6 : i64}
// CHECK:     llvm.cond_br %{{[0-9]+}}, ^bb6, ^bb7 {cpu.iterations = 4 : i64}
// CHECK:     llvm.cond_br %{{[0-9]+}}, ^bb10, ^bb11{{$}}

// LLVM: br i1 %{{[0-9]+}}, label %b2, label %b12{{$}}
// LLVM: br i1 %{{[0-9]+}}, label %b4, label %b8, !prof !{!"branch_weights", i32 6, i32 1}
// LLVM: br i1 %{{[0-9]+}}, label %b6, label %b7, !prof !{!"branch_weights", i32 4, i32 1}
// LLVM: br i1 %{{[0-9]+}}, label %b10, label %b11{{$}}
