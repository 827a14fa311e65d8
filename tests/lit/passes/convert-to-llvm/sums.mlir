// RUN: tg-opt %s -p convert-to-llvm | filecheck %s

// An index with other uses than addresses is still computed (%at). One without (%behind) becomes a chain of address
// computations, which a load and a store share. An index that is an induction variable (%j) is used directly.
cpu.kernel @both access = ["read_write", "read_write"] {
^bb0(%x: memref<64xf32>, %y: memref<64xi32>, %first: index, %last: index):
  %one = arith.constant 1 : index
  scf.for %i = %first to %last step %one {
    scf.for %j = %first to %last step %one {
      %at = arith.addi %i, %j : index
      %behind = arith.addi %at, %one : index
      %v = memref.load %x[%at] : memref<64xf32>
      %w = memref.load %x[%behind] : memref<64xf32>
      %sum = arith.addf %v, %w : f32
      memref.store %sum, %x[%behind] : memref<64xf32>
      %number = arith.index_cast %at : index to i32
      memref.store %number, %y[%j] : memref<64xi32>
    }
  }
}
// CHECK:      ^bb4:
// CHECK-NEXT:   %10 = llvm.add %6, %8 : i64
// CHECK-NEXT:   %11 = llvm.getelementptr %0[%6] : (!llvm.ptr, i64) -> !llvm.ptr, f32
// CHECK-NEXT:   %12 = llvm.getelementptr %11[%8] : (!llvm.ptr, i64) -> !llvm.ptr, f32
// CHECK-NEXT:   %13 = llvm.load %12 {alignment = 4 : i64} : !llvm.ptr -> f32
// CHECK-NEXT:   %14 = llvm.getelementptr %12[%5] : (!llvm.ptr, i64) -> !llvm.ptr, f32
// CHECK-NEXT:   %15 = llvm.load %14 {alignment = 4 : i64} : !llvm.ptr -> f32
// CHECK-NEXT:   %16 = llvm.fadd %13, %15 : f32
// CHECK-NEXT:   llvm.store %16, %14 {alignment = 4 : i64} : f32, !llvm.ptr
// CHECK-NEXT:   %17 = llvm.trunc %10 : i64 to i32
// CHECK-NEXT:   %18 = llvm.getelementptr inbounds %1[%8] : (!llvm.ptr, i64) -> !llvm.ptr, i32
// CHECK-NEXT:   llvm.store %17, %18 {alignment = 4 : i64} : i32, !llvm.ptr
// CHECK-NEXT:   %19 = llvm.add %8, %5 overflow<nsw> : i64
