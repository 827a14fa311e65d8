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
// CHECK-NEXT:   %7 = arith.constant 1 : index
// CHECK-NEXT:   %8 = arith.constant 0 : index
// CHECK-NEXT:   %9 = arith.constant 4 : index
// CHECK-NEXT:   %10 = arith.muli %8, %9 : index
// CHECK-NEXT:   %11 = arith.constant 8 : index
// CHECK-NEXT:   %12 = arith.muli %8, %11 : index
// CHECK-NEXT:   %13 = arith.constant 3 : index
// CHECK-NEXT:   %14 = arith.addi %9, %13 : index
// CHECK-NEXT:   %15 = arith.divui %14, %9 : index
// CHECK-NEXT:   %16 = arith.divui %11, %11 : index
// CHECK-NEXT:   %17 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:   %18 = vector.broadcast %17 : f32 to vector<8xf32>
// CHECK-NEXT:   %19 = arith.constant 2 : index
// CHECK-NEXT:   %20 = arith.constant 32 : index
// CHECK-NEXT:   %21 = arith.muli %8, %20 : index
// CHECK-NEXT:   %22 = arith.constant 16 : index
// CHECK-NEXT:   %23 = arith.constant 24 : index
// CHECK-NEXT:   scf.for %24 = %4 to %5 step %7 {
// CHECK-NEXT:     scf.for %25 = %8 to %15 step %7 {
// CHECK-NEXT:       %26 = arith.muli %25, %9 : index
// CHECK-NEXT:       %27 = arith.addi %10, %26 : index
// CHECK-NEXT:       %28 = arith.addi %26, %7 : index
// CHECK-NEXT:       %29 = arith.addi %10, %28 : index
// CHECK-NEXT:       %30 = arith.addi %26, %19 : index
// CHECK-NEXT:       %31 = arith.addi %10, %30 : index
// CHECK-NEXT:       %32 = arith.addi %26, %13 : index
// CHECK-NEXT:       %33 = arith.addi %10, %32 : index
// CHECK-NEXT:       %34 = arith.muli %27, %13 : index
// CHECK-NEXT:       %35 = arith.muli %29, %13 : index
// CHECK-NEXT:       %36 = arith.muli %31, %13 : index
// CHECK-NEXT:       %37 = arith.muli %33, %13 : index
// CHECK-NEXT:       scf.for %38 = %8 to %16 step %7 {
// CHECK-NEXT:         %39 = arith.muli %38, %11 : index
// CHECK-NEXT:         %40 = arith.addi %12, %39 : index
// CHECK-NEXT:         %41, %42, %43, %44 = scf.for %45 = %8 to %13 step %7 iter_args(%46 = %18, %47 = %18, %48 = %18, %49 = %18) -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>) {
// CHECK-NEXT:           %50 = arith.addi %8, %45 : index
// CHECK-NEXT:           %51 = arith.muli %50, %11 : index
// CHECK-NEXT:           %52 = arith.addi %40, %51 : index
// CHECK-NEXT:           %53 = vector.load %1[%52] : memref<24xf32>, vector<8xf32>
// CHECK-NEXT:           %54 = arith.addi %34, %50 : index
// CHECK-NEXT:           %55 = memref.load %0[%54] : memref<12xf32>
// CHECK-NEXT:           %56 = vector.broadcast %55 : f32 to vector<8xf32>
// CHECK-NEXT:           %57 = vector.fma %56, %53, %46 : vector<8xf32>
// CHECK-NEXT:           %58 = arith.addi %35, %50 : index
// CHECK-NEXT:           %59 = memref.load %0[%58] : memref<12xf32>
// CHECK-NEXT:           %60 = vector.broadcast %59 : f32 to vector<8xf32>
// CHECK-NEXT:           %61 = vector.fma %60, %53, %47 : vector<8xf32>
// CHECK-NEXT:           %62 = arith.addi %36, %50 : index
// CHECK-NEXT:           %63 = memref.load %0[%62] : memref<12xf32>
// CHECK-NEXT:           %64 = vector.broadcast %63 : f32 to vector<8xf32>
// CHECK-NEXT:           %65 = vector.fma %64, %53, %48 : vector<8xf32>
// CHECK-NEXT:           %66 = arith.addi %37, %50 : index
// CHECK-NEXT:           %67 = memref.load %0[%66] : memref<12xf32>
// CHECK-NEXT:           %68 = vector.broadcast %67 : f32 to vector<8xf32>
// CHECK-NEXT:           %69 = vector.fma %68, %53, %49 : vector<8xf32>
// CHECK-NEXT:           scf.yield %57, %61, %65, %69 : vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         }
// CHECK-NEXT:         %70 = arith.addi %21, %39 : index
// CHECK-NEXT:         %71 = arith.addi %70, %11 : index
// CHECK-NEXT:         %72 = arith.addi %70, %22 : index
// CHECK-NEXT:         %73 = arith.addi %70, %23 : index
// CHECK-NEXT:         vector.store %41, %6[%70] : memref<32xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %42, %6[%71] : memref<32xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %43, %6[%72] : memref<32xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %44, %6[%73] : memref<32xf32>, vector<8xf32>
// CHECK-NEXT:       }
// CHECK-NEXT:       scf.for %74 = %8 to %9 step %7 {
// CHECK-NEXT:         %75 = arith.addi %26, %74 : index
// CHECK-NEXT:         %76 = arith.addi %10, %75 : index
// CHECK-NEXT:         %77 = arith.muli %74, %11 : index
// CHECK-NEXT:         %78 = arith.addi %21, %77 : index
// CHECK-NEXT:         %79 = arith.muli %76, %11 : index
// CHECK-NEXT:         scf.for %80 = %8 to %11 step %7 {
// CHECK-NEXT:           %81 = arith.addi %12, %80 : index
// CHECK-NEXT:           %82 = arith.addi %78, %80 : index
// CHECK-NEXT:           %83 = memref.load %6[%82] : memref<32xf32>
// CHECK-NEXT:           %84 = memref.load %2[%81] : memref<8xf32>
// CHECK-NEXT:           %85 = arith.addf %83, %84 : f32
// CHECK-NEXT:           %86 = arith.addi %79, %81 : index
// CHECK-NEXT:           memref.store %85, %3[%86] : memref<32xf32>
// CHECK-NEXT:         } {cpu.parallel}
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }
// CHECK: buf.dispatch @packed0 workgroups = [1, 1, 1] attributes {buf.bytes_moved = 304 : i64, buf.flops = {{[0-9]+}} : i64} (%x, %w, %b, %2) : memref<4x3xf32>, memref<3x8xf32>, memref<8xf32>, memref<4x8xf32>

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
// CHECK-NEXT:   %7 = arith.constant 1 : index
// CHECK-NEXT:   %8 = arith.constant 0 : index
// CHECK-NEXT:   %9 = arith.constant 8 : index
// CHECK-NEXT:   %10 = arith.muli %8, %9 : index
// CHECK-NEXT:   %11 = arith.constant 4 : index
// CHECK-NEXT:   %12 = arith.muli %8, %11 : index
// CHECK-NEXT:   %13 = arith.divui %11, %11 : index
// CHECK-NEXT:   %14 = arith.constant 3 : index
// CHECK-NEXT:   %15 = arith.addi %9, %14 : index
// CHECK-NEXT:   %16 = arith.divui %15, %11 : index
// CHECK-NEXT:   %17 = arith.constant 16 : index
// CHECK-NEXT:   %18 = arith.constant 24 : index
// CHECK-NEXT:   %19 = arith.constant 12 : index
// CHECK-NEXT:   %20 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:   %21 = vector.broadcast %20 : f32 to vector<4xf32>
// CHECK-NEXT:   %22 = arith.constant 2 : index
// CHECK-NEXT:   scf.for %23 = %3 to %4 step %7 {
// CHECK-NEXT:     scf.for %24 = %8 to %13 step %7 {
// CHECK-NEXT:       %25 = arith.muli %24, %11 : index
// CHECK-NEXT:       %26 = arith.muli %25, %9 : index
// CHECK-NEXT:       scf.for %27 = %8 to %7 step %7 {
// CHECK-NEXT:         %28 = arith.muli %27, %11 : index
// CHECK-NEXT:         %29 = arith.addi %25, %28 : index
// CHECK-NEXT:         scf.for %30 = %8 to %11 step %7 {
// CHECK-NEXT:           %31 = arith.addi %29, %30 : index
// CHECK-NEXT:           %32 = arith.muli %30, %9 : index
// CHECK-NEXT:           %33 = arith.addi %12, %31 : index
// CHECK-NEXT:           %34 = arith.muli %33, %9 : index
// CHECK-NEXT:           scf.for %35 = %8 to %9 step %7 {
// CHECK-NEXT:             %36 = arith.addi %8, %35 : index
// CHECK-NEXT:             %37 = arith.addi %34, %36 : index
// CHECK-NEXT:             %38 = memref.load %1[%37] : memref<32xf32>
// CHECK-NEXT:             %39 = arith.addi %32, %35 : index
// CHECK-NEXT:             memref.store %38, %6[%39] : memref<32xf32>
// CHECK-NEXT:           } {cpu.parallel}
// CHECK-NEXT:         }
// CHECK-NEXT:         %40 = arith.addi %26, %28 : index
// CHECK-NEXT:         scf.for %41 = %8 to %16 step %7 {
// CHECK-NEXT:           %42 = arith.muli %41, %11 : index
// CHECK-NEXT:           %43 = vector.load %6[%42] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:           %44 = arith.addi %42, %9 : index
// CHECK-NEXT:           %45 = vector.load %6[%44] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:           %46 = arith.addi %42, %17 : index
// CHECK-NEXT:           %47 = vector.load %6[%46] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:           %48 = arith.addi %42, %18 : index
// CHECK-NEXT:           %49 = vector.load %6[%48] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:           %50 = arith.muli %42, %11 : index
// CHECK-NEXT:           %51 = arith.addi %40, %50 : index
// CHECK-NEXT:           %52 = vector.shuffle %43, %45 [0, 4, 2, 6] : vector<4xf32>, vector<4xf32>
// CHECK-NEXT:           %53 = vector.shuffle %43, %45 [1, 5, 3, 7] : vector<4xf32>, vector<4xf32>
// CHECK-NEXT:           %54 = vector.shuffle %47, %49 [0, 4, 2, 6] : vector<4xf32>, vector<4xf32>
// CHECK-NEXT:           %55 = vector.shuffle %47, %49 [1, 5, 3, 7] : vector<4xf32>, vector<4xf32>
// CHECK-NEXT:           %56 = vector.shuffle %52, %54 [0, 1, 4, 5] : vector<4xf32>, vector<4xf32>
// CHECK-NEXT:           %57 = vector.shuffle %52, %54 [2, 3, 6, 7] : vector<4xf32>, vector<4xf32>
// CHECK-NEXT:           %58 = vector.shuffle %53, %55 [0, 1, 4, 5] : vector<4xf32>, vector<4xf32>
// CHECK-NEXT:           %59 = vector.shuffle %53, %55 [2, 3, 6, 7] : vector<4xf32>, vector<4xf32>
// CHECK-NEXT:           vector.store %56, %5[%51] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:           %60 = arith.addi %51, %11 : index
// CHECK-NEXT:           vector.store %58, %5[%60] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:           %61 = arith.addi %51, %9 : index
// CHECK-NEXT:           vector.store %57, %5[%61] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:           %62 = arith.addi %51, %19 : index
// CHECK-NEXT:           vector.store %59, %5[%62] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:         }
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK-NEXT:     scf.for %63 = %8 to %16 step %7 {
// CHECK-NEXT:       %64 = arith.muli %63, %11 : index
// CHECK-NEXT:       %65 = arith.addi %10, %64 : index
// CHECK-NEXT:       %66 = arith.addi %64, %7 : index
// CHECK-NEXT:       %67 = arith.addi %10, %66 : index
// CHECK-NEXT:       %68 = arith.addi %64, %22 : index
// CHECK-NEXT:       %69 = arith.addi %10, %68 : index
// CHECK-NEXT:       %70 = arith.addi %64, %14 : index
// CHECK-NEXT:       %71 = arith.addi %10, %70 : index
// CHECK-NEXT:       %72 = arith.muli %65, %9 : index
// CHECK-NEXT:       %73 = arith.muli %67, %9 : index
// CHECK-NEXT:       %74 = arith.muli %69, %9 : index
// CHECK-NEXT:       %75 = arith.muli %71, %9 : index
// CHECK-NEXT:       %76 = arith.muli %65, %11 : index
// CHECK-NEXT:       %77 = arith.muli %67, %11 : index
// CHECK-NEXT:       %78 = arith.muli %69, %11 : index
// CHECK-NEXT:       %79 = arith.muli %71, %11 : index
// CHECK-NEXT:       scf.for %80 = %8 to %13 step %7 {
// CHECK-NEXT:         %81 = arith.muli %80, %11 : index
// CHECK-NEXT:         %82 = arith.muli %81, %9 : index
// CHECK-NEXT:         %83, %84, %85, %86 = scf.for %87 = %8 to %9 step %7 iter_args(%88 = %21, %89 = %21, %90 = %21, %91 = %21) -> (vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>) {
// CHECK-NEXT:           %92 = arith.muli %87, %11 : index
// CHECK-NEXT:           %93 = arith.addi %82, %92 : index
// CHECK-NEXT:           %94 = vector.load %5[%93] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:           %95 = arith.addi %8, %87 : index
// CHECK-NEXT:           %96 = arith.addi %72, %95 : index
// CHECK-NEXT:           %97 = memref.load %0[%96] : memref<64xf32>
// CHECK-NEXT:           %98 = vector.broadcast %97 : f32 to vector<4xf32>
// CHECK-NEXT:           %99 = vector.fma %98, %94, %88 : vector<4xf32>
// CHECK-NEXT:           %100 = arith.addi %73, %95 : index
// CHECK-NEXT:           %101 = memref.load %0[%100] : memref<64xf32>
// CHECK-NEXT:           %102 = vector.broadcast %101 : f32 to vector<4xf32>
// CHECK-NEXT:           %103 = vector.fma %102, %94, %89 : vector<4xf32>
// CHECK-NEXT:           %104 = arith.addi %74, %95 : index
// CHECK-NEXT:           %105 = memref.load %0[%104] : memref<64xf32>
// CHECK-NEXT:           %106 = vector.broadcast %105 : f32 to vector<4xf32>
// CHECK-NEXT:           %107 = vector.fma %106, %94, %90 : vector<4xf32>
// CHECK-NEXT:           %108 = arith.addi %75, %95 : index
// CHECK-NEXT:           %109 = memref.load %0[%108] : memref<64xf32>
// CHECK-NEXT:           %110 = vector.broadcast %109 : f32 to vector<4xf32>
// CHECK-NEXT:           %111 = vector.fma %110, %94, %91 : vector<4xf32>
// CHECK-NEXT:           scf.yield %99, %103, %107, %111 : vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>
// CHECK-NEXT:         }
// CHECK-NEXT:         %112 = arith.addi %12, %81 : index
// CHECK-NEXT:         %113 = arith.addi %76, %112 : index
// CHECK-NEXT:         vector.store %83, %2[%113] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:         %114 = arith.addi %77, %112 : index
// CHECK-NEXT:         vector.store %84, %2[%114] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:         %115 = arith.addi %78, %112 : index
// CHECK-NEXT:         vector.store %85, %2[%115] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:         %116 = arith.addi %79, %112 : index
// CHECK-NEXT:         vector.store %86, %2[%116] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }
// CHECK: buf.dispatch @packed0 workgroups = [1, 1, 1] attributes {buf.bytes_moved = 512 : i64, buf.flops = {{[0-9]+}} : i64} (%x, %w, %2) : memref<8x8xf32>, memref<4x8xf32>, memref<8x4xf32>

// -----

// Neighbours along an image lie one after another: columns of windows are loaded in a run, where they are inside.
func.func @windows(%x: tensor<1x4x6x8xf32>, %w: tensor<4x4x3x3xf32>) -> tensor<1x4x6x8xf32> {
  %0 = tg.conv %x, %w stride = [1, 1] low = [1, 1] high = [1, 1] lhs_dilation = [1, 1] rhs_dilation = [1, 1] groups = 1 : tensor<1x4x6x8xf32>, tensor<4x4x3x3xf32>
  func.return %0 : tensor<1x4x6x8xf32>
}
// CHECK:      cpu.kernel @packed0 access = ["read", "read", "read_write"] {
// CHECK-NEXT: ^bb0(%0: memref<192xf32>, %1: memref<144xf32>, %2: memref<192xf32>, %3: index, %4: index):
// CHECK-NEXT:   %5 = memref.alloca() : memref<36xi32>
// CHECK-NEXT:   %6 = memref.alloca() : memref<36xi32>
// CHECK-NEXT:   %7 = memref.alloca() : memref<36xi32>
// CHECK-NEXT:   %8 = memref.alloca() : memref<48xi32>
// CHECK-NEXT:   %9 = memref.alloca() : memref<48xi32>
// CHECK-NEXT:   %10 = memref.alloca() : memref<1728xf32>
// CHECK-NEXT:   %11 = arith.constant 1 : index
// CHECK-NEXT:   %12 = arith.constant 0 : index
// CHECK-NEXT:   %13 = arith.constant 4 : index
// CHECK-NEXT:   %14 = arith.muli %12, %13 : index
// CHECK-NEXT:   %15 = arith.constant 48 : index
// CHECK-NEXT:   %16 = arith.muli %12, %15 : index
// CHECK-NEXT:   %17 = arith.constant 8 : index
// CHECK-NEXT:   %18 = arith.constant 36 : index
// CHECK-NEXT:   %19 = arith.constant 9 : index
// CHECK-NEXT:   %20 = arith.constant 3 : index
// CHECK-NEXT:   %21 = arith.constant 16 : index
// CHECK-NEXT:   %22 = arith.divui %15, %21 : index
// CHECK-NEXT:   %23 = arith.constant 6 : index
// CHECK-NEXT:   %24 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:   %25 = arith.addi %13, %20 : index
// CHECK-NEXT:   %26 = arith.divui %25, %13 : index
// CHECK-NEXT:   %27 = vector.broadcast %24 : f32 to vector<8xf32>
// CHECK-NEXT:   %28 = arith.constant 2 : index
// CHECK-NEXT:   scf.for %29 = %3 to %4 step %11 {
// CHECK-NEXT:     scf.for %30 = %12 to %15 step %11 {
// CHECK-NEXT:       %31 = arith.addi %16, %30 : index
// CHECK-NEXT:       %32 = arith.divui %31, %17 : index
// CHECK-NEXT:       %33 = arith.index_cast %32 : index to i32
// CHECK-NEXT:       memref.store %33, %9[%30] : memref<48xi32>
// CHECK-NEXT:       %34 = arith.remui %31, %17 : index
// CHECK-NEXT:       %35 = arith.index_cast %34 : index to i32
// CHECK-NEXT:       memref.store %35, %8[%30] : memref<48xi32>
// CHECK-NEXT:     } {cpu.parallel}
// CHECK-NEXT:     scf.for %36 = %12 to %18 step %11 {
// CHECK-NEXT:       %37 = arith.addi %12, %36 : index
// CHECK-NEXT:       %38 = arith.divui %37, %19 : index
// CHECK-NEXT:       %39 = arith.index_cast %38 : index to i32
// CHECK-NEXT:       memref.store %39, %7[%36] : memref<36xi32>
// CHECK-NEXT:       %40 = arith.divui %37, %20 : index
// CHECK-NEXT:       %41 = arith.remui %40, %20 : index
// CHECK-NEXT:       %42 = arith.index_cast %41 : index to i32
// CHECK-NEXT:       memref.store %42, %6[%36] : memref<36xi32>
// CHECK-NEXT:       %43 = arith.remui %37, %20 : index
// CHECK-NEXT:       %44 = arith.index_cast %43 : index to i32
// CHECK-NEXT:       memref.store %44, %5[%36] : memref<36xi32>
// CHECK-NEXT:     } {cpu.parallel}
// CHECK-NEXT:     scf.for %45 = %12 to %22 step %11 {
// CHECK-NEXT:       %46 = arith.muli %45, %21 : index
// CHECK-NEXT:       %47 = arith.muli %46, %18 : index
// CHECK-NEXT:       %48 = arith.addi %46, %12 : index
// CHECK-NEXT:       scf.for %49 = %12 to %18 step %11 {
// CHECK-NEXT:         %50 = memref.load %7[%49] {cpu.below = 4 : i32} : memref<36xi32>
// CHECK-NEXT:         %51 = arith.index_cast %50 : i32 to index
// CHECK-NEXT:         %52 = memref.load %6[%49] {cpu.below = 3 : i32} : memref<36xi32>
// CHECK-NEXT:         %53 = arith.index_cast %52 : i32 to index
// CHECK-NEXT:         %54 = memref.load %5[%49] {cpu.below = 3 : i32} : memref<36xi32>
// CHECK-NEXT:         %55 = arith.index_cast %54 : i32 to index
// CHECK-NEXT:         %56 = memref.load %9[%48] {cpu.below = 6 : i32} : memref<48xi32>
// CHECK-NEXT:         %57 = arith.index_cast %56 : i32 to index
// CHECK-NEXT:         %58 = memref.load %8[%48] {cpu.below = 8 : i32} : memref<48xi32>
// CHECK-NEXT:         %59 = arith.index_cast %58 : i32 to index
// CHECK-NEXT:         %60 = arith.muli %57, %17 : index
// CHECK-NEXT:         %61 = arith.subi %60, %19 : index
// CHECK-NEXT:         %62 = arith.addi %61, %59 : index
// CHECK-NEXT:         %63 = arith.muli %51, %15 : index
// CHECK-NEXT:         %64 = arith.addi %62, %63 : index
// CHECK-NEXT:         %65 = arith.muli %53, %17 : index
// CHECK-NEXT:         %66 = arith.addi %64, %65 : index
// CHECK-NEXT:         %67 = arith.addi %66, %55 : index
// CHECK-NEXT:         %68 = arith.muli %49, %21 : index
// CHECK-NEXT:         %69 = arith.addi %47, %68 : index
// CHECK-NEXT:         scf.for %70 = %12 to %21 step %11 {
// CHECK-NEXT:           %71 = arith.addi %46, %70 : index
// CHECK-NEXT:           %72 = memref.load %9[%71] {cpu.below = 6 : i32} : memref<48xi32>
// CHECK-NEXT:           %73 = arith.index_cast %72 : i32 to index
// CHECK-NEXT:           %74 = memref.load %8[%71] {cpu.below = 8 : i32} : memref<48xi32>
// CHECK-NEXT:           %75 = arith.index_cast %74 : i32 to index
// CHECK-NEXT:           %76 = arith.subi %70, %12 : index
// CHECK-NEXT:           %77 = arith.addi %73, %53 : index
// CHECK-NEXT:           %78 = arith.subi %77, %11 : index
// CHECK-NEXT:           %79 = arith.cmpi ult, %78, %23 : index
// CHECK-NEXT:           %80 = arith.addi %75, %55 : index
// CHECK-NEXT:           %81 = arith.subi %80, %11 : index
// CHECK-NEXT:           %82 = arith.cmpi ult, %81, %17 : index
// CHECK-NEXT:           %83 = arith.andi %79, %82 : i1
// CHECK-NEXT:           %84 = arith.addi %67, %76 : index
// CHECK-NEXT:           %85 = scf.if %83 -> (f32) {
// CHECK-NEXT:             %86 = memref.load %0[%84] : memref<192xf32>
// CHECK-NEXT:             scf.yield %86 : f32
// CHECK-NEXT:           } else {
// CHECK-NEXT:             scf.yield %24 : f32
// CHECK-NEXT:           }
// CHECK-NEXT:           %87 = arith.select %83, %85, %24 : f32
// CHECK-NEXT:           %88 = arith.addi %69, %70 : index
// CHECK-NEXT:           memref.store %87, %10[%88] : memref<1728xf32>
// CHECK-NEXT:         } {cpu.parallel, cpu.masked}
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK-NEXT:     scf.for %89 = %12 to %26 step %11 {
// CHECK-NEXT:       %90 = arith.muli %89, %13 : index
// CHECK-NEXT:       %91 = arith.addi %14, %90 : index
// CHECK-NEXT:       %92 = arith.addi %90, %11 : index
// CHECK-NEXT:       %93 = arith.addi %14, %92 : index
// CHECK-NEXT:       %94 = arith.addi %90, %28 : index
// CHECK-NEXT:       %95 = arith.addi %14, %94 : index
// CHECK-NEXT:       %96 = arith.addi %90, %20 : index
// CHECK-NEXT:       %97 = arith.addi %14, %96 : index
// CHECK-NEXT:       %98 = arith.muli %91, %18 : index
// CHECK-NEXT:       %99 = arith.muli %93, %18 : index
// CHECK-NEXT:       %100 = arith.muli %95, %18 : index
// CHECK-NEXT:       %101 = arith.muli %97, %18 : index
// CHECK-NEXT:       %102 = arith.muli %91, %15 : index
// CHECK-NEXT:       %103 = arith.muli %93, %15 : index
// CHECK-NEXT:       %104 = arith.muli %95, %15 : index
// CHECK-NEXT:       %105 = arith.muli %97, %15 : index
// CHECK-NEXT:       scf.for %106 = %12 to %22 step %11 {
// CHECK-NEXT:         %107 = arith.muli %106, %21 : index
// CHECK-NEXT:         %108 = arith.muli %107, %18 : index
// CHECK-NEXT:         %109, %110, %111, %112, %113, %114, %115, %116 = scf.for %117 = %12 to %18 step %11 iter_args(%118 = %27, %119 = %27, %120 = %27, %121 = %27, %122 = %27, %123 = %27, %124 = %27, %125 = %27) -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>) {
// CHECK-NEXT:           %126 = arith.muli %117, %21 : index
// CHECK-NEXT:           %127 = arith.addi %108, %126 : index
// CHECK-NEXT:           %128 = vector.load %10[%127] : memref<1728xf32>, vector<8xf32>
// CHECK-NEXT:           %129 = arith.addi %127, %17 : index
// CHECK-NEXT:           %130 = vector.load %10[%129] : memref<1728xf32>, vector<8xf32>
// CHECK-NEXT:           %131 = arith.addi %12, %117 : index
// CHECK-NEXT:           %132 = arith.addi %98, %131 : index
// CHECK-NEXT:           %133 = memref.load %1[%132] : memref<144xf32>
// CHECK-NEXT:           %134 = vector.broadcast %133 : f32 to vector<8xf32>
// CHECK-NEXT:           %135 = vector.fma %134, %128, %118 : vector<8xf32>
// CHECK-NEXT:           %136 = vector.fma %134, %130, %119 : vector<8xf32>
// CHECK-NEXT:           %137 = arith.addi %99, %131 : index
// CHECK-NEXT:           %138 = memref.load %1[%137] : memref<144xf32>
// CHECK-NEXT:           %139 = vector.broadcast %138 : f32 to vector<8xf32>
// CHECK-NEXT:           %140 = vector.fma %139, %128, %120 : vector<8xf32>
// CHECK-NEXT:           %141 = vector.fma %139, %130, %121 : vector<8xf32>
// CHECK-NEXT:           %142 = arith.addi %100, %131 : index
// CHECK-NEXT:           %143 = memref.load %1[%142] : memref<144xf32>
// CHECK-NEXT:           %144 = vector.broadcast %143 : f32 to vector<8xf32>
// CHECK-NEXT:           %145 = vector.fma %144, %128, %122 : vector<8xf32>
// CHECK-NEXT:           %146 = vector.fma %144, %130, %123 : vector<8xf32>
// CHECK-NEXT:           %147 = arith.addi %101, %131 : index
// CHECK-NEXT:           %148 = memref.load %1[%147] : memref<144xf32>
// CHECK-NEXT:           %149 = vector.broadcast %148 : f32 to vector<8xf32>
// CHECK-NEXT:           %150 = vector.fma %149, %128, %124 : vector<8xf32>
// CHECK-NEXT:           %151 = vector.fma %149, %130, %125 : vector<8xf32>
// CHECK-NEXT:           scf.yield %135, %136, %140, %141, %145, %146, %150, %151 : vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         }
// CHECK-NEXT:         %152 = arith.addi %16, %107 : index
// CHECK-NEXT:         %153 = arith.addi %102, %152 : index
// CHECK-NEXT:         vector.store %109, %2[%153] : memref<192xf32>, vector<8xf32>
// CHECK-NEXT:         %154 = arith.addi %153, %17 : index
// CHECK-NEXT:         vector.store %110, %2[%154] : memref<192xf32>, vector<8xf32>
// CHECK-NEXT:         %155 = arith.addi %103, %152 : index
// CHECK-NEXT:         vector.store %111, %2[%155] : memref<192xf32>, vector<8xf32>
// CHECK-NEXT:         %156 = arith.addi %155, %17 : index
// CHECK-NEXT:         vector.store %112, %2[%156] : memref<192xf32>, vector<8xf32>
// CHECK-NEXT:         %157 = arith.addi %104, %152 : index
// CHECK-NEXT:         vector.store %113, %2[%157] : memref<192xf32>, vector<8xf32>
// CHECK-NEXT:         %158 = arith.addi %157, %17 : index
// CHECK-NEXT:         vector.store %114, %2[%158] : memref<192xf32>, vector<8xf32>
// CHECK-NEXT:         %159 = arith.addi %105, %152 : index
// CHECK-NEXT:         vector.store %115, %2[%159] : memref<192xf32>, vector<8xf32>
// CHECK-NEXT:         %160 = arith.addi %159, %17 : index
// CHECK-NEXT:         vector.store %116, %2[%160] : memref<192xf32>, vector<8xf32>
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }
// CHECK: buf.dispatch @packed0 workgroups = [1, 1, 1] attributes {buf.bytes_moved = 2112 : i64, buf.flops = {{[0-9]+}} : i64} (%x, %w, %2) : memref<1x4x6x8xf32>, memref<4x4x3x3xf32>, memref<1x4x6x8xf32>
