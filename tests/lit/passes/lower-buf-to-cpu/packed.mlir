// RUN: tg-opt %s --split-input-file -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu' | filecheck %s

// Rows and columns are both read in place, without packing; the epilogue runs over the sums of a register block, in
// scratch memory.
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
// CHECK-NEXT:   %22 = arith.addi %21, %8 : index
// CHECK-NEXT:   %23 = arith.addi %22, %11 : index
// CHECK-NEXT:   %24 = arith.constant 16 : index
// CHECK-NEXT:   %25 = arith.addi %22, %24 : index
// CHECK-NEXT:   %26 = arith.constant 24 : index
// CHECK-NEXT:   %27 = arith.addi %22, %26 : index
// CHECK-NEXT:   scf.for %28 = %4 to %5 step %7 {
// CHECK-NEXT:     scf.for %29 = %8 to %15 step %7 {
// CHECK-NEXT:       %30 = arith.muli %29, %9 : index
// CHECK-NEXT:       %31 = arith.addi %10, %30 : index
// CHECK-NEXT:       %32 = arith.addi %30, %7 : index
// CHECK-NEXT:       %33 = arith.addi %10, %32 : index
// CHECK-NEXT:       %34 = arith.addi %30, %19 : index
// CHECK-NEXT:       %35 = arith.addi %10, %34 : index
// CHECK-NEXT:       %36 = arith.addi %30, %13 : index
// CHECK-NEXT:       %37 = arith.addi %10, %36 : index
// CHECK-NEXT:       %38 = arith.muli %31, %13 : index
// CHECK-NEXT:       %39 = arith.muli %33, %13 : index
// CHECK-NEXT:       %40 = arith.muli %35, %13 : index
// CHECK-NEXT:       %41 = arith.muli %37, %13 : index
// CHECK-NEXT:       scf.for %42 = %8 to %16 step %7 {
// CHECK-NEXT:         %43 = arith.muli %42, %11 : index
// CHECK-NEXT:         %44 = arith.addi %12, %43 : index
// CHECK-NEXT:         %45, %46, %47, %48 = scf.for %49 = %8 to %13 step %7 iter_args(%50 = %18, %51 = %18, %52 = %18, %53 = %18) -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>) {
// CHECK-NEXT:           %54 = arith.addi %8, %49 : index
// CHECK-NEXT:           %55 = arith.muli %54, %11 : index
// CHECK-NEXT:           %56 = arith.addi %44, %55 : index
// CHECK-NEXT:           %57 = vector.load %1[%56] : memref<24xf32>, vector<8xf32>
// CHECK-NEXT:           %58 = arith.addi %38, %54 : index
// CHECK-NEXT:           %59 = memref.load %0[%58] : memref<12xf32>
// CHECK-NEXT:           %60 = vector.broadcast %59 : f32 to vector<8xf32>
// CHECK-NEXT:           %61 = vector.fma %60, %57, %50 : vector<8xf32>
// CHECK-NEXT:           %62 = arith.addi %39, %54 : index
// CHECK-NEXT:           %63 = memref.load %0[%62] : memref<12xf32>
// CHECK-NEXT:           %64 = vector.broadcast %63 : f32 to vector<8xf32>
// CHECK-NEXT:           %65 = vector.fma %64, %57, %51 : vector<8xf32>
// CHECK-NEXT:           %66 = arith.addi %40, %54 : index
// CHECK-NEXT:           %67 = memref.load %0[%66] : memref<12xf32>
// CHECK-NEXT:           %68 = vector.broadcast %67 : f32 to vector<8xf32>
// CHECK-NEXT:           %69 = vector.fma %68, %57, %52 : vector<8xf32>
// CHECK-NEXT:           %70 = arith.addi %41, %54 : index
// CHECK-NEXT:           %71 = memref.load %0[%70] : memref<12xf32>
// CHECK-NEXT:           %72 = vector.broadcast %71 : f32 to vector<8xf32>
// CHECK-NEXT:           %73 = vector.fma %72, %57, %53 : vector<8xf32>
// CHECK-NEXT:           scf.yield %61, %65, %69, %73 : vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         }
// CHECK-NEXT:         vector.store %45, %6[%22] : memref<32xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %46, %6[%23] : memref<32xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %47, %6[%25] : memref<32xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %48, %6[%27] : memref<32xf32>, vector<8xf32>
// CHECK-NEXT:         scf.for %74 = %8 to %9 step %7 {
// CHECK-NEXT:           %75 = arith.addi %30, %74 : index
// CHECK-NEXT:           %76 = arith.addi %10, %75 : index
// CHECK-NEXT:           %77 = arith.muli %74, %11 : index
// CHECK-NEXT:           %78 = arith.muli %76, %11 : index
// CHECK-NEXT:           scf.for %79 = %8 to %11 step %7 {
// CHECK-NEXT:             %80 = arith.addi %43, %79 : index
// CHECK-NEXT:             %81 = arith.addi %12, %80 : index
// CHECK-NEXT:             %82 = arith.addi %77, %79 : index
// CHECK-NEXT:             %83 = memref.load %6[%82] : memref<32xf32>
// CHECK-NEXT:             %84 = memref.load %2[%81] : memref<8xf32>
// CHECK-NEXT:             %85 = arith.addf %83, %84 : f32
// CHECK-NEXT:             %86 = arith.addi %78, %81 : index
// CHECK-NEXT:             memref.store %85, %3[%86] : memref<32xf32>
// CHECK-NEXT:           } {cpu.parallel}
// CHECK-NEXT:         }
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
// CHECK-NEXT:   %5 = memref.alloca() : memref<64xf32>
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
// CHECK-NEXT:   %29 = arith.constant 64 : index
// CHECK-NEXT:   %30 = arith.muli %9, %29 : index
// CHECK-NEXT:   %31 = arith.addi %30, %9 : index
// CHECK-NEXT:   %32 = arith.addi %31, %10 : index
// CHECK-NEXT:   %33 = arith.addi %31, %19 : index
// CHECK-NEXT:   %34 = arith.addi %31, %21 : index
// CHECK-NEXT:   %35 = arith.addi %31, %23 : index
// CHECK-NEXT:   %36 = arith.addi %31, %25 : index
// CHECK-NEXT:   %37 = arith.addi %31, %26 : index
// CHECK-NEXT:   %38 = arith.addi %31, %27 : index
// CHECK-NEXT:   scf.for %39 = %3 to %4 step %8 {
// CHECK-NEXT:     scf.for %40 = %9 to %8 step %8 {
// CHECK-NEXT:       %41 = arith.muli %40, %10 : index
// CHECK-NEXT:       %42 = arith.addi %13, %41 : index
// CHECK-NEXT:       %43 = arith.addi %11, %41 : index
// CHECK-NEXT:       %44 = arith.maxui %12, %41 : index
// CHECK-NEXT:       %45 = arith.subi %44, %41 : index
// CHECK-NEXT:       %46 = arith.minui %10, %45 : index
// CHECK-NEXT:       scf.for %47 = %9 to %46 step %8 {
// CHECK-NEXT:         %48 = arith.addi %42, %47 : index
// CHECK-NEXT:         %49 = arith.muli %47, %10 : index
// CHECK-NEXT:         %50 = arith.addi %11, %48 : index
// CHECK-NEXT:         %51 = arith.muli %50, %10 : index
// CHECK-NEXT:         scf.for %52 = %9 to %10 step %8 {
// CHECK-NEXT:           %53 = arith.addi %9, %52 : index
// CHECK-NEXT:           %54 = arith.addi %51, %53 : index
// CHECK-NEXT:           %55 = memref.load %1[%54] : memref<48xf32>
// CHECK-NEXT:           %56 = arith.addi %49, %52 : index
// CHECK-NEXT:           memref.store %55, %7[%56] : memref<64xf32>
// CHECK-NEXT:         } {cpu.parallel}
// CHECK-NEXT:       }
// CHECK-NEXT:       scf.for %57 = %46 to %10 step %8 {
// CHECK-NEXT:         %58 = arith.muli %57, %10 : index
// CHECK-NEXT:         scf.for %59 = %9 to %10 step %8 {
// CHECK-NEXT:           %60 = arith.addi %58, %59 : index
// CHECK-NEXT:           memref.store %14, %7[%60] : memref<64xf32>
// CHECK-NEXT:         } {cpu.parallel}
// CHECK-NEXT:       }
// CHECK-NEXT:       scf.for %61 = %9 to %17 step %8 {
// CHECK-NEXT:         %62 = arith.muli %61, %10 : index
// CHECK-NEXT:         %63 = vector.load %7[%62] : memref<64xf32>, vector<8xf32>
// CHECK-NEXT:         %64 = arith.addi %62, %10 : index
// CHECK-NEXT:         %65 = vector.load %7[%64] : memref<64xf32>, vector<8xf32>
// CHECK-NEXT:         %66 = arith.addi %62, %19 : index
// CHECK-NEXT:         %67 = vector.load %7[%66] : memref<64xf32>, vector<8xf32>
// CHECK-NEXT:         %68 = arith.addi %62, %21 : index
// CHECK-NEXT:         %69 = vector.load %7[%68] : memref<64xf32>, vector<8xf32>
// CHECK-NEXT:         %70 = arith.addi %62, %23 : index
// CHECK-NEXT:         %71 = vector.load %7[%70] : memref<64xf32>, vector<8xf32>
// CHECK-NEXT:         %72 = arith.addi %62, %25 : index
// CHECK-NEXT:         %73 = vector.load %7[%72] : memref<64xf32>, vector<8xf32>
// CHECK-NEXT:         %74 = arith.addi %62, %26 : index
// CHECK-NEXT:         %75 = vector.load %7[%74] : memref<64xf32>, vector<8xf32>
// CHECK-NEXT:         %76 = arith.addi %62, %27 : index
// CHECK-NEXT:         %77 = vector.load %7[%76] : memref<64xf32>, vector<8xf32>
// CHECK-NEXT:         %78 = arith.muli %62, %10 : index
// CHECK-NEXT:         %79 = arith.addi %43, %78 : index
// CHECK-NEXT:         %80 = vector.shuffle %63, %65 [0, 8, 2, 10, 4, 12, 6, 14] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %81 = vector.shuffle %63, %65 [1, 9, 3, 11, 5, 13, 7, 15] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %82 = vector.shuffle %67, %69 [0, 8, 2, 10, 4, 12, 6, 14] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %83 = vector.shuffle %67, %69 [1, 9, 3, 11, 5, 13, 7, 15] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %84 = vector.shuffle %71, %73 [0, 8, 2, 10, 4, 12, 6, 14] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %85 = vector.shuffle %71, %73 [1, 9, 3, 11, 5, 13, 7, 15] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %86 = vector.shuffle %75, %77 [0, 8, 2, 10, 4, 12, 6, 14] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %87 = vector.shuffle %75, %77 [1, 9, 3, 11, 5, 13, 7, 15] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %88 = vector.shuffle %80, %82 [0, 1, 8, 9, 4, 5, 12, 13] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %89 = vector.shuffle %80, %82 [2, 3, 10, 11, 6, 7, 14, 15] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %90 = vector.shuffle %81, %83 [0, 1, 8, 9, 4, 5, 12, 13] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %91 = vector.shuffle %81, %83 [2, 3, 10, 11, 6, 7, 14, 15] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %92 = vector.shuffle %84, %86 [0, 1, 8, 9, 4, 5, 12, 13] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %93 = vector.shuffle %84, %86 [2, 3, 10, 11, 6, 7, 14, 15] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %94 = vector.shuffle %85, %87 [0, 1, 8, 9, 4, 5, 12, 13] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %95 = vector.shuffle %85, %87 [2, 3, 10, 11, 6, 7, 14, 15] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %96 = vector.shuffle %88, %92 [0, 1, 2, 3, 8, 9, 10, 11] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %97 = vector.shuffle %88, %92 [4, 5, 6, 7, 12, 13, 14, 15] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %98 = vector.shuffle %90, %94 [0, 1, 2, 3, 8, 9, 10, 11] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %99 = vector.shuffle %90, %94 [4, 5, 6, 7, 12, 13, 14, 15] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %100 = vector.shuffle %89, %93 [0, 1, 2, 3, 8, 9, 10, 11] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %101 = vector.shuffle %89, %93 [4, 5, 6, 7, 12, 13, 14, 15] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %102 = vector.shuffle %91, %95 [0, 1, 2, 3, 8, 9, 10, 11] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         %103 = vector.shuffle %91, %95 [4, 5, 6, 7, 12, 13, 14, 15] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %96, %6[%79] : memref<128xf32>, vector<8xf32>
// CHECK-NEXT:         %104 = arith.addi %79, %10 : index
// CHECK-NEXT:         vector.store %98, %6[%104] : memref<128xf32>, vector<8xf32>
// CHECK-NEXT:         %105 = arith.addi %79, %19 : index
// CHECK-NEXT:         vector.store %100, %6[%105] : memref<128xf32>, vector<8xf32>
// CHECK-NEXT:         %106 = arith.addi %79, %21 : index
// CHECK-NEXT:         vector.store %102, %6[%106] : memref<128xf32>, vector<8xf32>
// CHECK-NEXT:         %107 = arith.addi %79, %23 : index
// CHECK-NEXT:         vector.store %97, %6[%107] : memref<128xf32>, vector<8xf32>
// CHECK-NEXT:         %108 = arith.addi %79, %25 : index
// CHECK-NEXT:         vector.store %99, %6[%108] : memref<128xf32>, vector<8xf32>
// CHECK-NEXT:         %109 = arith.addi %79, %26 : index
// CHECK-NEXT:         vector.store %101, %6[%109] : memref<128xf32>, vector<8xf32>
// CHECK-NEXT:         %110 = arith.addi %79, %27 : index
// CHECK-NEXT:         vector.store %103, %6[%110] : memref<128xf32>, vector<8xf32>
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK-NEXT:     scf.for %111 = %9 to %17 step %8 {
// CHECK-NEXT:       %112 = arith.muli %111, %10 : index
// CHECK-NEXT:       %113 = arith.addi %11, %112 : index
// CHECK-NEXT:       %114 = arith.addi %112, %8 : index
// CHECK-NEXT:       %115 = arith.addi %11, %114 : index
// CHECK-NEXT:       %116 = arith.addi %112, %18 : index
// CHECK-NEXT:       %117 = arith.addi %11, %116 : index
// CHECK-NEXT:       %118 = arith.addi %112, %20 : index
// CHECK-NEXT:       %119 = arith.addi %11, %118 : index
// CHECK-NEXT:       %120 = arith.addi %112, %22 : index
// CHECK-NEXT:       %121 = arith.addi %11, %120 : index
// CHECK-NEXT:       %122 = arith.addi %112, %24 : index
// CHECK-NEXT:       %123 = arith.addi %11, %122 : index
// CHECK-NEXT:       %124 = arith.addi %112, %12 : index
// CHECK-NEXT:       %125 = arith.addi %11, %124 : index
// CHECK-NEXT:       %126 = arith.addi %112, %15 : index
// CHECK-NEXT:       %127 = arith.addi %11, %126 : index
// CHECK-NEXT:       %128 = arith.muli %113, %10 : index
// CHECK-NEXT:       %129 = arith.muli %115, %10 : index
// CHECK-NEXT:       %130 = arith.muli %117, %10 : index
// CHECK-NEXT:       %131 = arith.muli %119, %10 : index
// CHECK-NEXT:       %132 = arith.muli %121, %10 : index
// CHECK-NEXT:       %133 = arith.muli %123, %10 : index
// CHECK-NEXT:       %134 = arith.muli %125, %10 : index
// CHECK-NEXT:       %135 = arith.muli %127, %10 : index
// CHECK-NEXT:       %136, %137, %138, %139, %140, %141, %142, %143 = scf.for %144 = %9 to %10 step %8 iter_args(%145 = %28, %146 = %28, %147 = %28, %148 = %28, %149 = %28, %150 = %28, %151 = %28, %152 = %28) -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>) {
// CHECK-NEXT:         %153 = arith.muli %144, %10 : index
// CHECK-NEXT:         %154 = arith.addi %11, %153 : index
// CHECK-NEXT:         %155 = vector.load %6[%154] : memref<128xf32>, vector<8xf32>
// CHECK-NEXT:         %156 = arith.addi %9, %144 : index
// CHECK-NEXT:         %157 = arith.addi %128, %156 : index
// CHECK-NEXT:         %158 = memref.load %0[%157] : memref<64xf32>
// CHECK-NEXT:         %159 = vector.broadcast %158 : f32 to vector<8xf32>
// CHECK-NEXT:         %160 = vector.fma %159, %155, %145 : vector<8xf32>
// CHECK-NEXT:         %161 = arith.addi %129, %156 : index
// CHECK-NEXT:         %162 = memref.load %0[%161] : memref<64xf32>
// CHECK-NEXT:         %163 = vector.broadcast %162 : f32 to vector<8xf32>
// CHECK-NEXT:         %164 = vector.fma %163, %155, %146 : vector<8xf32>
// CHECK-NEXT:         %165 = arith.addi %130, %156 : index
// CHECK-NEXT:         %166 = memref.load %0[%165] : memref<64xf32>
// CHECK-NEXT:         %167 = vector.broadcast %166 : f32 to vector<8xf32>
// CHECK-NEXT:         %168 = vector.fma %167, %155, %147 : vector<8xf32>
// CHECK-NEXT:         %169 = arith.addi %131, %156 : index
// CHECK-NEXT:         %170 = memref.load %0[%169] : memref<64xf32>
// CHECK-NEXT:         %171 = vector.broadcast %170 : f32 to vector<8xf32>
// CHECK-NEXT:         %172 = vector.fma %171, %155, %148 : vector<8xf32>
// CHECK-NEXT:         %173 = arith.addi %132, %156 : index
// CHECK-NEXT:         %174 = memref.load %0[%173] : memref<64xf32>
// CHECK-NEXT:         %175 = vector.broadcast %174 : f32 to vector<8xf32>
// CHECK-NEXT:         %176 = vector.fma %175, %155, %149 : vector<8xf32>
// CHECK-NEXT:         %177 = arith.addi %133, %156 : index
// CHECK-NEXT:         %178 = memref.load %0[%177] : memref<64xf32>
// CHECK-NEXT:         %179 = vector.broadcast %178 : f32 to vector<8xf32>
// CHECK-NEXT:         %180 = vector.fma %179, %155, %150 : vector<8xf32>
// CHECK-NEXT:         %181 = arith.addi %134, %156 : index
// CHECK-NEXT:         %182 = memref.load %0[%181] : memref<64xf32>
// CHECK-NEXT:         %183 = vector.broadcast %182 : f32 to vector<8xf32>
// CHECK-NEXT:         %184 = vector.fma %183, %155, %151 : vector<8xf32>
// CHECK-NEXT:         %185 = arith.addi %135, %156 : index
// CHECK-NEXT:         %186 = memref.load %0[%185] : memref<64xf32>
// CHECK-NEXT:         %187 = vector.broadcast %186 : f32 to vector<8xf32>
// CHECK-NEXT:         %188 = vector.fma %187, %155, %152 : vector<8xf32>
// CHECK-NEXT:         scf.yield %160, %164, %168, %172, %176, %180, %184, %188 : vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>
// CHECK-NEXT:       }
// CHECK-NEXT:       vector.store %136, %5[%31] : memref<64xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %137, %5[%32] : memref<64xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %138, %5[%33] : memref<64xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %139, %5[%34] : memref<64xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %140, %5[%35] : memref<64xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %141, %5[%36] : memref<64xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %142, %5[%37] : memref<64xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %143, %5[%38] : memref<64xf32>, vector<8xf32>
// CHECK-NEXT:       scf.for %189 = %9 to %10 step %8 {
// CHECK-NEXT:         %190 = arith.addi %112, %189 : index
// CHECK-NEXT:         %191 = arith.addi %11, %190 : index
// CHECK-NEXT:         %192 = arith.muli %189, %10 : index
// CHECK-NEXT:         %193 = arith.muli %191, %12 : index
// CHECK-NEXT:         %194 = arith.addi %13, %9 : index
// CHECK-NEXT:         %195 = arith.addi %11, %194 : index
// CHECK-NEXT:         %196 = arith.addi %192, %9 : index
// CHECK-NEXT:         %197 = memref.load %5[%196] : memref<64xf32>
// CHECK-NEXT:         %198 = arith.addi %193, %195 : index
// CHECK-NEXT:         memref.store %197, %2[%198] : memref<48xf32>
// CHECK-NEXT:         %199 = arith.addi %13, %8 : index
// CHECK-NEXT:         %200 = arith.addi %11, %199 : index
// CHECK-NEXT:         %201 = arith.addi %192, %8 : index
// CHECK-NEXT:         %202 = memref.load %5[%201] : memref<64xf32>
// CHECK-NEXT:         %203 = arith.addi %193, %200 : index
// CHECK-NEXT:         memref.store %202, %2[%203] : memref<48xf32>
// CHECK-NEXT:         %204 = arith.addi %13, %18 : index
// CHECK-NEXT:         %205 = arith.addi %11, %204 : index
// CHECK-NEXT:         %206 = arith.addi %192, %18 : index
// CHECK-NEXT:         %207 = memref.load %5[%206] : memref<64xf32>
// CHECK-NEXT:         %208 = arith.addi %193, %205 : index
// CHECK-NEXT:         memref.store %207, %2[%208] : memref<48xf32>
// CHECK-NEXT:         %209 = arith.addi %13, %20 : index
// CHECK-NEXT:         %210 = arith.addi %11, %209 : index
// CHECK-NEXT:         %211 = arith.addi %192, %20 : index
// CHECK-NEXT:         %212 = memref.load %5[%211] : memref<64xf32>
// CHECK-NEXT:         %213 = arith.addi %193, %210 : index
// CHECK-NEXT:         memref.store %212, %2[%213] : memref<48xf32>
// CHECK-NEXT:         %214 = arith.addi %13, %22 : index
// CHECK-NEXT:         %215 = arith.addi %11, %214 : index
// CHECK-NEXT:         %216 = arith.addi %192, %22 : index
// CHECK-NEXT:         %217 = memref.load %5[%216] : memref<64xf32>
// CHECK-NEXT:         %218 = arith.addi %193, %215 : index
// CHECK-NEXT:         memref.store %217, %2[%218] : memref<48xf32>
// CHECK-NEXT:         %219 = arith.addi %13, %24 : index
// CHECK-NEXT:         %220 = arith.addi %11, %219 : index
// CHECK-NEXT:         %221 = arith.addi %192, %24 : index
// CHECK-NEXT:         %222 = memref.load %5[%221] : memref<64xf32>
// CHECK-NEXT:         %223 = arith.addi %193, %220 : index
// CHECK-NEXT:         memref.store %222, %2[%223] : memref<48xf32>
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }
// CHECK: buf.dispatch @packed0 workgroups = [1, 1, 1] attributes {buf.bytes_moved = 640 : i64, buf.flops = {{[0-9]+}} : i64} (%x, %w, %2) : memref<8x8xf32>, memref<6x8xf32>, memref<8x6xf32>
