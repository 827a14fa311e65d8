// RUN: tg-opt %s --split-input-file -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu' | filecheck %s

// Rows are read where they lie, columns are packed; what follows the sum runs over the tile in scratch memory.
func.func @product(%x: tensor<4x3xf32>, %w: tensor<3x8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %0 = tg.dot_general %x, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<4x3xf32>, tensor<3x8xf32>
  %1 = tg.broadcast %b shape = [4, 8] dims = [1] : tensor<8xf32>
  %2 = tg.add %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
  func.return %2 : tensor<4x8xf32>
}
// CHECK:      cpu.kernel @packed0 access = ["read", "read", "read", "read_write"] {
// CHECK-NEXT: ^bb0(%0: memref<12xf32>, %1: memref<24xf32>, %2: memref<8xf32>, %3: memref<32xf32>, %4: index, %5: index):
// CHECK-NEXT:   %6 = memref.alloca() : memref<32xf32>
// CHECK-NEXT:   %7 = memref.alloca() : memref<24xf32>
// CHECK-NEXT:   %8 = arith.constant 1 : index
// CHECK-NEXT:   %9 = arith.constant 0 : index
// CHECK-NEXT:   %10 = arith.constant 4 : index
// CHECK-NEXT:   %11 = arith.muli %9, %10 : index
// CHECK-NEXT:   %12 = arith.constant 8 : index
// CHECK-NEXT:   %13 = arith.muli %9, %12 : index
// CHECK-NEXT:   %14 = arith.constant 3 : index
// CHECK-NEXT:   %15 = arith.constant 7 : index
// CHECK-NEXT:   %16 = arith.addi %12, %15 : index
// CHECK-NEXT:   %17 = arith.divui %16, %12 : index
// CHECK-NEXT:   %18 = arith.constant 24 : index
// CHECK-NEXT:   %19 = arith.addi %10, %14 : index
// CHECK-NEXT:   %20 = arith.divui %19, %10 : index
// CHECK-NEXT:   %21 = arith.constant 32 : index
// CHECK-NEXT:   %22 = arith.constant 16 : index
// CHECK-NEXT:   %23 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:   %24 = vector.broadcast %23 : f32 to vector<8xf32>
// CHECK-NEXT:   %25 = arith.constant 2 : index
// CHECK-NEXT:   scf.for %26 = %4 to %5 step %8 {
// CHECK-NEXT:     scf.for %27 = %9 to %17 step %8 {
// CHECK-NEXT:       %28 = arith.muli %27, %12 : index
// CHECK-NEXT:       %29 = arith.muli %27, %18 : index
// CHECK-NEXT:       scf.for %30 = %9 to %14 step %8 {
// CHECK-NEXT:         %31 = arith.addi %9, %30 : index
// CHECK-NEXT:         %32 = arith.muli %31, %12 : index
// CHECK-NEXT:         %33 = arith.muli %30, %12 : index
// CHECK-NEXT:         %34 = arith.addi %29, %33 : index
// CHECK-NEXT:         scf.for %35 = %9 to %12 step %8 {
// CHECK-NEXT:           %36 = arith.addi %28, %35 : index
// CHECK-NEXT:           %37 = arith.addi %13, %36 : index
// CHECK-NEXT:           %38 = arith.addi %37, %32 : index
// CHECK-NEXT:           %39 = memref.load %1[%38] : memref<24xf32>
// CHECK-NEXT:           %40 = arith.addi %34, %35 : index
// CHECK-NEXT:           memref.store %39, %7[%40] : memref<24xf32>
// CHECK-NEXT:         } {cpu.parallel}
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK-NEXT:     scf.for %41 = %9 to %17 step %8 {
// CHECK-NEXT:       %42 = arith.muli %41, %12 : index
// CHECK-NEXT:       %43 = arith.muli %41, %18 : index
// CHECK-NEXT:       scf.for %44 = %9 to %20 step %8 {
// CHECK-NEXT:         %45 = arith.muli %44, %21 : index
// CHECK-NEXT:         %46 = arith.addi %45, %42 : index
// CHECK-NEXT:         %47 = arith.addi %46, %12 : index
// CHECK-NEXT:         %48 = arith.addi %46, %22 : index
// CHECK-NEXT:         %49 = arith.addi %46, %18 : index
// CHECK-NEXT:         %50 = arith.muli %44, %10 : index
// CHECK-NEXT:         %51 = arith.addi %11, %50 : index
// CHECK-NEXT:         %52 = arith.muli %51, %14 : index
// CHECK-NEXT:         %53 = arith.addi %50, %8 : index
// CHECK-NEXT:         %54 = arith.addi %11, %53 : index
// CHECK-NEXT:         %55 = arith.muli %54, %14 : index
// CHECK-NEXT:         %56 = arith.addi %50, %25 : index
// CHECK-NEXT:         %57 = arith.addi %11, %56 : index
// CHECK-NEXT:         %58 = arith.muli %57, %14 : index
// CHECK-NEXT:         %59 = arith.addi %50, %14 : index
// CHECK-NEXT:         %60 = arith.addi %11, %59 : index
// CHECK-NEXT:         %61 = arith.muli %60, %14 : index
// CHECK-NEXT:         %62, %63, %64, %65 = scf.for %66 = %9 to %14 step %8 iter_args(%67 = %24, %68 = %24, %69 = %24, %70 = %24) -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>) {
// CHECK-NEXT:           %71 = arith.muli %66, %12 : index
// CHECK-NEXT:           %72 = arith.addi %43, %71 : index
// CHECK-NEXT:           %73 = vector.load %7[%72] : memref<24xf32>, vector<8xf32>
// CHECK-NEXT:           %74 = arith.addi %9, %66 : index
// CHECK-NEXT:           %75 = arith.addi %52, %74 : index
// CHECK-NEXT:           %76 = memref.load %0[%75] : memref<12xf32>
// CHECK-NEXT:           %77 = vector.broadcast %76 : f32 to vector<8xf32>
// CHECK-NEXT:           %78 = vector.fma %77, %73, %67 : vector<8xf32>
// CHECK-NEXT:           %79 = arith.addi %55, %74 : index
// CHECK-NEXT:           %80 = memref.load %0[%79] : memref<12xf32>
// CHECK-NEXT:           %81 = vector.broadcast %80 : f32 to vector<8xf32>
// CHECK-NEXT:           %82 = vector.fma %81, %73, %68 : vector<8xf32>
// CHECK-NEXT:           %83 = arith.addi %58, %74 : index
// CHECK-NEXT:           %84 = memref.load %0[%83] : memref<12xf32>
// CHECK-NEXT:           %85 = vector.broadcast %84 : f32 to vector<8xf32>
// CHECK-NEXT:           %86 = vector.fma %85, %73, %69 : vector<8xf32>
// CHECK-NEXT:           %87 = arith.addi %61, %74 : index
// CHECK-NEXT:           %88 = memref.load %0[%87] : memref<12xf32>
// CHECK-NEXT:           %89 = vector.broadcast %88 : f32 to vector<8xf32>
// CHECK-NEXT:           %90 = vector.fma %89, %73, %70 : vector<8xf32>
// CHECK-NEXT:           scf.yield %78, %82, %86, %90 : vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         }
// CHECK-NEXT:         vector.store %62, %6[%46] : memref<32xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %63, %6[%47] : memref<32xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %64, %6[%48] : memref<32xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %65, %6[%49] : memref<32xf32>, vector<8xf32>
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK-NEXT:     scf.for %91 = %9 to %10 step %8 {
// CHECK-NEXT:       %92 = arith.muli %91, %12 : index
// CHECK-NEXT:       %93 = arith.addi %11, %91 : index
// CHECK-NEXT:       %94 = arith.muli %93, %12 : index
// CHECK-NEXT:       scf.for %95 = %9 to %12 step %8 {
// CHECK-NEXT:         %96 = arith.addi %92, %95 : index
// CHECK-NEXT:         %97 = arith.addi %13, %95 : index
// CHECK-NEXT:         %98 = memref.load %6[%96] : memref<32xf32>
// CHECK-NEXT:         %99 = memref.load %2[%97] : memref<8xf32>
// CHECK-NEXT:         %100 = arith.addf %98, %99 : f32
// CHECK-NEXT:         %101 = arith.addi %94, %97 : index
// CHECK-NEXT:         memref.store %100, %3[%101] : memref<32xf32>
// CHECK-NEXT:       } {cpu.parallel}
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }
// CHECK: buf.dispatch @packed0 workgroups = [1, 1, 1] attributes {buf.bytes_moved = 304 : i64} (%x, %w, %b, %2) : memref<4x3xf32>, memref<3x8xf32>, memref<8xf32>, memref<4x8xf32>

// -----

// Columns that lie along the reduction: four at a time are packed as they lie, then transposed in registers.
func.func @transposed(%x: tensor<8x8xf32>, %w: tensor<4x8xf32>) -> tensor<8x4xf32> {
  %0 = tg.dot_general %x, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [1] : tensor<8x8xf32>, tensor<4x8xf32>
  func.return %0 : tensor<8x4xf32>
}
// CHECK:      cpu.kernel @packed0 access = ["read", "read", "read_write"] {
// CHECK-NEXT: ^bb0(%0: memref<64xf32>, %1: memref<32xf32>, %2: memref<32xf32>, %3: index, %4: index):
// CHECK-NEXT:   %5 = memref.alloca() : memref<32xf32>
// CHECK-NEXT:   %6 = memref.alloca() : memref<32xf32>
// CHECK-NEXT:   %7 = memref.alloca() : memref<32xf32>
// CHECK-NEXT:   %8 = arith.constant 1 : index
// CHECK-NEXT:   %9 = arith.constant 0 : index
// CHECK-NEXT:   %10 = arith.constant 8 : index
// CHECK-NEXT:   %11 = arith.muli %9, %10 : index
// CHECK-NEXT:   %12 = arith.constant 4 : index
// CHECK-NEXT:   %13 = arith.muli %9, %12 : index
// CHECK-NEXT:   %14 = arith.constant 3 : index
// CHECK-NEXT:   %15 = arith.addi %12, %14 : index
// CHECK-NEXT:   %16 = arith.divui %15, %12 : index
// CHECK-NEXT:   %17 = arith.addi %10, %14 : index
// CHECK-NEXT:   %18 = arith.divui %17, %12 : index
// CHECK-NEXT:   %19 = arith.constant 16 : index
// CHECK-NEXT:   %20 = arith.constant 24 : index
// CHECK-NEXT:   %21 = arith.constant 32 : index
// CHECK-NEXT:   %22 = arith.constant 12 : index
// CHECK-NEXT:   %23 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:   %24 = vector.broadcast %23 : f32 to vector<4xf32>
// CHECK-NEXT:   %25 = arith.constant 2 : index
// CHECK-NEXT:   scf.for %26 = %3 to %4 step %8 {
// CHECK-NEXT:     scf.for %27 = %9 to %16 step %8 {
// CHECK-NEXT:       %28 = arith.muli %27, %12 : index
// CHECK-NEXT:       %29 = arith.muli %27, %21 : index
// CHECK-NEXT:       scf.for %30 = %9 to %8 step %8 {
// CHECK-NEXT:         %31 = arith.muli %30, %12 : index
// CHECK-NEXT:         scf.for %32 = %9 to %12 step %8 {
// CHECK-NEXT:           %33 = arith.addi %32, %31 : index
// CHECK-NEXT:           %34 = arith.addi %28, %33 : index
// CHECK-NEXT:           %35 = arith.addi %13, %34 : index
// CHECK-NEXT:           %36 = arith.muli %32, %10 : index
// CHECK-NEXT:           %37 = arith.muli %35, %10 : index
// CHECK-NEXT:           scf.for %38 = %9 to %10 step %8 {
// CHECK-NEXT:             %39 = arith.addi %9, %38 : index
// CHECK-NEXT:             %40 = arith.addi %37, %39 : index
// CHECK-NEXT:             %41 = memref.load %1[%40] : memref<32xf32>
// CHECK-NEXT:             %42 = arith.addi %36, %38 : index
// CHECK-NEXT:             memref.store %41, %7[%42] : memref<32xf32>
// CHECK-NEXT:           } {cpu.parallel}
// CHECK-NEXT:         }
// CHECK-NEXT:         scf.for %43 = %9 to %18 step %8 {
// CHECK-NEXT:           %44 = arith.muli %43, %12 : index
// CHECK-NEXT:           %45 = vector.load %7[%44] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:           %46 = arith.addi %44, %10 : index
// CHECK-NEXT:           %47 = vector.load %7[%46] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:           %48 = arith.addi %44, %19 : index
// CHECK-NEXT:           %49 = vector.load %7[%48] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:           %50 = arith.addi %44, %20 : index
// CHECK-NEXT:           %51 = vector.load %7[%50] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:           %52 = arith.muli %44, %12 : index
// CHECK-NEXT:           %53 = arith.addi %29, %52 : index
// CHECK-NEXT:           %54 = arith.addi %53, %31 : index
// CHECK-NEXT:           %55 = vector.shuffle %45, %47 [0, 4, 2, 6] : vector<4xf32>, vector<4xf32>
// CHECK-NEXT:           %56 = vector.shuffle %45, %47 [1, 5, 3, 7] : vector<4xf32>, vector<4xf32>
// CHECK-NEXT:           %57 = vector.shuffle %49, %51 [0, 4, 2, 6] : vector<4xf32>, vector<4xf32>
// CHECK-NEXT:           %58 = vector.shuffle %49, %51 [1, 5, 3, 7] : vector<4xf32>, vector<4xf32>
// CHECK-NEXT:           %59 = vector.shuffle %55, %57 [0, 1, 4, 5] : vector<4xf32>, vector<4xf32>
// CHECK-NEXT:           %60 = vector.shuffle %55, %57 [2, 3, 6, 7] : vector<4xf32>, vector<4xf32>
// CHECK-NEXT:           %61 = vector.shuffle %56, %58 [0, 1, 4, 5] : vector<4xf32>, vector<4xf32>
// CHECK-NEXT:           %62 = vector.shuffle %56, %58 [2, 3, 6, 7] : vector<4xf32>, vector<4xf32>
// CHECK-NEXT:           vector.store %59, %6[%54] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:           %63 = arith.addi %54, %12 : index
// CHECK-NEXT:           vector.store %61, %6[%63] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:           %64 = arith.addi %54, %10 : index
// CHECK-NEXT:           vector.store %60, %6[%64] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:           %65 = arith.addi %54, %22 : index
// CHECK-NEXT:           vector.store %62, %6[%65] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:         }
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK-NEXT:     scf.for %66 = %9 to %16 step %8 {
// CHECK-NEXT:       %67 = arith.muli %66, %12 : index
// CHECK-NEXT:       %68 = arith.muli %66, %21 : index
// CHECK-NEXT:       scf.for %69 = %9 to %18 step %8 {
// CHECK-NEXT:         %70 = arith.muli %69, %19 : index
// CHECK-NEXT:         %71 = arith.addi %70, %67 : index
// CHECK-NEXT:         %72 = arith.addi %71, %12 : index
// CHECK-NEXT:         %73 = arith.addi %71, %10 : index
// CHECK-NEXT:         %74 = arith.addi %71, %22 : index
// CHECK-NEXT:         %75 = arith.muli %69, %12 : index
// CHECK-NEXT:         %76 = arith.addi %11, %75 : index
// CHECK-NEXT:         %77 = arith.muli %76, %10 : index
// CHECK-NEXT:         %78 = arith.addi %75, %8 : index
// CHECK-NEXT:         %79 = arith.addi %11, %78 : index
// CHECK-NEXT:         %80 = arith.muli %79, %10 : index
// CHECK-NEXT:         %81 = arith.addi %75, %25 : index
// CHECK-NEXT:         %82 = arith.addi %11, %81 : index
// CHECK-NEXT:         %83 = arith.muli %82, %10 : index
// CHECK-NEXT:         %84 = arith.addi %75, %14 : index
// CHECK-NEXT:         %85 = arith.addi %11, %84 : index
// CHECK-NEXT:         %86 = arith.muli %85, %10 : index
// CHECK-NEXT:         %87, %88, %89, %90 = scf.for %91 = %9 to %10 step %8 iter_args(%92 = %24, %93 = %24, %94 = %24, %95 = %24) -> (vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>) {
// CHECK-NEXT:           %96 = arith.muli %91, %12 : index
// CHECK-NEXT:           %97 = arith.addi %68, %96 : index
// CHECK-NEXT:           %98 = vector.load %6[%97] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:           %99 = arith.addi %9, %91 : index
// CHECK-NEXT:           %100 = arith.addi %77, %99 : index
// CHECK-NEXT:           %101 = memref.load %0[%100] : memref<64xf32>
// CHECK-NEXT:           %102 = vector.broadcast %101 : f32 to vector<4xf32>
// CHECK-NEXT:           %103 = vector.fma %102, %98, %92 : vector<4xf32>
// CHECK-NEXT:           %104 = arith.addi %80, %99 : index
// CHECK-NEXT:           %105 = memref.load %0[%104] : memref<64xf32>
// CHECK-NEXT:           %106 = vector.broadcast %105 : f32 to vector<4xf32>
// CHECK-NEXT:           %107 = vector.fma %106, %98, %93 : vector<4xf32>
// CHECK-NEXT:           %108 = arith.addi %83, %99 : index
// CHECK-NEXT:           %109 = memref.load %0[%108] : memref<64xf32>
// CHECK-NEXT:           %110 = vector.broadcast %109 : f32 to vector<4xf32>
// CHECK-NEXT:           %111 = vector.fma %110, %98, %94 : vector<4xf32>
// CHECK-NEXT:           %112 = arith.addi %86, %99 : index
// CHECK-NEXT:           %113 = memref.load %0[%112] : memref<64xf32>
// CHECK-NEXT:           %114 = vector.broadcast %113 : f32 to vector<4xf32>
// CHECK-NEXT:           %115 = vector.fma %114, %98, %95 : vector<4xf32>
// CHECK-NEXT:           scf.yield %103, %107, %111, %115 : vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>
// CHECK-NEXT:         }
// CHECK-NEXT:         vector.store %87, %5[%71] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:         vector.store %88, %5[%72] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:         vector.store %89, %5[%73] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:         vector.store %90, %5[%74] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK-NEXT:     scf.for %116 = %9 to %10 step %8 {
// CHECK-NEXT:       %117 = arith.muli %116, %12 : index
// CHECK-NEXT:       %118 = arith.addi %11, %116 : index
// CHECK-NEXT:       %119 = arith.muli %118, %12 : index
// CHECK-NEXT:       scf.for %120 = %9 to %12 step %8 {
// CHECK-NEXT:         %121 = arith.addi %117, %120 : index
// CHECK-NEXT:         %122 = arith.addi %13, %120 : index
// CHECK-NEXT:         %123 = memref.load %5[%121] : memref<32xf32>
// CHECK-NEXT:         %124 = arith.addi %119, %122 : index
// CHECK-NEXT:         memref.store %123, %2[%124] : memref<32xf32>
// CHECK-NEXT:       } {cpu.parallel}
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }
