// RUN: tg-opt %s --split-input-file -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu' | filecheck %s

// Rows and columns are both read in place, without packing; the epilogue runs over a block of sums in scratch memory.
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

// Columns that are contiguous along the reduction are packed in blocks of 4 x 4, which are transposed in registers.
func.func @transposed(%x: tensor<8x8xf32>, %w: tensor<4x8xf32>) -> tensor<8x4xf32> {
  %0 = tg.dot_general %x, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [1] : tensor<8x8xf32>, tensor<4x8xf32>
  func.return %0 : tensor<8x4xf32>
}
// CHECK:      cpu.kernel @packed0 access = ["read", "read", "read_write"] {
// CHECK-NEXT: ^bb0(%0: memref<64xf32>, %1: memref<32xf32>, %2: memref<32xf32>, %3: index, %4: index):
// CHECK-NEXT:   %5 = memref.alloca() : memref<32xf32>
// CHECK-NEXT:   %6 = arith.constant 1 : index
// CHECK-NEXT:   %7 = arith.constant 0 : index
// CHECK-NEXT:   %8 = arith.constant 8 : index
// CHECK-NEXT:   %9 = arith.muli %7, %8 : index
// CHECK-NEXT:   %10 = arith.constant 4 : index
// CHECK-NEXT:   %11 = arith.muli %7, %10 : index
// CHECK-NEXT:   %12 = arith.divui %10, %10 : index
// CHECK-NEXT:   %13 = arith.constant 3 : index
// CHECK-NEXT:   %14 = arith.addi %8, %13 : index
// CHECK-NEXT:   %15 = arith.divui %14, %10 : index
// CHECK-NEXT:   %16 = arith.subi %8, %10 : index
// CHECK-NEXT:   %17 = arith.constant 2 : index
// CHECK-NEXT:   %18 = arith.constant 12 : index
// CHECK-NEXT:   %19 = arith.constant 7 : index
// CHECK-NEXT:   %20 = arith.addi %8, %19 : index
// CHECK-NEXT:   %21 = arith.divui %20, %8 : index
// CHECK-NEXT:   %22 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:   %23 = vector.broadcast %22 : f32 to vector<4xf32>
// CHECK-NEXT:   %24 = arith.constant 5 : index
// CHECK-NEXT:   %25 = arith.constant 6 : index
// CHECK-NEXT:   scf.for %26 = %3 to %4 step %6 {
// CHECK-NEXT:     scf.for %27 = %7 to %12 step %6 {
// CHECK-NEXT:       %28 = arith.muli %27, %10 : index
// CHECK-NEXT:       %29 = arith.muli %28, %8 : index
// CHECK-NEXT:       scf.for %30 = %7 to %6 step %6 {
// CHECK-NEXT:         %31 = arith.muli %30, %10 : index
// CHECK-NEXT:         %32 = arith.addi %28, %31 : index
// CHECK-NEXT:         %33 = arith.addi %29, %31 : index
// CHECK-NEXT:         %34 = arith.addi %11, %32 : index
// CHECK-NEXT:         %35 = arith.muli %34, %8 : index
// CHECK-NEXT:         %36 = arith.addi %32, %6 : index
// CHECK-NEXT:         %37 = arith.addi %11, %36 : index
// CHECK-NEXT:         %38 = arith.muli %37, %8 : index
// CHECK-NEXT:         %39 = arith.addi %32, %17 : index
// CHECK-NEXT:         %40 = arith.addi %11, %39 : index
// CHECK-NEXT:         %41 = arith.muli %40, %8 : index
// CHECK-NEXT:         %42 = arith.addi %32, %13 : index
// CHECK-NEXT:         %43 = arith.addi %11, %42 : index
// CHECK-NEXT:         %44 = arith.muli %43, %8 : index
// CHECK-NEXT:         scf.for %45 = %7 to %15 step %6 {
// CHECK-NEXT:           %46 = arith.muli %45, %10 : index
// CHECK-NEXT:           %47 = arith.minui %46, %16 : index
// CHECK-NEXT:           %48 = arith.addi %7, %47 : index
// CHECK-NEXT:           %49 = arith.addi %35, %48 : index
// CHECK-NEXT:           %50 = vector.load %1[%49] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:           %51 = arith.addi %38, %48 : index
// CHECK-NEXT:           %52 = vector.load %1[%51] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:           %53 = arith.addi %41, %48 : index
// CHECK-NEXT:           %54 = vector.load %1[%53] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:           %55 = arith.addi %44, %48 : index
// CHECK-NEXT:           %56 = vector.load %1[%55] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:           %57 = arith.muli %47, %10 : index
// CHECK-NEXT:           %58 = arith.addi %33, %57 : index
// CHECK-NEXT:           %59 = vector.shuffle %50, %52 [0, 4, 2, 6] : vector<4xf32>, vector<4xf32>
// CHECK-NEXT:           %60 = vector.shuffle %50, %52 [1, 5, 3, 7] : vector<4xf32>, vector<4xf32>
// CHECK-NEXT:           %61 = vector.shuffle %54, %56 [0, 4, 2, 6] : vector<4xf32>, vector<4xf32>
// CHECK-NEXT:           %62 = vector.shuffle %54, %56 [1, 5, 3, 7] : vector<4xf32>, vector<4xf32>
// CHECK-NEXT:           %63 = vector.shuffle %59, %61 [0, 1, 4, 5] : vector<4xf32>, vector<4xf32>
// CHECK-NEXT:           %64 = vector.shuffle %59, %61 [2, 3, 6, 7] : vector<4xf32>, vector<4xf32>
// CHECK-NEXT:           %65 = vector.shuffle %60, %62 [0, 1, 4, 5] : vector<4xf32>, vector<4xf32>
// CHECK-NEXT:           %66 = vector.shuffle %60, %62 [2, 3, 6, 7] : vector<4xf32>, vector<4xf32>
// CHECK-NEXT:           vector.store %63, %5[%58] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:           %67 = arith.addi %58, %10 : index
// CHECK-NEXT:           vector.store %65, %5[%67] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:           %68 = arith.addi %58, %8 : index
// CHECK-NEXT:           vector.store %64, %5[%68] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:           %69 = arith.addi %58, %18 : index
// CHECK-NEXT:           vector.store %66, %5[%69] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:         }
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK-NEXT:     scf.for %70 = %7 to %21 step %6 {
// CHECK-NEXT:       %71 = arith.muli %70, %8 : index
// CHECK-NEXT:       %72 = arith.addi %9, %71 : index
// CHECK-NEXT:       %73 = arith.addi %71, %6 : index
// CHECK-NEXT:       %74 = arith.addi %9, %73 : index
// CHECK-NEXT:       %75 = arith.addi %71, %17 : index
// CHECK-NEXT:       %76 = arith.addi %9, %75 : index
// CHECK-NEXT:       %77 = arith.addi %71, %13 : index
// CHECK-NEXT:       %78 = arith.addi %9, %77 : index
// CHECK-NEXT:       %79 = arith.addi %71, %10 : index
// CHECK-NEXT:       %80 = arith.addi %9, %79 : index
// CHECK-NEXT:       %81 = arith.addi %71, %24 : index
// CHECK-NEXT:       %82 = arith.addi %9, %81 : index
// CHECK-NEXT:       %83 = arith.addi %71, %25 : index
// CHECK-NEXT:       %84 = arith.addi %9, %83 : index
// CHECK-NEXT:       %85 = arith.addi %71, %19 : index
// CHECK-NEXT:       %86 = arith.addi %9, %85 : index
// CHECK-NEXT:       %87 = arith.muli %72, %8 : index
// CHECK-NEXT:       %88 = arith.muli %74, %8 : index
// CHECK-NEXT:       %89 = arith.muli %76, %8 : index
// CHECK-NEXT:       %90 = arith.muli %78, %8 : index
// CHECK-NEXT:       %91 = arith.muli %80, %8 : index
// CHECK-NEXT:       %92 = arith.muli %82, %8 : index
// CHECK-NEXT:       %93 = arith.muli %84, %8 : index
// CHECK-NEXT:       %94 = arith.muli %86, %8 : index
// CHECK-NEXT:       %95 = arith.muli %72, %10 : index
// CHECK-NEXT:       %96 = arith.muli %74, %10 : index
// CHECK-NEXT:       %97 = arith.muli %76, %10 : index
// CHECK-NEXT:       %98 = arith.muli %78, %10 : index
// CHECK-NEXT:       %99 = arith.muli %80, %10 : index
// CHECK-NEXT:       %100 = arith.muli %82, %10 : index
// CHECK-NEXT:       %101 = arith.muli %84, %10 : index
// CHECK-NEXT:       %102 = arith.muli %86, %10 : index
// CHECK-NEXT:       scf.for %103 = %7 to %12 step %6 {
// CHECK-NEXT:         %104 = arith.muli %103, %10 : index
// CHECK-NEXT:         %105 = arith.muli %104, %8 : index
// CHECK-NEXT:         %106, %107, %108, %109, %110, %111, %112, %113 = scf.for %114 = %7 to %8 step %6 iter_args(%115 = %23, %116 = %23, %117 = %23, %118 = %23, %119 = %23, %120 = %23, %121 = %23, %122 = %23) -> (vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>) {
// CHECK-NEXT:           %123 = arith.muli %114, %10 : index
// CHECK-NEXT:           %124 = arith.addi %105, %123 : index
// CHECK-NEXT:           %125 = vector.load %5[%124] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:           %126 = arith.addi %7, %114 : index
// CHECK-NEXT:           %127 = arith.addi %87, %126 : index
// CHECK-NEXT:           %128 = memref.load %0[%127] : memref<64xf32>
// CHECK-NEXT:           %129 = vector.broadcast %128 : f32 to vector<4xf32>
// CHECK-NEXT:           %130 = vector.fma %129, %125, %115 : vector<4xf32>
// CHECK-NEXT:           %131 = arith.addi %88, %126 : index
// CHECK-NEXT:           %132 = memref.load %0[%131] : memref<64xf32>
// CHECK-NEXT:           %133 = vector.broadcast %132 : f32 to vector<4xf32>
// CHECK-NEXT:           %134 = vector.fma %133, %125, %116 : vector<4xf32>
// CHECK-NEXT:           %135 = arith.addi %89, %126 : index
// CHECK-NEXT:           %136 = memref.load %0[%135] : memref<64xf32>
// CHECK-NEXT:           %137 = vector.broadcast %136 : f32 to vector<4xf32>
// CHECK-NEXT:           %138 = vector.fma %137, %125, %117 : vector<4xf32>
// CHECK-NEXT:           %139 = arith.addi %90, %126 : index
// CHECK-NEXT:           %140 = memref.load %0[%139] : memref<64xf32>
// CHECK-NEXT:           %141 = vector.broadcast %140 : f32 to vector<4xf32>
// CHECK-NEXT:           %142 = vector.fma %141, %125, %118 : vector<4xf32>
// CHECK-NEXT:           %143 = arith.addi %91, %126 : index
// CHECK-NEXT:           %144 = memref.load %0[%143] : memref<64xf32>
// CHECK-NEXT:           %145 = vector.broadcast %144 : f32 to vector<4xf32>
// CHECK-NEXT:           %146 = vector.fma %145, %125, %119 : vector<4xf32>
// CHECK-NEXT:           %147 = arith.addi %92, %126 : index
// CHECK-NEXT:           %148 = memref.load %0[%147] : memref<64xf32>
// CHECK-NEXT:           %149 = vector.broadcast %148 : f32 to vector<4xf32>
// CHECK-NEXT:           %150 = vector.fma %149, %125, %120 : vector<4xf32>
// CHECK-NEXT:           %151 = arith.addi %93, %126 : index
// CHECK-NEXT:           %152 = memref.load %0[%151] : memref<64xf32>
// CHECK-NEXT:           %153 = vector.broadcast %152 : f32 to vector<4xf32>
// CHECK-NEXT:           %154 = vector.fma %153, %125, %121 : vector<4xf32>
// CHECK-NEXT:           %155 = arith.addi %94, %126 : index
// CHECK-NEXT:           %156 = memref.load %0[%155] : memref<64xf32>
// CHECK-NEXT:           %157 = vector.broadcast %156 : f32 to vector<4xf32>
// CHECK-NEXT:           %158 = vector.fma %157, %125, %122 : vector<4xf32>
// CHECK-NEXT:           scf.yield %130, %134, %138, %142, %146, %150, %154, %158 : vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>
// CHECK-NEXT:         }
// CHECK-NEXT:         %159 = arith.addi %11, %104 : index
// CHECK-NEXT:         %160 = arith.addi %95, %159 : index
// CHECK-NEXT:         vector.store %106, %2[%160] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:         %161 = arith.addi %96, %159 : index
// CHECK-NEXT:         vector.store %107, %2[%161] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:         %162 = arith.addi %97, %159 : index
// CHECK-NEXT:         vector.store %108, %2[%162] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:         %163 = arith.addi %98, %159 : index
// CHECK-NEXT:         vector.store %109, %2[%163] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:         %164 = arith.addi %99, %159 : index
// CHECK-NEXT:         vector.store %110, %2[%164] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:         %165 = arith.addi %100, %159 : index
// CHECK-NEXT:         vector.store %111, %2[%165] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:         %166 = arith.addi %101, %159 : index
// CHECK-NEXT:         vector.store %112, %2[%166] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:         %167 = arith.addi %102, %159 : index
// CHECK-NEXT:         vector.store %113, %2[%167] : memref<32xf32>, vector<4xf32>
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }
// CHECK: buf.dispatch @packed0 workgroups = [1, 1, 1] attributes {buf.bytes_moved = 512 : i64, buf.flops = {{[0-9]+}} : i64} (%x, %w, %2) : memref<8x8xf32>, memref<4x8xf32>, memref<8x4xf32>

