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
// CHECK-NEXT:   %36 = arith.constant 62 : index
// CHECK-NEXT:   %37 = arith.constant 36 : index
// CHECK-NEXT:   %38 = arith.constant 9 : index
// CHECK-NEXT:   %39 = arith.divui %37, %38 : index
// CHECK-NEXT:   %40 = arith.divui %12, %38 : index
// CHECK-NEXT:   %41 = arith.divui %35, %16 : index
// CHECK-NEXT:   %42 = arith.constant 2 : index
// CHECK-NEXT:   %43 = arith.constant 30 : index
// CHECK-NEXT:   %44 = arith.constant 60 : index
// CHECK-NEXT:   %45 = arith.addi %11, %14 : index
// CHECK-NEXT:   %46 = arith.divui %45, %11 : index
// CHECK-NEXT:   %47 = arith.constant 24 : index
// CHECK-NEXT:   %48 = arith.divui %34, %47 : index
// CHECK-NEXT:   %49 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:   %50 = vector.broadcast %49 : f32 to vector<8xf32>
// CHECK-NEXT:   %51 = arith.muli %41, %16 : index
// CHECK-NEXT:   %52 = arith.subi %35, %51 : index
// CHECK-NEXT:   %53 = arith.constant 8 : index
// CHECK-NEXT:   %54 = arith.constant 16 : index
// CHECK-NEXT:   %55 = arith.constant 256 : index
// CHECK-NEXT:   %56 = arith.muli %12, %55 : index
// CHECK-NEXT:   %57 = arith.constant 64 : index
// CHECK-NEXT:   %58 = arith.constant 72 : index
// CHECK-NEXT:   %59 = arith.constant 80 : index
// CHECK-NEXT:   %60 = arith.constant 128 : index
// CHECK-NEXT:   %61 = arith.constant 136 : index
// CHECK-NEXT:   %62 = arith.constant 192 : index
// CHECK-NEXT:   %63 = arith.constant 200 : index
// CHECK-NEXT:   %64 = arith.constant 208 : index
// CHECK-NEXT:   %65 = arith.subi %36, %54 : index
// CHECK-NEXT:   %66 = arith.addi %52, %65 : index
// CHECK-NEXT:   %67 = arith.addi %56, %65 : index
// CHECK-NEXT:   %68 = arith.addi %67, %53 : index
// CHECK-NEXT:   %69 = arith.addi %67, %57 : index
// CHECK-NEXT:   %70 = arith.addi %67, %58 : index
// CHECK-NEXT:   %71 = arith.addi %67, %60 : index
// CHECK-NEXT:   %72 = arith.addi %67, %61 : index
// CHECK-NEXT:   %73 = arith.addi %67, %62 : index
// CHECK-NEXT:   %74 = arith.addi %67, %63 : index
// CHECK-NEXT:   %75 = arith.addi %35, %36 : index
// CHECK-NEXT:   %76 = arith.constant 31 : index
// CHECK-NEXT:   %77 = arith.addi %75, %76 : index
// CHECK-NEXT:   %78 = arith.divui %77, %16 : index
// CHECK-NEXT:   scf.for %79 = %3 to %4 step %13 {
// CHECK-NEXT:     scf.for %80 = %12 to %37 step %13 {
// CHECK-NEXT:       %81 = arith.addi %12, %80 : index
// CHECK-NEXT:       %82 = arith.divui %81, %38 : index
// CHECK-NEXT:       %83 = arith.index_cast %82 : index to i32
// CHECK-NEXT:       memref.store %83, %7[%80] : memref<36xi32>
// CHECK-NEXT:       %84 = arith.divui %81, %14 : index
// CHECK-NEXT:       %85 = arith.remui %84, %14 : index
// CHECK-NEXT:       %86 = arith.index_cast %85 : index to i32
// CHECK-NEXT:       memref.store %86, %6[%80] : memref<36xi32>
// CHECK-NEXT:       %87 = arith.remui %81, %14 : index
// CHECK-NEXT:       %88 = arith.index_cast %87 : index to i32
// CHECK-NEXT:       memref.store %88, %5[%80] : memref<36xi32>
// CHECK-NEXT:     } {cpu.parallel}
// CHECK-NEXT:     scf.for %89 = %12 to %39 step %13 {
// CHECK-NEXT:       %90 = arith.addi %40, %89 : index
// CHECK-NEXT:       %91 = arith.muli %90, %44 : index
// CHECK-NEXT:       scf.for %92 = %12 to %13 step %13 {
// CHECK-NEXT:         %93 = arith.addi %89, %92 : index
// CHECK-NEXT:         %94 = arith.addi %93, %12 : index
// CHECK-NEXT:         %95 = arith.muli %94, %15 : index
// CHECK-NEXT:         %96 = arith.muli %92, %43 : index
// CHECK-NEXT:         scf.for %97 = %12 to %11 step %13 {
// CHECK-NEXT:           %98 = arith.addi %41, %97 : index
// CHECK-NEXT:           %99 = arith.muli %97, %16 : index
// CHECK-NEXT:           %100 = arith.addi %12, %99 : index
// CHECK-NEXT:           %101 = arith.addi %95, %100 : index
// CHECK-NEXT:           %102 = arith.subi %98, %13 : index
// CHECK-NEXT:           %103 = arith.addi %102, %92 : index
// CHECK-NEXT:           %104 = arith.cmpi ult, %103, %42 : index
// CHECK-NEXT:           %105 = arith.muli %98, %43 : index
// CHECK-NEXT:           %106 = arith.subi %105, %43 : index
// CHECK-NEXT:           %107 = arith.addi %106, %91 : index
// CHECK-NEXT:           %108 = arith.addi %107, %96 : index
// CHECK-NEXT:           scf.if %104 {
// CHECK-NEXT:             %109 = vector.broadcast %49 : f32 to vector<1xf32>
// CHECK-NEXT:             vector.store %109, %10[%101] : memref<600xf32>, vector<1xf32>
// CHECK-NEXT:             %110 = arith.addi %101, %13 : index
// CHECK-NEXT:             scf.for %111 = %12 to %47 step %53 {
// CHECK-NEXT:               %112 = arith.addi %108, %111 : index
// CHECK-NEXT:               %113 = vector.load %0[%112] : memref<240xf32>, vector<8xf32>
// CHECK-NEXT:               %114 = arith.addi %110, %111 : index
// CHECK-NEXT:               vector.store %113, %10[%114] : memref<600xf32>, vector<8xf32>
// CHECK-NEXT:             }
// CHECK-NEXT:             %115 = arith.constant 22 : index
// CHECK-NEXT:             %116 = arith.addi %108, %115 : index
// CHECK-NEXT:             %117 = vector.load %0[%116] : memref<240xf32>, vector<8xf32>
// CHECK-NEXT:             %118 = arith.addi %110, %115 : index
// CHECK-NEXT:             vector.store %117, %10[%118] : memref<600xf32>, vector<8xf32>
// CHECK-NEXT:             %119 = arith.addi %101, %76 : index
// CHECK-NEXT:             vector.store %109, %10[%119] : memref<600xf32>, vector<1xf32>
// CHECK-NEXT:           } else {
// CHECK-NEXT:             scf.for %120 = %12 to %16 step %53 {
// CHECK-NEXT:               %121 = arith.addi %101, %120 : index
// CHECK-NEXT:               vector.store %50, %10[%121] : memref<600xf32>, vector<8xf32>
// CHECK-NEXT:             }
// CHECK-NEXT:           }
// CHECK-NEXT:         }
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK-NEXT:     scf.for %122 = %12 to %46 step %13 {
// CHECK-NEXT:       %123 = arith.muli %122, %11 : index
// CHECK-NEXT:       %124 = arith.addi %33, %123 : index
// CHECK-NEXT:       %125 = arith.addi %123, %13 : index
// CHECK-NEXT:       %126 = arith.addi %33, %125 : index
// CHECK-NEXT:       %127 = arith.addi %123, %42 : index
// CHECK-NEXT:       %128 = arith.addi %33, %127 : index
// CHECK-NEXT:       %129 = arith.addi %123, %14 : index
// CHECK-NEXT:       %130 = arith.addi %33, %129 : index
// CHECK-NEXT:       %131 = arith.muli %124, %37 : index
// CHECK-NEXT:       %132 = arith.muli %126, %37 : index
// CHECK-NEXT:       %133 = arith.muli %128, %37 : index
// CHECK-NEXT:       %134 = arith.muli %130, %37 : index
// CHECK-NEXT:       scf.for %135 = %12 to %48 step %13 {
// CHECK-NEXT:         %136 = arith.muli %135, %47 : index
// CHECK-NEXT:         %137 = arith.addi %52, %136 : index
// CHECK-NEXT:         %138, %139, %140, %141, %142, %143, %144, %145, %146, %147, %148, %149 = scf.for %150 = %12 to %37 step %13 iter_args(%151 = %50, %152 = %50, %153 = %50, %154 = %50, %155 = %50, %156 = %50, %157 = %50, %158 = %50, %159 = %50, %160 = %50, %161 = %50, %162 = %50) -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>) {
// CHECK-NEXT:           %163 = memref.load %9[%150] : memref<36xi32>
// CHECK-NEXT:           %164 = arith.index_cast %163 : i32 to index
// CHECK-NEXT:           %165 = arith.addi %164, %137 : index
// CHECK-NEXT:           %166 = vector.load %10[%165] : memref<600xf32>, vector<8xf32>
// CHECK-NEXT:           %167 = arith.addi %165, %53 : index
// CHECK-NEXT:           %168 = vector.load %10[%167] : memref<600xf32>, vector<8xf32>
// CHECK-NEXT:           %169 = arith.addi %165, %54 : index
// CHECK-NEXT:           %170 = vector.load %10[%169] : memref<600xf32>, vector<8xf32>
// CHECK-NEXT:           %171 = arith.addi %12, %150 : index
// CHECK-NEXT:           %172 = arith.addi %131, %171 : index
// CHECK-NEXT:           %173 = memref.load %1[%172] : memref<144xf32>
// CHECK-NEXT:           %174 = vector.broadcast %173 : f32 to vector<8xf32>
// CHECK-NEXT:           %175 = vector.fma %174, %166, %151 : vector<8xf32>
// CHECK-NEXT:           %176 = vector.fma %174, %168, %152 : vector<8xf32>
// CHECK-NEXT:           %177 = vector.fma %174, %170, %153 : vector<8xf32>
// CHECK-NEXT:           %178 = arith.addi %132, %171 : index
// CHECK-NEXT:           %179 = memref.load %1[%178] : memref<144xf32>
// CHECK-NEXT:           %180 = vector.broadcast %179 : f32 to vector<8xf32>
// CHECK-NEXT:           %181 = vector.fma %180, %166, %154 : vector<8xf32>
// CHECK-NEXT:           %182 = vector.fma %180, %168, %155 : vector<8xf32>
// CHECK-NEXT:           %183 = vector.fma %180, %170, %156 : vector<8xf32>
// CHECK-NEXT:           %184 = arith.addi %133, %171 : index
// CHECK-NEXT:           %185 = memref.load %1[%184] : memref<144xf32>
// CHECK-NEXT:           %186 = vector.broadcast %185 : f32 to vector<8xf32>
// CHECK-NEXT:           %187 = vector.fma %186, %166, %157 : vector<8xf32>
// CHECK-NEXT:           %188 = vector.fma %186, %168, %158 : vector<8xf32>
// CHECK-NEXT:           %189 = vector.fma %186, %170, %159 : vector<8xf32>
// CHECK-NEXT:           %190 = arith.addi %134, %171 : index
// CHECK-NEXT:           %191 = memref.load %1[%190] : memref<144xf32>
// CHECK-NEXT:           %192 = vector.broadcast %191 : f32 to vector<8xf32>
// CHECK-NEXT:           %193 = vector.fma %192, %166, %160 : vector<8xf32>
// CHECK-NEXT:           %194 = vector.fma %192, %168, %161 : vector<8xf32>
// CHECK-NEXT:           %195 = vector.fma %192, %170, %162 : vector<8xf32>
// CHECK-NEXT:           scf.yield %175, %176, %177, %181, %182, %183, %187, %188, %189, %193, %194, %195 : vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         }
// CHECK-NEXT:         %196 = arith.addi %56, %136 : index
// CHECK-NEXT:         %197 = arith.addi %196, %53 : index
// CHECK-NEXT:         %198 = arith.addi %196, %54 : index
// CHECK-NEXT:         %199 = arith.addi %196, %57 : index
// CHECK-NEXT:         %200 = arith.addi %196, %58 : index
// CHECK-NEXT:         %201 = arith.addi %196, %59 : index
// CHECK-NEXT:         %202 = arith.addi %196, %60 : index
// CHECK-NEXT:         %203 = arith.addi %196, %61 : index
// CHECK-NEXT:         %204 = arith.addi %196, %15 : index
// CHECK-NEXT:         %205 = arith.addi %196, %62 : index
// CHECK-NEXT:         %206 = arith.addi %196, %63 : index
// CHECK-NEXT:         %207 = arith.addi %196, %64 : index
// CHECK-NEXT:         vector.store %138, %8[%196] : memref<256xf32>, vector<8xf32>
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
// CHECK-NEXT:       }
// CHECK-NEXT:       %208, %209, %210, %211, %212, %213, %214, %215 = scf.for %216 = %12 to %37 step %13 iter_args(%217 = %50, %218 = %50, %219 = %50, %220 = %50, %221 = %50, %222 = %50, %223 = %50, %224 = %50) -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>) {
// CHECK-NEXT:         %225 = memref.load %9[%216] : memref<36xi32>
// CHECK-NEXT:         %226 = arith.index_cast %225 : i32 to index
// CHECK-NEXT:         %227 = arith.addi %226, %66 : index
// CHECK-NEXT:         %228 = vector.load %10[%227] : memref<600xf32>, vector<8xf32>
// CHECK-NEXT:         %229 = arith.addi %227, %53 : index
// CHECK-NEXT:         %230 = vector.load %10[%229] : memref<600xf32>, vector<8xf32>
// CHECK-NEXT:         %231 = arith.addi %12, %216 : index
// CHECK-NEXT:         %232 = arith.addi %131, %231 : index
// CHECK-NEXT:         %233 = memref.load %1[%232] : memref<144xf32>
// CHECK-NEXT:         %234 = vector.broadcast %233 : f32 to vector<8xf32>
// CHECK-NEXT:         %235 = vector.fma %234, %228, %217 : vector<8xf32>
// CHECK-NEXT:         %236 = vector.fma %234, %230, %218 : vector<8xf32>
// CHECK-NEXT:         %237 = arith.addi %132, %231 : index
// CHECK-NEXT:         %238 = memref.load %1[%237] : memref<144xf32>
// CHECK-NEXT:         %239 = vector.broadcast %238 : f32 to vector<8xf32>
// CHECK-NEXT:         %240 = vector.fma %239, %228, %219 : vector<8xf32>
// CHECK-NEXT:         %241 = vector.fma %239, %230, %220 : vector<8xf32>
// CHECK-NEXT:         %242 = arith.addi %133, %231 : index
// CHECK-NEXT:         %243 = memref.load %1[%242] : memref<144xf32>
// CHECK-NEXT:         %244 = vector.broadcast %243 : f32 to vector<8xf32>
// CHECK-NEXT:         %245 = vector.fma %244, %228, %221 : vector<8xf32>
// CHECK-NEXT:         %246 = vector.fma %244, %230, %222 : vector<8xf32>
// CHECK-NEXT:         %247 = arith.addi %134, %231 : index
// CHECK-NEXT:         %248 = memref.load %1[%247] : memref<144xf32>
// CHECK-NEXT:         %249 = vector.broadcast %248 : f32 to vector<8xf32>
// CHECK-NEXT:         %250 = vector.fma %249, %228, %223 : vector<8xf32>
// CHECK-NEXT:         %251 = vector.fma %249, %230, %224 : vector<8xf32>
// CHECK-NEXT:         scf.yield %235, %236, %240, %241, %245, %246, %250, %251 : vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>
// CHECK-NEXT:       }
// CHECK-NEXT:       vector.store %208, %8[%67] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %209, %8[%68] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %210, %8[%69] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %211, %8[%70] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %212, %8[%71] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %213, %8[%72] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %214, %8[%73] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %215, %8[%74] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:       scf.for %252 = %12 to %11 step %13 {
// CHECK-NEXT:         %253 = arith.addi %123, %252 : index
// CHECK-NEXT:         %254 = arith.addi %33, %253 : index
// CHECK-NEXT:         %255 = arith.muli %252, %57 : index
// CHECK-NEXT:         %256 = arith.addi %56, %255 : index
// CHECK-NEXT:         %257 = arith.muli %254, %44 : index
// CHECK-NEXT:         scf.for %258 = %41 to %78 step %13 {
// CHECK-NEXT:           %259 = arith.muli %258, %16 : index
// CHECK-NEXT:           %260 = arith.maxui %259, %35 : index
// CHECK-NEXT:           %261 = arith.addi %259, %43 : index
// CHECK-NEXT:           %262 = arith.maxui %261, %35 : index
// CHECK-NEXT:           %263 = arith.minui %262, %75 : index
// CHECK-NEXT:           %264 = arith.subi %263, %35 : index
// CHECK-NEXT:           %265 = arith.subi %260, %35 : index
// CHECK-NEXT:           %266 = arith.muli %258, %43 : index
// CHECK-NEXT:           %267 = arith.addi %257, %266 : index
// CHECK-NEXT:           scf.for %268 = %265 to %264 step %13 {
// CHECK-NEXT:             %269 = arith.addi %35, %268 : index
// CHECK-NEXT:             %270 = arith.subi %269, %259 : index
// CHECK-NEXT:             %271 = arith.addi %256, %268 : index
// CHECK-NEXT:             %272 = memref.load %8[%271] : memref<256xf32>
// CHECK-NEXT:             %273 = arith.addi %267, %270 : index
// CHECK-NEXT:             memref.store %272, %2[%273] : memref<240xf32>
// CHECK-NEXT:           } {cpu.parallel}
// CHECK-NEXT:         }
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }
// CHECK: buf.dispatch @packed0 workgroups = [1, 1, 1] attributes {buf.bytes_moved = 2496 : i64, buf.flops = {{[0-9]+}} : i64} (%x, %w, %2) : memref<1x4x2x30xf32>, memref<4x4x3x3xf32>, memref<1x4x2x30xf32>
