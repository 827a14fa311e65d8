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
// CHECK-NEXT:       %92 = arith.addi %11, %91 : index
// CHECK-NEXT:       %93 = arith.muli %91, %12 : index
// CHECK-NEXT:       %94 = arith.muli %92, %12 : index
// CHECK-NEXT:       scf.for %95 = %9 to %12 step %8 {
// CHECK-NEXT:         %96 = arith.addi %13, %95 : index
// CHECK-NEXT:         %97 = arith.addi %93, %95 : index
// CHECK-NEXT:         %98 = memref.load %6[%97] : memref<32xf32>
// CHECK-NEXT:         %99 = memref.load %2[%96] : memref<8xf32>
// CHECK-NEXT:         %100 = arith.addf %98, %99 : f32
// CHECK-NEXT:         %101 = arith.addi %94, %96 : index
// CHECK-NEXT:         memref.store %100, %3[%101] : memref<32xf32>
// CHECK-NEXT:       } {cpu.parallel}
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
// CHECK-NEXT:         %32 = arith.addi %28, %31 : index
// CHECK-NEXT:         scf.for %33 = %9 to %12 step %8 {
// CHECK-NEXT:           %34 = arith.addi %32, %33 : index
// CHECK-NEXT:           %35 = arith.muli %33, %10 : index
// CHECK-NEXT:           %36 = arith.addi %13, %34 : index
// CHECK-NEXT:           %37 = arith.muli %36, %10 : index
// CHECK-NEXT:           scf.for %38 = %9 to %10 step %8 {
// CHECK-NEXT:             %39 = arith.addi %9, %38 : index
// CHECK-NEXT:             %40 = arith.addi %37, %39 : index
// CHECK-NEXT:             %41 = memref.load %1[%40] : memref<32xf32>
// CHECK-NEXT:             %42 = arith.addi %35, %38 : index
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
// CHECK-NEXT:       %117 = arith.addi %11, %116 : index
// CHECK-NEXT:       %118 = arith.muli %116, %12 : index
// CHECK-NEXT:       %119 = arith.muli %117, %12 : index
// CHECK-NEXT:       scf.for %120 = %9 to %12 step %8 {
// CHECK-NEXT:         %121 = arith.addi %13, %120 : index
// CHECK-NEXT:         %122 = arith.addi %118, %120 : index
// CHECK-NEXT:         %123 = memref.load %5[%122] : memref<32xf32>
// CHECK-NEXT:         %124 = arith.addi %119, %121 : index
// CHECK-NEXT:         memref.store %123, %2[%124] : memref<32xf32>
// CHECK-NEXT:       } {cpu.parallel}
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
// CHECK-NEXT:   %10 = memref.alloca() : memref<192xf32>
// CHECK-NEXT:   %11 = memref.alloca() : memref<1728xf32>
// CHECK-NEXT:   %12 = arith.constant 1 : index
// CHECK-NEXT:   %13 = arith.constant 0 : index
// CHECK-NEXT:   %14 = arith.constant 4 : index
// CHECK-NEXT:   %15 = arith.muli %13, %14 : index
// CHECK-NEXT:   %16 = arith.constant 48 : index
// CHECK-NEXT:   %17 = arith.muli %13, %16 : index
// CHECK-NEXT:   %18 = arith.constant 8 : index
// CHECK-NEXT:   %19 = arith.constant 36 : index
// CHECK-NEXT:   %20 = arith.constant 9 : index
// CHECK-NEXT:   %21 = arith.constant 3 : index
// CHECK-NEXT:   %22 = arith.constant 15 : index
// CHECK-NEXT:   %23 = arith.addi %16, %22 : index
// CHECK-NEXT:   %24 = arith.constant 16 : index
// CHECK-NEXT:   %25 = arith.divui %23, %24 : index
// CHECK-NEXT:   %26 = arith.constant 6 : index
// CHECK-NEXT:   %27 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:   %28 = arith.constant 576 : index
// CHECK-NEXT:   %29 = arith.addi %14, %21 : index
// CHECK-NEXT:   %30 = arith.divui %29, %14 : index
// CHECK-NEXT:   %31 = arith.constant 192 : index
// CHECK-NEXT:   %32 = arith.constant 56 : index
// CHECK-NEXT:   %33 = arith.constant 96 : index
// CHECK-NEXT:   %34 = arith.constant 104 : index
// CHECK-NEXT:   %35 = arith.constant 144 : index
// CHECK-NEXT:   %36 = arith.constant 152 : index
// CHECK-NEXT:   %37 = vector.broadcast %27 : f32 to vector<8xf32>
// CHECK-NEXT:   %38 = arith.constant 2 : index
// CHECK-NEXT:   scf.for %39 = %3 to %4 step %12 {
// CHECK-NEXT:     scf.for %40 = %13 to %16 step %12 {
// CHECK-NEXT:       %41 = arith.addi %17, %40 : index
// CHECK-NEXT:       %42 = arith.divui %41, %18 : index
// CHECK-NEXT:       %43 = arith.index_cast %42 : index to i32
// CHECK-NEXT:       memref.store %43, %9[%40] : memref<48xi32>
// CHECK-NEXT:       %44 = arith.remui %41, %18 : index
// CHECK-NEXT:       %45 = arith.index_cast %44 : index to i32
// CHECK-NEXT:       memref.store %45, %8[%40] : memref<48xi32>
// CHECK-NEXT:     } {cpu.parallel}
// CHECK-NEXT:     scf.for %46 = %13 to %19 step %12 {
// CHECK-NEXT:       %47 = arith.addi %13, %46 : index
// CHECK-NEXT:       %48 = arith.divui %47, %20 : index
// CHECK-NEXT:       %49 = arith.index_cast %48 : index to i32
// CHECK-NEXT:       memref.store %49, %7[%46] : memref<36xi32>
// CHECK-NEXT:       %50 = arith.divui %47, %21 : index
// CHECK-NEXT:       %51 = arith.remui %50, %21 : index
// CHECK-NEXT:       %52 = arith.index_cast %51 : index to i32
// CHECK-NEXT:       memref.store %52, %6[%46] : memref<36xi32>
// CHECK-NEXT:       %53 = arith.remui %47, %21 : index
// CHECK-NEXT:       %54 = arith.index_cast %53 : index to i32
// CHECK-NEXT:       memref.store %54, %5[%46] : memref<36xi32>
// CHECK-NEXT:     } {cpu.parallel}
// CHECK-NEXT:     scf.for %55 = %13 to %25 step %12 {
// CHECK-NEXT:       %56 = arith.muli %55, %24 : index
// CHECK-NEXT:       %57 = arith.addi %56, %13 : index
// CHECK-NEXT:       %58 = arith.muli %55, %28 : index
// CHECK-NEXT:       scf.for %59 = %13 to %19 step %12 {
// CHECK-NEXT:         %60 = memref.load %7[%59] {cpu.below = 4 : i32} : memref<36xi32>
// CHECK-NEXT:         %61 = arith.index_cast %60 : i32 to index
// CHECK-NEXT:         %62 = memref.load %6[%59] {cpu.below = 3 : i32} : memref<36xi32>
// CHECK-NEXT:         %63 = arith.index_cast %62 : i32 to index
// CHECK-NEXT:         %64 = memref.load %5[%59] {cpu.below = 3 : i32} : memref<36xi32>
// CHECK-NEXT:         %65 = arith.index_cast %64 : i32 to index
// CHECK-NEXT:         %66 = memref.load %9[%57] {cpu.below = 6 : i32} : memref<48xi32>
// CHECK-NEXT:         %67 = arith.index_cast %66 : i32 to index
// CHECK-NEXT:         %68 = memref.load %8[%57] {cpu.below = 8 : i32} : memref<48xi32>
// CHECK-NEXT:         %69 = arith.index_cast %68 : i32 to index
// CHECK-NEXT:         %70 = arith.muli %67, %18 : index
// CHECK-NEXT:         %71 = arith.subi %70, %20 : index
// CHECK-NEXT:         %72 = arith.addi %71, %69 : index
// CHECK-NEXT:         %73 = arith.muli %61, %16 : index
// CHECK-NEXT:         %74 = arith.addi %72, %73 : index
// CHECK-NEXT:         %75 = arith.muli %63, %18 : index
// CHECK-NEXT:         %76 = arith.addi %74, %75 : index
// CHECK-NEXT:         %77 = arith.addi %76, %65 : index
// CHECK-NEXT:         %78 = arith.muli %59, %24 : index
// CHECK-NEXT:         %79 = arith.addi %58, %78 : index
// CHECK-NEXT:         scf.for %80 = %13 to %24 step %12 {
// CHECK-NEXT:           %81 = arith.addi %56, %80 : index
// CHECK-NEXT:           %82 = memref.load %9[%81] {cpu.below = 6 : i32} : memref<48xi32>
// CHECK-NEXT:           %83 = arith.index_cast %82 : i32 to index
// CHECK-NEXT:           %84 = memref.load %8[%81] {cpu.below = 8 : i32} : memref<48xi32>
// CHECK-NEXT:           %85 = arith.index_cast %84 : i32 to index
// CHECK-NEXT:           %86 = arith.subi %80, %13 : index
// CHECK-NEXT:           %87 = arith.addi %83, %63 : index
// CHECK-NEXT:           %88 = arith.subi %87, %12 : index
// CHECK-NEXT:           %89 = arith.cmpi ult, %88, %26 : index
// CHECK-NEXT:           %90 = arith.addi %85, %65 : index
// CHECK-NEXT:           %91 = arith.subi %90, %12 : index
// CHECK-NEXT:           %92 = arith.cmpi ult, %91, %18 : index
// CHECK-NEXT:           %93 = arith.andi %89, %92 : i1
// CHECK-NEXT:           %94 = arith.addi %77, %86 : index
// CHECK-NEXT:           %95 = scf.if %93 -> (f32) {
// CHECK-NEXT:             %96 = memref.load %0[%94] : memref<192xf32>
// CHECK-NEXT:             scf.yield %96 : f32
// CHECK-NEXT:           } else {
// CHECK-NEXT:             scf.yield %27 : f32
// CHECK-NEXT:           }
// CHECK-NEXT:           %97 = arith.select %93, %95, %27 : f32
// CHECK-NEXT:           %98 = arith.addi %79, %80 : index
// CHECK-NEXT:           memref.store %97, %11[%98] : memref<1728xf32>
// CHECK-NEXT:         } {cpu.parallel, cpu.masked}
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK-NEXT:     scf.for %99 = %13 to %25 step %12 {
// CHECK-NEXT:       %100 = arith.muli %99, %24 : index
// CHECK-NEXT:       %101 = arith.muli %99, %28 : index
// CHECK-NEXT:       scf.for %102 = %13 to %30 step %12 {
// CHECK-NEXT:         %103 = arith.muli %102, %31 : index
// CHECK-NEXT:         %104 = arith.addi %103, %100 : index
// CHECK-NEXT:         %105 = arith.addi %104, %18 : index
// CHECK-NEXT:         %106 = arith.addi %104, %16 : index
// CHECK-NEXT:         %107 = arith.addi %104, %32 : index
// CHECK-NEXT:         %108 = arith.addi %104, %33 : index
// CHECK-NEXT:         %109 = arith.addi %104, %34 : index
// CHECK-NEXT:         %110 = arith.addi %104, %35 : index
// CHECK-NEXT:         %111 = arith.addi %104, %36 : index
// CHECK-NEXT:         %112 = arith.muli %102, %14 : index
// CHECK-NEXT:         %113 = arith.addi %15, %112 : index
// CHECK-NEXT:         %114 = arith.muli %113, %19 : index
// CHECK-NEXT:         %115 = arith.addi %112, %12 : index
// CHECK-NEXT:         %116 = arith.addi %15, %115 : index
// CHECK-NEXT:         %117 = arith.muli %116, %19 : index
// CHECK-NEXT:         %118 = arith.addi %112, %38 : index
// CHECK-NEXT:         %119 = arith.addi %15, %118 : index
// CHECK-NEXT:         %120 = arith.muli %119, %19 : index
// CHECK-NEXT:         %121 = arith.addi %112, %21 : index
// CHECK-NEXT:         %122 = arith.addi %15, %121 : index
// CHECK-NEXT:         %123 = arith.muli %122, %19 : index
// CHECK-NEXT:         %124, %125, %126, %127, %128, %129, %130, %131 = scf.for %132 = %13 to %19 step %12 iter_args(%133 = %37, %134 = %37, %135 = %37, %136 = %37, %137 = %37, %138 = %37, %139 = %37, %140 = %37) -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>) {
// CHECK-NEXT:           %141 = arith.muli %132, %24 : index
// CHECK-NEXT:           %142 = arith.addi %101, %141 : index
// CHECK-NEXT:           %143 = vector.load %11[%142] : memref<1728xf32>, vector<8xf32>
// CHECK-NEXT:           %144 = arith.addi %142, %18 : index
// CHECK-NEXT:           %145 = vector.load %11[%144] : memref<1728xf32>, vector<8xf32>
// CHECK-NEXT:           %146 = arith.addi %13, %132 : index
// CHECK-NEXT:           %147 = arith.addi %114, %146 : index
// CHECK-NEXT:           %148 = memref.load %1[%147] : memref<144xf32>
// CHECK-NEXT:           %149 = vector.broadcast %148 : f32 to vector<8xf32>
// CHECK-NEXT:           %150 = vector.fma %149, %143, %133 : vector<8xf32>
// CHECK-NEXT:           %151 = vector.fma %149, %145, %134 : vector<8xf32>
// CHECK-NEXT:           %152 = arith.addi %117, %146 : index
// CHECK-NEXT:           %153 = memref.load %1[%152] : memref<144xf32>
// CHECK-NEXT:           %154 = vector.broadcast %153 : f32 to vector<8xf32>
// CHECK-NEXT:           %155 = vector.fma %154, %143, %135 : vector<8xf32>
// CHECK-NEXT:           %156 = vector.fma %154, %145, %136 : vector<8xf32>
// CHECK-NEXT:           %157 = arith.addi %120, %146 : index
// CHECK-NEXT:           %158 = memref.load %1[%157] : memref<144xf32>
// CHECK-NEXT:           %159 = vector.broadcast %158 : f32 to vector<8xf32>
// CHECK-NEXT:           %160 = vector.fma %159, %143, %137 : vector<8xf32>
// CHECK-NEXT:           %161 = vector.fma %159, %145, %138 : vector<8xf32>
// CHECK-NEXT:           %162 = arith.addi %123, %146 : index
// CHECK-NEXT:           %163 = memref.load %1[%162] : memref<144xf32>
// CHECK-NEXT:           %164 = vector.broadcast %163 : f32 to vector<8xf32>
// CHECK-NEXT:           %165 = vector.fma %164, %143, %139 : vector<8xf32>
// CHECK-NEXT:           %166 = vector.fma %164, %145, %140 : vector<8xf32>
// CHECK-NEXT:           scf.yield %150, %151, %155, %156, %160, %161, %165, %166 : vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         }
// CHECK-NEXT:         vector.store %124, %10[%104] : memref<192xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %125, %10[%105] : memref<192xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %126, %10[%106] : memref<192xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %127, %10[%107] : memref<192xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %128, %10[%108] : memref<192xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %129, %10[%109] : memref<192xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %130, %10[%110] : memref<192xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %131, %10[%111] : memref<192xf32>, vector<8xf32>
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK-NEXT:     scf.for %167 = %13 to %14 step %12 {
// CHECK-NEXT:       %168 = arith.addi %15, %167 : index
// CHECK-NEXT:       %169 = memref.load %9[%13] {cpu.below = 6 : i32} : memref<48xi32>
// CHECK-NEXT:       %170 = arith.index_cast %169 : i32 to index
// CHECK-NEXT:       %171 = memref.load %8[%13] {cpu.below = 8 : i32} : memref<48xi32>
// CHECK-NEXT:       %172 = arith.index_cast %171 : i32 to index
// CHECK-NEXT:       %173 = arith.muli %167, %16 : index
// CHECK-NEXT:       %174 = arith.muli %168, %16 : index
// CHECK-NEXT:       %175 = arith.muli %170, %18 : index
// CHECK-NEXT:       %176 = arith.addi %174, %175 : index
// CHECK-NEXT:       scf.for %177 = %13 to %16 step %12 {
// CHECK-NEXT:         %178 = arith.subi %177, %13 : index
// CHECK-NEXT:         %179 = arith.addi %172, %178 : index
// CHECK-NEXT:         %180 = arith.addi %173, %177 : index
// CHECK-NEXT:         %181 = memref.load %10[%180] : memref<192xf32>
// CHECK-NEXT:         %182 = arith.addi %176, %179 : index
// CHECK-NEXT:         memref.store %181, %2[%182] : memref<192xf32>
// CHECK-NEXT:       } {cpu.parallel}
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }
