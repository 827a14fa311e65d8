// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu' | filecheck %s

// With few rows and long lines, the image is copied with its padding, and vectors of windows are read from the copy: 30
// elements of a line as vectors of 8, the last two of which overlap, and zeros around them. Of the columns at the ends of
// lines, the epilogue stores none.
func.func @padded_image(%x: tensor<1x4x2x30xf32>, %w: tensor<4x4x3x3xf32>) -> tensor<1x4x2x30xf32> {
  %0 = tg.conv %x, %w stride = [1, 1] low = [1, 1] high = [1, 1] lhs_dilation = [1, 1] rhs_dilation = [1, 1] groups = 1 : tensor<1x4x2x30xf32>, tensor<4x4x3x3xf32>
  func.return %0 : tensor<1x4x2x30xf32>
}
// CHECK:      cpu.kernel @packed0 access = ["read", "read", "read_write"] {
// CHECK-NEXT: ^bb0(%0: memref<240xf32>, %1: memref<144xf32>, %2: memref<240xf32>, %3: index, %4: index):
// CHECK-NEXT:   %5 = memref.alloca() : memref<36xi32>
// CHECK-NEXT:   %6 = memref.alloca() : memref<36xi32>
// CHECK-NEXT:   %7 = memref.alloca() : memref<36xi32>
// CHECK-NEXT:   %8 = memref.alloca() : memref<256xf32>
// CHECK-NEXT:   %9 = memref.alloca() : memref<36xi32>
// CHECK-NEXT:   %10 = memref.alloca() : memref<600xf32>
// CHECK-NEXT:   %11 = arith.constant 4 : index
// CHECK-NEXT:   %12 = arith.constant 0 : index
// CHECK-NEXT:   %13 = arith.constant 1 : index
// CHECK-NEXT:   %14 = arith.constant 3 : index
// CHECK-NEXT:   %15 = arith.constant 144 : index
// CHECK-NEXT:   %16 = arith.constant 32 : index
// CHECK-NEXT:   scf.for %17 = %12 to %11 step %13 {
// CHECK-NEXT:     %18 = arith.muli %17, %14 : index
// CHECK-NEXT:     scf.for %19 = %12 to %14 step %13 {
// CHECK-NEXT:       %20 = arith.addi %18, %19 : index
// CHECK-NEXT:       %21 = arith.muli %20, %14 : index
// CHECK-NEXT:       %22 = arith.remui %19, %13 : index
// CHECK-NEXT:       %23 = arith.addi %17, %22 : index
// CHECK-NEXT:       %24 = arith.muli %19, %16 : index
// CHECK-NEXT:       scf.for %25 = %12 to %14 step %13 {
// CHECK-NEXT:         %26 = arith.addi %21, %25 : index
// CHECK-NEXT:         %27 = arith.remui %25, %13 : index
// CHECK-NEXT:         %28 = arith.addi %23, %27 : index
// CHECK-NEXT:         %29 = arith.muli %28, %15 : index
// CHECK-NEXT:         %30 = arith.addi %29, %25 : index
// CHECK-NEXT:         %31 = arith.addi %30, %24 : index
// CHECK-NEXT:         %32 = arith.index_cast %31 : index to i32
// CHECK-NEXT:         memref.store %32, %9[%26] : memref<36xi32>
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   %33 = arith.muli %12, %11 : index
// CHECK-NEXT:   %34 = arith.constant 48 : index
// CHECK-NEXT:   %35 = arith.muli %12, %34 : index
// CHECK-NEXT:   %36 = arith.constant 14 : index
// CHECK-NEXT:   %37 = arith.addi %34, %36 : index
// CHECK-NEXT:   %38 = arith.constant 36 : index
// CHECK-NEXT:   %39 = arith.constant 9 : index
// CHECK-NEXT:   %40 = arith.divui %38, %39 : index
// CHECK-NEXT:   %41 = arith.divui %12, %39 : index
// CHECK-NEXT:   %42 = arith.divui %35, %16 : index
// CHECK-NEXT:   %43 = arith.constant 2 : index
// CHECK-NEXT:   %44 = arith.constant 30 : index
// CHECK-NEXT:   %45 = arith.constant 60 : index
// CHECK-NEXT:   %46 = arith.addi %11, %14 : index
// CHECK-NEXT:   %47 = arith.divui %46, %11 : index
// CHECK-NEXT:   %48 = arith.constant 24 : index
// CHECK-NEXT:   %49 = arith.divui %34, %48 : index
// CHECK-NEXT:   %50 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:   %51 = vector.broadcast %50 : f32 to vector<8xf32>
// CHECK-NEXT:   %52 = arith.muli %42, %16 : index
// CHECK-NEXT:   %53 = arith.subi %35, %52 : index
// CHECK-NEXT:   %54 = arith.constant 8 : index
// CHECK-NEXT:   %55 = arith.constant 16 : index
// CHECK-NEXT:   %56 = arith.constant 256 : index
// CHECK-NEXT:   %57 = arith.muli %12, %56 : index
// CHECK-NEXT:   %58 = arith.constant 64 : index
// CHECK-NEXT:   %59 = arith.constant 72 : index
// CHECK-NEXT:   %60 = arith.constant 80 : index
// CHECK-NEXT:   %61 = arith.constant 128 : index
// CHECK-NEXT:   %62 = arith.constant 136 : index
// CHECK-NEXT:   %63 = arith.constant 192 : index
// CHECK-NEXT:   %64 = arith.constant 200 : index
// CHECK-NEXT:   %65 = arith.constant 208 : index
// CHECK-NEXT:   %66 = arith.subi %37, %55 : index
// CHECK-NEXT:   %67 = arith.addi %53, %66 : index
// CHECK-NEXT:   %68 = arith.addi %57, %66 : index
// CHECK-NEXT:   %69 = arith.addi %68, %54 : index
// CHECK-NEXT:   %70 = arith.addi %68, %58 : index
// CHECK-NEXT:   %71 = arith.addi %68, %59 : index
// CHECK-NEXT:   %72 = arith.addi %68, %61 : index
// CHECK-NEXT:   %73 = arith.addi %68, %62 : index
// CHECK-NEXT:   %74 = arith.addi %68, %63 : index
// CHECK-NEXT:   %75 = arith.addi %68, %64 : index
// CHECK-NEXT:   %76 = arith.addi %35, %37 : index
// CHECK-NEXT:   %77 = arith.constant 31 : index
// CHECK-NEXT:   %78 = arith.addi %76, %77 : index
// CHECK-NEXT:   %79 = arith.divui %78, %16 : index
// CHECK-NEXT:   scf.for %80 = %3 to %4 step %13 {
// CHECK-NEXT:     scf.for %81 = %12 to %38 step %13 {
// CHECK-NEXT:       %82 = arith.addi %12, %81 : index
// CHECK-NEXT:       %83 = arith.divui %82, %39 : index
// CHECK-NEXT:       %84 = arith.index_cast %83 : index to i32
// CHECK-NEXT:       memref.store %84, %7[%81] : memref<36xi32>
// CHECK-NEXT:       %85 = arith.divui %82, %14 : index
// CHECK-NEXT:       %86 = arith.remui %85, %14 : index
// CHECK-NEXT:       %87 = arith.index_cast %86 : index to i32
// CHECK-NEXT:       memref.store %87, %6[%81] : memref<36xi32>
// CHECK-NEXT:       %88 = arith.remui %82, %14 : index
// CHECK-NEXT:       %89 = arith.index_cast %88 : index to i32
// CHECK-NEXT:       memref.store %89, %5[%81] : memref<36xi32>
// CHECK-NEXT:     } {cpu.parallel}
// CHECK-NEXT:     scf.for %90 = %12 to %40 step %13 {
// CHECK-NEXT:       %91 = arith.addi %41, %90 : index
// CHECK-NEXT:       %92 = arith.muli %91, %45 : index
// CHECK-NEXT:       scf.for %93 = %12 to %13 step %13 {
// CHECK-NEXT:         %94 = arith.addi %90, %93 : index
// CHECK-NEXT:         %95 = arith.addi %94, %12 : index
// CHECK-NEXT:         %96 = arith.muli %95, %15 : index
// CHECK-NEXT:         %97 = arith.muli %93, %44 : index
// CHECK-NEXT:         scf.for %98 = %12 to %11 step %13 {
// CHECK-NEXT:           %99 = arith.addi %42, %98 : index
// CHECK-NEXT:           %100 = arith.muli %98, %16 : index
// CHECK-NEXT:           %101 = arith.addi %12, %100 : index
// CHECK-NEXT:           %102 = arith.addi %96, %101 : index
// CHECK-NEXT:           %103 = arith.subi %99, %13 : index
// CHECK-NEXT:           %104 = arith.addi %103, %93 : index
// CHECK-NEXT:           %105 = arith.cmpi ult, %104, %43 : index
// CHECK-NEXT:           %106 = arith.muli %99, %44 : index
// CHECK-NEXT:           %107 = arith.subi %106, %44 : index
// CHECK-NEXT:           %108 = arith.addi %107, %92 : index
// CHECK-NEXT:           %109 = arith.addi %108, %97 : index
// CHECK-NEXT:           scf.if %105 {
// CHECK-NEXT:             %110 = vector.broadcast %50 : f32 to vector<1xf32>
// CHECK-NEXT:             vector.store %110, %10[%102] : memref<600xf32>, vector<1xf32>
// CHECK-NEXT:             %111 = arith.addi %102, %13 : index
// CHECK-NEXT:             scf.for %112 = %12 to %48 step %54 {
// CHECK-NEXT:               %113 = arith.addi %109, %112 : index
// CHECK-NEXT:               %114 = vector.load %0[%113] : memref<240xf32>, vector<8xf32>
// CHECK-NEXT:               %115 = arith.addi %111, %112 : index
// CHECK-NEXT:               vector.store %114, %10[%115] : memref<600xf32>, vector<8xf32>
// CHECK-NEXT:             }
// CHECK-NEXT:             %116 = arith.constant 22 : index
// CHECK-NEXT:             %117 = arith.addi %109, %116 : index
// CHECK-NEXT:             %118 = vector.load %0[%117] : memref<240xf32>, vector<8xf32>
// CHECK-NEXT:             %119 = arith.addi %111, %116 : index
// CHECK-NEXT:             vector.store %118, %10[%119] : memref<600xf32>, vector<8xf32>
// CHECK-NEXT:             %120 = arith.addi %102, %77 : index
// CHECK-NEXT:             vector.store %110, %10[%120] : memref<600xf32>, vector<1xf32>
// CHECK-NEXT:           } else {
// CHECK-NEXT:             scf.for %121 = %12 to %16 step %54 {
// CHECK-NEXT:               %122 = arith.addi %102, %121 : index
// CHECK-NEXT:               vector.store %51, %10[%122] : memref<600xf32>, vector<8xf32>
// CHECK-NEXT:             }
// CHECK-NEXT:           }
// CHECK-NEXT:         }
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK-NEXT:     scf.for %123 = %12 to %47 step %13 {
// CHECK-NEXT:       %124 = arith.muli %123, %11 : index
// CHECK-NEXT:       %125 = arith.addi %33, %124 : index
// CHECK-NEXT:       %126 = arith.addi %124, %13 : index
// CHECK-NEXT:       %127 = arith.addi %33, %126 : index
// CHECK-NEXT:       %128 = arith.addi %124, %43 : index
// CHECK-NEXT:       %129 = arith.addi %33, %128 : index
// CHECK-NEXT:       %130 = arith.addi %124, %14 : index
// CHECK-NEXT:       %131 = arith.addi %33, %130 : index
// CHECK-NEXT:       %132 = arith.muli %125, %38 : index
// CHECK-NEXT:       %133 = arith.muli %127, %38 : index
// CHECK-NEXT:       %134 = arith.muli %129, %38 : index
// CHECK-NEXT:       %135 = arith.muli %131, %38 : index
// CHECK-NEXT:       scf.for %136 = %12 to %49 step %13 {
// CHECK-NEXT:         %137 = arith.muli %136, %48 : index
// CHECK-NEXT:         %138 = arith.addi %53, %137 : index
// CHECK-NEXT:         %139, %140, %141, %142, %143, %144, %145, %146, %147, %148, %149, %150 = scf.for %151 = %12 to %38 step %13 iter_args(%152 = %51, %153 = %51, %154 = %51, %155 = %51, %156 = %51, %157 = %51, %158 = %51, %159 = %51, %160 = %51, %161 = %51, %162 = %51, %163 = %51) -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>) {
// CHECK-NEXT:           %164 = memref.load %9[%151] : memref<36xi32>
// CHECK-NEXT:           %165 = arith.index_cast %164 : i32 to index
// CHECK-NEXT:           %166 = arith.addi %165, %138 : index
// CHECK-NEXT:           %167 = vector.load %10[%166] : memref<600xf32>, vector<8xf32>
// CHECK-NEXT:           %168 = arith.addi %166, %54 : index
// CHECK-NEXT:           %169 = vector.load %10[%168] : memref<600xf32>, vector<8xf32>
// CHECK-NEXT:           %170 = arith.addi %166, %55 : index
// CHECK-NEXT:           %171 = vector.load %10[%170] : memref<600xf32>, vector<8xf32>
// CHECK-NEXT:           %172 = arith.addi %12, %151 : index
// CHECK-NEXT:           %173 = arith.addi %132, %172 : index
// CHECK-NEXT:           %174 = memref.load %1[%173] : memref<144xf32>
// CHECK-NEXT:           %175 = vector.broadcast %174 : f32 to vector<8xf32>
// CHECK-NEXT:           %176 = vector.fma %175, %167, %152 : vector<8xf32>
// CHECK-NEXT:           %177 = vector.fma %175, %169, %153 : vector<8xf32>
// CHECK-NEXT:           %178 = vector.fma %175, %171, %154 : vector<8xf32>
// CHECK-NEXT:           %179 = arith.addi %133, %172 : index
// CHECK-NEXT:           %180 = memref.load %1[%179] : memref<144xf32>
// CHECK-NEXT:           %181 = vector.broadcast %180 : f32 to vector<8xf32>
// CHECK-NEXT:           %182 = vector.fma %181, %167, %155 : vector<8xf32>
// CHECK-NEXT:           %183 = vector.fma %181, %169, %156 : vector<8xf32>
// CHECK-NEXT:           %184 = vector.fma %181, %171, %157 : vector<8xf32>
// CHECK-NEXT:           %185 = arith.addi %134, %172 : index
// CHECK-NEXT:           %186 = memref.load %1[%185] : memref<144xf32>
// CHECK-NEXT:           %187 = vector.broadcast %186 : f32 to vector<8xf32>
// CHECK-NEXT:           %188 = vector.fma %187, %167, %158 : vector<8xf32>
// CHECK-NEXT:           %189 = vector.fma %187, %169, %159 : vector<8xf32>
// CHECK-NEXT:           %190 = vector.fma %187, %171, %160 : vector<8xf32>
// CHECK-NEXT:           %191 = arith.addi %135, %172 : index
// CHECK-NEXT:           %192 = memref.load %1[%191] : memref<144xf32>
// CHECK-NEXT:           %193 = vector.broadcast %192 : f32 to vector<8xf32>
// CHECK-NEXT:           %194 = vector.fma %193, %167, %161 : vector<8xf32>
// CHECK-NEXT:           %195 = vector.fma %193, %169, %162 : vector<8xf32>
// CHECK-NEXT:           %196 = vector.fma %193, %171, %163 : vector<8xf32>
// CHECK-NEXT:           scf.yield %176, %177, %178, %182, %183, %184, %188, %189, %190, %194, %195, %196 : vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         }
// CHECK-NEXT:         %197 = arith.addi %57, %137 : index
// CHECK-NEXT:         %198 = arith.addi %197, %54 : index
// CHECK-NEXT:         %199 = arith.addi %197, %55 : index
// CHECK-NEXT:         %200 = arith.addi %197, %58 : index
// CHECK-NEXT:         %201 = arith.addi %197, %59 : index
// CHECK-NEXT:         %202 = arith.addi %197, %60 : index
// CHECK-NEXT:         %203 = arith.addi %197, %61 : index
// CHECK-NEXT:         %204 = arith.addi %197, %62 : index
// CHECK-NEXT:         %205 = arith.addi %197, %15 : index
// CHECK-NEXT:         %206 = arith.addi %197, %63 : index
// CHECK-NEXT:         %207 = arith.addi %197, %64 : index
// CHECK-NEXT:         %208 = arith.addi %197, %65 : index
// CHECK-NEXT:         vector.store %139, %8[%197] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %140, %8[%198] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %141, %8[%199] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %142, %8[%200] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %143, %8[%201] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %144, %8[%202] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %145, %8[%203] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %146, %8[%204] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %147, %8[%205] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %148, %8[%206] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %149, %8[%207] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %150, %8[%208] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:       }
// CHECK-NEXT:       %209, %210, %211, %212, %213, %214, %215, %216 = scf.for %217 = %12 to %38 step %13 iter_args(%218 = %51, %219 = %51, %220 = %51, %221 = %51, %222 = %51, %223 = %51, %224 = %51, %225 = %51) -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>) {
// CHECK-NEXT:         %226 = memref.load %9[%217] : memref<36xi32>
// CHECK-NEXT:         %227 = arith.index_cast %226 : i32 to index
// CHECK-NEXT:         %228 = arith.addi %227, %67 : index
// CHECK-NEXT:         %229 = vector.load %10[%228] : memref<600xf32>, vector<8xf32>
// CHECK-NEXT:         %230 = arith.addi %228, %54 : index
// CHECK-NEXT:         %231 = vector.load %10[%230] : memref<600xf32>, vector<8xf32>
// CHECK-NEXT:         %232 = arith.addi %12, %217 : index
// CHECK-NEXT:         %233 = arith.addi %132, %232 : index
// CHECK-NEXT:         %234 = memref.load %1[%233] : memref<144xf32>
// CHECK-NEXT:         %235 = vector.broadcast %234 : f32 to vector<8xf32>
// CHECK-NEXT:         %236 = vector.fma %235, %229, %218 : vector<8xf32>
// CHECK-NEXT:         %237 = vector.fma %235, %231, %219 : vector<8xf32>
// CHECK-NEXT:         %238 = arith.addi %133, %232 : index
// CHECK-NEXT:         %239 = memref.load %1[%238] : memref<144xf32>
// CHECK-NEXT:         %240 = vector.broadcast %239 : f32 to vector<8xf32>
// CHECK-NEXT:         %241 = vector.fma %240, %229, %220 : vector<8xf32>
// CHECK-NEXT:         %242 = vector.fma %240, %231, %221 : vector<8xf32>
// CHECK-NEXT:         %243 = arith.addi %134, %232 : index
// CHECK-NEXT:         %244 = memref.load %1[%243] : memref<144xf32>
// CHECK-NEXT:         %245 = vector.broadcast %244 : f32 to vector<8xf32>
// CHECK-NEXT:         %246 = vector.fma %245, %229, %222 : vector<8xf32>
// CHECK-NEXT:         %247 = vector.fma %245, %231, %223 : vector<8xf32>
// CHECK-NEXT:         %248 = arith.addi %135, %232 : index
// CHECK-NEXT:         %249 = memref.load %1[%248] : memref<144xf32>
// CHECK-NEXT:         %250 = vector.broadcast %249 : f32 to vector<8xf32>
// CHECK-NEXT:         %251 = vector.fma %250, %229, %224 : vector<8xf32>
// CHECK-NEXT:         %252 = vector.fma %250, %231, %225 : vector<8xf32>
// CHECK-NEXT:         scf.yield %236, %237, %241, %242, %246, %247, %251, %252 : vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>
// CHECK-NEXT:       }
// CHECK-NEXT:       vector.store %209, %8[%68] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %210, %8[%69] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %211, %8[%70] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %212, %8[%71] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %213, %8[%72] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %214, %8[%73] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %215, %8[%74] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %216, %8[%75] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:       scf.for %253 = %12 to %11 step %13 {
// CHECK-NEXT:         %254 = arith.addi %124, %253 : index
// CHECK-NEXT:         %255 = arith.addi %33, %254 : index
// CHECK-NEXT:         %256 = arith.muli %253, %58 : index
// CHECK-NEXT:         %257 = arith.addi %57, %256 : index
// CHECK-NEXT:         %258 = arith.muli %255, %45 : index
// CHECK-NEXT:         scf.for %259 = %42 to %79 step %13 {
// CHECK-NEXT:           %260 = arith.muli %259, %16 : index
// CHECK-NEXT:           %261 = arith.maxui %260, %35 : index
// CHECK-NEXT:           %262 = arith.addi %260, %44 : index
// CHECK-NEXT:           %263 = arith.maxui %262, %35 : index
// CHECK-NEXT:           %264 = arith.minui %263, %76 : index
// CHECK-NEXT:           %265 = arith.subi %264, %35 : index
// CHECK-NEXT:           %266 = arith.subi %261, %35 : index
// CHECK-NEXT:           %267 = arith.muli %259, %44 : index
// CHECK-NEXT:           %268 = arith.addi %258, %267 : index
// CHECK-NEXT:           scf.for %269 = %266 to %265 step %13 {
// CHECK-NEXT:             %270 = arith.addi %35, %269 : index
// CHECK-NEXT:             %271 = arith.subi %270, %260 : index
// CHECK-NEXT:             %272 = arith.addi %257, %269 : index
// CHECK-NEXT:             %273 = memref.load %8[%272] : memref<256xf32>
// CHECK-NEXT:             %274 = arith.addi %268, %271 : index
// CHECK-NEXT:             memref.store %273, %2[%274] : memref<240xf32>
// CHECK-NEXT:           } {cpu.parallel, cpu.masked}
// CHECK-NEXT:         }
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }
// CHECK: buf.dispatch @packed0 workgroups = [1, 1, 1] attributes {buf.bytes_moved = 2496 : i64, buf.flops = {{[0-9]+}} : i64} (%x, %w, %2) : memref<1x4x2x30xf32>, memref<4x4x3x3xf32>, memref<1x4x2x30xf32>