// -----

// The last columns don't fill a vector: they are first copied to scratch memory, and padded with zeros.
func.func @transposed_edge(%x: tensor<8x8xf32>, %w: tensor<6x8xf32>) -> tensor<8x6xf32> {
  %0 = tg.dot_general %x, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [1] : tensor<8x8xf32>, tensor<6x8xf32>
  func.return %0 : tensor<8x6xf32>
}
// CHECK:      cpu.kernel @packed0 access = ["read", "read", "read_write"] {
// CHECK-NEXT: ^bb0(%0: memref<64xf32>, %1: memref<48xf32>, %2: memref<48xf32>, %3: index, %4: index):
// CHECK-NEXT:   %5 = memref.alloca() : memref<128xf32>
// CHECK-NEXT:   %6 = memref.alloca() : memref<128xf32>
// CHECK-NEXT:   %7 = memref.alloca() : memref<64xf32>
// CHECK-NEXT:   %8 = arith.constant 1 : index
// CHECK-NEXT:   %9 = arith.constant 0 : index
// CHECK-NEXT:   %10 = arith.constant 8 : index
// CHECK-NEXT:   %11 = arith.muli %9, %10 : index
// CHECK-NEXT:   %12 = arith.constant 6 : index
// CHECK-NEXT:   %13 = arith.subi %12, %12 : index
// CHECK-NEXT:   %14 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:   %15 = arith.constant 7 : index
// CHECK-NEXT:   %16 = arith.addi %10, %15 : index
// CHECK-NEXT:   %17 = arith.divui %16, %10 : index
// CHECK-NEXT:   %18 = arith.constant 2 : index
// CHECK-NEXT:   %19 = arith.constant 16 : index
// CHECK-NEXT:   %20 = arith.constant 3 : index
// CHECK-NEXT:   %21 = arith.constant 24 : index
// CHECK-NEXT:   %22 = arith.constant 4 : index
// CHECK-NEXT:   %23 = arith.constant 32 : index
// CHECK-NEXT:   %24 = arith.constant 5 : index
// CHECK-NEXT:   %25 = arith.constant 40 : index
// CHECK-NEXT:   %26 = arith.constant 48 : index
// CHECK-NEXT:   %27 = arith.constant 56 : index
// CHECK-NEXT:   %28 = vector.broadcast %14 : f32 to vector<8xf32>
// CHECK-NEXT:   %29 = arith.constant 128 : index
// CHECK-NEXT:   %30 = arith.muli %9, %29 : index
// CHECK-NEXT:   %31 = arith.addi %30, %13 : index
// CHECK-NEXT:   %32 = arith.addi %31, %19 : index
// CHECK-NEXT:   %33 = arith.addi %31, %23 : index
// CHECK-NEXT:   %34 = arith.addi %31, %26 : index
// CHECK-NEXT:   %35 = arith.constant 64 : index
// CHECK-NEXT:   %36 = arith.addi %31, %35 : index
// CHECK-NEXT:   %37 = arith.constant 80 : index
// CHECK-NEXT:   %38 = arith.addi %31, %37 : index
// CHECK-NEXT:   %39 = arith.constant 96 : index
// CHECK-NEXT:   %40 = arith.addi %31, %39 : index
// CHECK-NEXT:   %41 = arith.constant 112 : index
// CHECK-NEXT:   %42 = arith.addi %31, %41 : index
// CHECK-NEXT:   scf.for %43 = %3 to %4 step %8 {
// CHECK-NEXT:     scf.for %44 = %9 to %8 step %8 {
// CHECK-NEXT:       %45 = arith.muli %44, %10 : index
// CHECK-NEXT:       %46 = arith.addi %13, %45 : index
// CHECK-NEXT:       %47 = arith.addi %11, %45 : index
// CHECK-NEXT:       %48 = arith.maxui %12, %45 : index
// CHECK-NEXT:       %49 = arith.subi %48, %45 : index
// CHECK-NEXT:       %50 = arith.minui %10, %49 : index
// CHECK-NEXT:       scf.for %51 = %9 to %50 step %8 {
// CHECK-NEXT:         %52 = arith.addi %46, %51 : index
// CHECK-NEXT:         %53 = arith.muli %51, %10 : index
// CHECK-NEXT:         %54 = arith.addi %11, %52 : index
// CHECK-NEXT:         %55 = arith.muli %54, %10 : index
// CHECK-NEXT:         scf.for %56 = %9 to %10 step %8 {
// CHECK-NEXT:           %57 = arith.addi %9, %56 : index
// CHECK-NEXT:           %58 = arith.addi %55, %57 : index
// CHECK-NEXT:           %59 = memref.load %1[%58] : memref<48xf32>
// CHECK-NEXT:           %60 = arith.addi %53, %56 : index
// CHECK-NEXT:           memref.store %59, %7[%60] : memref<64xf32>
// CHECK-NEXT:         } {cpu.parallel}
// CHECK-NEXT:       }
// CHECK-NEXT:       scf.for %61 = %50 to %10 step %8 {
// CHECK-NEXT:         %62 = arith.muli %61, %10 : index
// CHECK-NEXT:         scf.for %63 = %9 to %10 step %8 {
// CHECK-NEXT:           %64 = arith.addi %62, %63 : index
// CHECK-NEXT:           memref.store %14, %7[%64] : memref<64xf32>
// CHECK-NEXT:         } {cpu.parallel}
// CHECK-NEXT:       }
// CHECK-NEXT:       scf.for %65 = %9 to %17 step %8 {
// CHECK-NEXT:         %66 = arith.muli %65, %10 : index
// CHECK-NEXT:         %67 = vector.load %7[%66] : memref<64xf32>, vector<8xf32>
// CHECK-NEXT:         %68 = arith.addi %66, %10 : index
// CHECK-NEXT:         %69 = vector.load %7[%68] : memref<64xf32>, vector<8xf32>
// CHECK-NEXT:         %70 = arith.addi %66, %19 : index
// CHECK-NEXT:         %71 = vector.load %7[%70] : memref<64xf32>, vector<8xf32>
// CHECK-NEXT:         %72 = arith.addi %66, %21 : index
// CHECK-NEXT:         %73 = vector.load %7[%72] : memref<64xf32>, vector<8xf32>
// CHECK-NEXT:         %74 = arith.addi %66, %23 : index
// CHECK-NEXT:         %75 = vector.load %7[%74] : memref<64xf32>, vector<8xf32>
// CHECK-NEXT:         %76 = arith.addi %66, %25 : index
// CHECK-NEXT:         %77 = vector.load %7[%76] : memref<64xf32>, vector<8xf32>
// CHECK-NEXT:         %78 = arith.addi %66, %26 : index
// CHECK-NEXT:         %79 = vector.load %7[%78] : memref<64xf32>, vector<8xf32>
// CHECK-NEXT:         %80 = arith.addi %66, %27 : index
// CHECK-NEXT:         %81 = vector.load %7[%80] : memref<64xf32>, vector<8xf32>
// CHECK-NEXT:         %82 = arith.muli %66, %10 : index
// CHECK-NEXT:         %83 = arith.addi %47, %82 : index
// CHECK-NEXT:         %84 = vector.shuffle %67, %69 [0, 8, 2, 10, 4, 12, 6, 14] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %85 = vector.shuffle %67, %69 [1, 9, 3, 11, 5, 13, 7, 15] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %86 = vector.shuffle %71, %73 [0, 8, 2, 10, 4, 12, 6, 14] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %87 = vector.shuffle %71, %73 [1, 9, 3, 11, 5, 13, 7, 15] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %88 = vector.shuffle %75, %77 [0, 8, 2, 10, 4, 12, 6, 14] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %89 = vector.shuffle %75, %77 [1, 9, 3, 11, 5, 13, 7, 15] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %90 = vector.shuffle %79, %81 [0, 8, 2, 10, 4, 12, 6, 14] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %91 = vector.shuffle %79, %81 [1, 9, 3, 11, 5, 13, 7, 15] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %92 = vector.shuffle %84, %86 [0, 1, 8, 9, 4, 5, 12, 13] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %93 = vector.shuffle %84, %86 [2, 3, 10, 11, 6, 7, 14, 15] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %94 = vector.shuffle %85, %87 [0, 1, 8, 9, 4, 5, 12, 13] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %95 = vector.shuffle %85, %87 [2, 3, 10, 11, 6, 7, 14, 15] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %96 = vector.shuffle %88, %90 [0, 1, 8, 9, 4, 5, 12, 13] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %97 = vector.shuffle %88, %90 [2, 3, 10, 11, 6, 7, 14, 15] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %98 = vector.shuffle %89, %91 [0, 1, 8, 9, 4, 5, 12, 13] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %99 = vector.shuffle %89, %91 [2, 3, 10, 11, 6, 7, 14, 15] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %100 = vector.shuffle %92, %96 [0, 1, 2, 3, 8, 9, 10, 11] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %101 = vector.shuffle %92, %96 [4, 5, 6, 7, 12, 13, 14, 15] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %102 = vector.shuffle %94, %98 [0, 1, 2, 3, 8, 9, 10, 11] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %103 = vector.shuffle %94, %98 [4, 5, 6, 7, 12, 13, 14, 15] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %104 = vector.shuffle %93, %97 [0, 1, 2, 3, 8, 9, 10, 11] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %105 = vector.shuffle %93, %97 [4, 5, 6, 7, 12, 13, 14, 15] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %106 = vector.shuffle %95, %99 [0, 1, 2, 3, 8, 9, 10, 11] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %107 = vector.shuffle %95, %99 [4, 5, 6, 7, 12, 13, 14, 15] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %100, %6[%83] : memref<128xf32>, vector<8xf32>
// CHECK-NEXT:         %108 = arith.addi %83, %10 : index
// CHECK-NEXT:         vector.store %102, %6[%108] : memref<128xf32>, vector<8xf32>
// CHECK-NEXT:         %109 = arith.addi %83, %19 : index
// CHECK-NEXT:         vector.store %104, %6[%109] : memref<128xf32>, vector<8xf32>
// CHECK-NEXT:         %110 = arith.addi %83, %21 : index
// CHECK-NEXT:         vector.store %106, %6[%110] : memref<128xf32>, vector<8xf32>
// CHECK-NEXT:         %111 = arith.addi %83, %23 : index
// CHECK-NEXT:         vector.store %101, %6[%111] : memref<128xf32>, vector<8xf32>
// CHECK-NEXT:         %112 = arith.addi %83, %25 : index
// CHECK-NEXT:         vector.store %103, %6[%112] : memref<128xf32>, vector<8xf32>
// CHECK-NEXT:         %113 = arith.addi %83, %26 : index
// CHECK-NEXT:         vector.store %105, %6[%113] : memref<128xf32>, vector<8xf32>
// CHECK-NEXT:         %114 = arith.addi %83, %27 : index
// CHECK-NEXT:         vector.store %107, %6[%114] : memref<128xf32>, vector<8xf32>
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK-NEXT:     scf.for %115 = %9 to %17 step %8 {
// CHECK-NEXT:       %116 = arith.muli %115, %10 : index
// CHECK-NEXT:       %117 = arith.addi %11, %116 : index
// CHECK-NEXT:       %118 = arith.addi %116, %8 : index
// CHECK-NEXT:       %119 = arith.addi %11, %118 : index
// CHECK-NEXT:       %120 = arith.addi %116, %18 : index
// CHECK-NEXT:       %121 = arith.addi %11, %120 : index
// CHECK-NEXT:       %122 = arith.addi %116, %20 : index
// CHECK-NEXT:       %123 = arith.addi %11, %122 : index
// CHECK-NEXT:       %124 = arith.addi %116, %22 : index
// CHECK-NEXT:       %125 = arith.addi %11, %124 : index
// CHECK-NEXT:       %126 = arith.addi %116, %24 : index
// CHECK-NEXT:       %127 = arith.addi %11, %126 : index
// CHECK-NEXT:       %128 = arith.addi %116, %12 : index
// CHECK-NEXT:       %129 = arith.addi %11, %128 : index
// CHECK-NEXT:       %130 = arith.addi %116, %15 : index
// CHECK-NEXT:       %131 = arith.addi %11, %130 : index
// CHECK-NEXT:       %132 = arith.muli %117, %10 : index
// CHECK-NEXT:       %133 = arith.muli %119, %10 : index
// CHECK-NEXT:       %134 = arith.muli %121, %10 : index
// CHECK-NEXT:       %135 = arith.muli %123, %10 : index
// CHECK-NEXT:       %136 = arith.muli %125, %10 : index
// CHECK-NEXT:       %137 = arith.muli %127, %10 : index
// CHECK-NEXT:       %138 = arith.muli %129, %10 : index
// CHECK-NEXT:       %139 = arith.muli %131, %10 : index
// CHECK-NEXT:       %140, %141, %142, %143, %144, %145, %146, %147 = scf.for %148 = %9 to %10 step %8 iter_args(%149 = %28, %150 = %28, %151 = %28, %152 = %28, %153 = %28, %154 = %28, %155 = %28, %156 = %28) -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>) {
// CHECK-NEXT:         %157 = arith.muli %148, %10 : index
// CHECK-NEXT:         %158 = arith.addi %11, %157 : index
// CHECK-NEXT:         %159 = vector.load %6[%158] : memref<128xf32>, vector<8xf32>
// CHECK-NEXT:         %160 = arith.addi %9, %148 : index
// CHECK-NEXT:         %161 = arith.addi %132, %160 : index
// CHECK-NEXT:         %162 = memref.load %0[%161] : memref<64xf32>
// CHECK-NEXT:         %163 = vector.broadcast %162 : f32 to vector<8xf32>
// CHECK-NEXT:         %164 = vector.fma %163, %159, %149 : vector<8xf32>
// CHECK-NEXT:         %165 = arith.addi %133, %160 : index
// CHECK-NEXT:         %166 = memref.load %0[%165] : memref<64xf32>
// CHECK-NEXT:         %167 = vector.broadcast %166 : f32 to vector<8xf32>
// CHECK-NEXT:         %168 = vector.fma %167, %159, %150 : vector<8xf32>
// CHECK-NEXT:         %169 = arith.addi %134, %160 : index
// CHECK-NEXT:         %170 = memref.load %0[%169] : memref<64xf32>
// CHECK-NEXT:         %171 = vector.broadcast %170 : f32 to vector<8xf32>
// CHECK-NEXT:         %172 = vector.fma %171, %159, %151 : vector<8xf32>
// CHECK-NEXT:         %173 = arith.addi %135, %160 : index
// CHECK-NEXT:         %174 = memref.load %0[%173] : memref<64xf32>
// CHECK-NEXT:         %175 = vector.broadcast %174 : f32 to vector<8xf32>
// CHECK-NEXT:         %176 = vector.fma %175, %159, %152 : vector<8xf32>
// CHECK-NEXT:         %177 = arith.addi %136, %160 : index
// CHECK-NEXT:         %178 = memref.load %0[%177] : memref<64xf32>
// CHECK-NEXT:         %179 = vector.broadcast %178 : f32 to vector<8xf32>
// CHECK-NEXT:         %180 = vector.fma %179, %159, %153 : vector<8xf32>
// CHECK-NEXT:         %181 = arith.addi %137, %160 : index
// CHECK-NEXT:         %182 = memref.load %0[%181] : memref<64xf32>
// CHECK-NEXT:         %183 = vector.broadcast %182 : f32 to vector<8xf32>
// CHECK-NEXT:         %184 = vector.fma %183, %159, %154 : vector<8xf32>
// CHECK-NEXT:         %185 = arith.addi %138, %160 : index
// CHECK-NEXT:         %186 = memref.load %0[%185] : memref<64xf32>
// CHECK-NEXT:         %187 = vector.broadcast %186 : f32 to vector<8xf32>
// CHECK-NEXT:         %188 = vector.fma %187, %159, %155 : vector<8xf32>
// CHECK-NEXT:         %189 = arith.addi %139, %160 : index
// CHECK-NEXT:         %190 = memref.load %0[%189] : memref<64xf32>
// CHECK-NEXT:         %191 = vector.broadcast %190 : f32 to vector<8xf32>
// CHECK-NEXT:         %192 = vector.fma %191, %159, %156 : vector<8xf32>
// CHECK-NEXT:         scf.yield %164, %168, %172, %176, %180, %184, %188, %192 : vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>
// CHECK-NEXT:       }
// CHECK-NEXT:       vector.store %140, %5[%31] : memref<128xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %141, %5[%32] : memref<128xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %142, %5[%33] : memref<128xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %143, %5[%34] : memref<128xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %144, %5[%36] : memref<128xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %145, %5[%38] : memref<128xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %146, %5[%40] : memref<128xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %147, %5[%42] : memref<128xf32>, vector<8xf32>
// CHECK-NEXT:       scf.for %193 = %9 to %10 step %8 {
// CHECK-NEXT:         %194 = arith.addi %116, %193 : index
// CHECK-NEXT:         %195 = arith.addi %11, %194 : index
// CHECK-NEXT:         %196 = arith.muli %193, %19 : index
// CHECK-NEXT:         %197 = arith.addi %30, %196 : index
// CHECK-NEXT:         %198 = arith.muli %195, %12 : index
// CHECK-NEXT:         %199 = arith.addi %11, %9 : index
// CHECK-NEXT:         %200 = arith.addi %197, %9 : index
// CHECK-NEXT:         %201 = memref.load %5[%200] : memref<128xf32>
// CHECK-NEXT:         %202 = arith.addi %198, %199 : index
// CHECK-NEXT:         memref.store %201, %2[%202] : memref<48xf32>
// CHECK-NEXT:         %203 = arith.addi %11, %8 : index
// CHECK-NEXT:         %204 = arith.addi %197, %8 : index
// CHECK-NEXT:         %205 = memref.load %5[%204] : memref<128xf32>
// CHECK-NEXT:         %206 = arith.addi %198, %203 : index
// CHECK-NEXT:         memref.store %205, %2[%206] : memref<48xf32>
// CHECK-NEXT:         %207 = arith.addi %11, %18 : index
// CHECK-NEXT:         %208 = arith.addi %197, %18 : index
// CHECK-NEXT:         %209 = memref.load %5[%208] : memref<128xf32>
// CHECK-NEXT:         %210 = arith.addi %198, %207 : index
// CHECK-NEXT:         memref.store %209, %2[%210] : memref<48xf32>
// CHECK-NEXT:         %211 = arith.addi %11, %20 : index
// CHECK-NEXT:         %212 = arith.addi %197, %20 : index
// CHECK-NEXT:         %213 = memref.load %5[%212] : memref<128xf32>
// CHECK-NEXT:         %214 = arith.addi %198, %211 : index
// CHECK-NEXT:         memref.store %213, %2[%214] : memref<48xf32>
// CHECK-NEXT:         %215 = arith.addi %11, %22 : index
// CHECK-NEXT:         %216 = arith.addi %197, %22 : index
// CHECK-NEXT:         %217 = memref.load %5[%216] : memref<128xf32>
// CHECK-NEXT:         %218 = arith.addi %198, %215 : index
// CHECK-NEXT:         memref.store %217, %2[%218] : memref<48xf32>
// CHECK-NEXT:         %219 = arith.addi %11, %24 : index
// CHECK-NEXT:         %220 = arith.addi %197, %24 : index
// CHECK-NEXT:         %221 = memref.load %5[%220] : memref<128xf32>
// CHECK-NEXT:         %222 = arith.addi %198, %219 : index
// CHECK-NEXT:         memref.store %221, %2[%222] : memref<48xf32>
// CHECK-NEXT:       }
// CHECK: buf.dispatch @packed0 workgroups = [1, 1, 1] attributes {buf.bytes_moved = 640 : i64, buf.flops = {{[0-9]+}} : i64} (%x, %w, %2) : memref<8x8xf32>, memref<6x8xf32>, memref<8x6xf32>
