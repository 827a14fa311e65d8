// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu' | filecheck %s

// With few rows and long lines, the image is copied with its padding, and vectors of windows are read from the copy. Of
// the columns at the ends of lines, the epilogue stores none.
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
// CHECK-NEXT:   %10 = memref.alloca() : memref<592xf32>
// CHECK-NEXT:   %11 = arith.constant 4 : index
// CHECK-NEXT:   %12 = arith.constant 0 : index
// CHECK-NEXT:   %13 = arith.constant 1 : index
// CHECK-NEXT:   %14 = arith.constant 3 : index
// CHECK-NEXT:   %15 = arith.constant 144 : index
// CHECK-NEXT:   %16 = arith.constant 32 : index
// CHECK-NEXT:   scf.for %17 = %12 to %11 step %13 {
// CHECK-NEXT:     %18 = arith.muli %17, %14 : index
// CHECK-NEXT:     scf.for %19 = %12 to %14 step %13 {
// CHECK-NEXT:       %20 = arith.remui %19, %13 : index
// CHECK-NEXT:       %21 = arith.addi %17, %20 : index
// CHECK-NEXT:       %22 = arith.muli %19, %16 : index
// CHECK-NEXT:       %23 = arith.addi %18, %19 : index
// CHECK-NEXT:       %24 = arith.muli %23, %14 : index
// CHECK-NEXT:       scf.for %25 = %12 to %14 step %13 {
// CHECK-NEXT:         %26 = arith.remui %25, %13 : index
// CHECK-NEXT:         %27 = arith.addi %21, %26 : index
// CHECK-NEXT:         %28 = arith.muli %27, %15 : index
// CHECK-NEXT:         %29 = arith.addi %28, %25 : index
// CHECK-NEXT:         %30 = arith.addi %29, %22 : index
// CHECK-NEXT:         %31 = arith.addi %24, %25 : index
// CHECK-NEXT:         %32 = arith.index_cast %30 : index to i32
// CHECK-NEXT:         memref.store %32, %9[%31] : memref<36xi32>
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
// CHECK-NEXT:   %45 = arith.constant 31 : index
// CHECK-NEXT:   %46 = arith.constant 60 : index
// CHECK-NEXT:   %47 = arith.addi %11, %14 : index
// CHECK-NEXT:   %48 = arith.divui %47, %11 : index
// CHECK-NEXT:   %49 = arith.constant 16 : index
// CHECK-NEXT:   %50 = arith.divui %34, %49 : index
// CHECK-NEXT:   %51 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:   %52 = vector.broadcast %51 : f32 to vector<8xf32>
// CHECK-NEXT:   %53 = arith.muli %42, %16 : index
// CHECK-NEXT:   %54 = arith.subi %35, %53 : index
// CHECK-NEXT:   %55 = arith.constant 8 : index
// CHECK-NEXT:   %56 = arith.constant 256 : index
// CHECK-NEXT:   %57 = arith.muli %12, %56 : index
// CHECK-NEXT:   %58 = arith.constant 64 : index
// CHECK-NEXT:   %59 = arith.constant 72 : index
// CHECK-NEXT:   %60 = arith.constant 128 : index
// CHECK-NEXT:   %61 = arith.constant 136 : index
// CHECK-NEXT:   %62 = arith.constant 192 : index
// CHECK-NEXT:   %63 = arith.constant 200 : index
// CHECK-NEXT:   %64 = arith.subi %37, %49 : index
// CHECK-NEXT:   %65 = arith.addi %54, %64 : index
// CHECK-NEXT:   %66 = arith.addi %57, %64 : index
// CHECK-NEXT:   %67 = arith.addi %66, %55 : index
// CHECK-NEXT:   %68 = arith.addi %66, %58 : index
// CHECK-NEXT:   %69 = arith.addi %66, %59 : index
// CHECK-NEXT:   %70 = arith.addi %66, %60 : index
// CHECK-NEXT:   %71 = arith.addi %66, %61 : index
// CHECK-NEXT:   %72 = arith.addi %66, %62 : index
// CHECK-NEXT:   %73 = arith.addi %66, %63 : index
// CHECK-NEXT:   %74 = arith.addi %35, %37 : index
// CHECK-NEXT:   %75 = arith.addi %74, %45 : index
// CHECK-NEXT:   %76 = arith.divui %75, %16 : index
// CHECK-NEXT:   scf.for %77 = %3 to %4 step %13 {
// CHECK-NEXT:     scf.for %78 = %12 to %38 step %13 {
// CHECK-NEXT:       %79 = arith.addi %12, %78 : index
// CHECK-NEXT:       %80 = arith.divui %79, %39 : index
// CHECK-NEXT:       %81 = arith.index_cast %80 : index to i32
// CHECK-NEXT:       memref.store %81, %7[%78] : memref<36xi32>
// CHECK-NEXT:       %82 = arith.divui %79, %14 : index
// CHECK-NEXT:       %83 = arith.remui %82, %14 : index
// CHECK-NEXT:       %84 = arith.index_cast %83 : index to i32
// CHECK-NEXT:       memref.store %84, %6[%78] : memref<36xi32>
// CHECK-NEXT:       %85 = arith.remui %79, %14 : index
// CHECK-NEXT:       %86 = arith.index_cast %85 : index to i32
// CHECK-NEXT:       memref.store %86, %5[%78] : memref<36xi32>
// CHECK-NEXT:     } {cpu.parallel}
// CHECK-NEXT:     scf.for %87 = %12 to %40 step %13 {
// CHECK-NEXT:       %88 = arith.addi %41, %87 : index
// CHECK-NEXT:       %89 = arith.muli %88, %46 : index
// CHECK-NEXT:       scf.for %90 = %12 to %13 step %13 {
// CHECK-NEXT:         %91 = arith.addi %87, %90 : index
// CHECK-NEXT:         %92 = arith.addi %91, %12 : index
// CHECK-NEXT:         %93 = arith.muli %92, %15 : index
// CHECK-NEXT:         %94 = arith.muli %90, %44 : index
// CHECK-NEXT:         scf.for %95 = %12 to %11 step %13 {
// CHECK-NEXT:           %96 = arith.addi %42, %95 : index
// CHECK-NEXT:           %97 = arith.muli %95, %16 : index
// CHECK-NEXT:           %98 = arith.addi %12, %97 : index
// CHECK-NEXT:           %99 = arith.addi %93, %98 : index
// CHECK-NEXT:           %100 = arith.subi %96, %13 : index
// CHECK-NEXT:           %101 = arith.addi %100, %90 : index
// CHECK-NEXT:           %102 = arith.cmpi ult, %101, %43 : index
// CHECK-NEXT:           %103 = arith.muli %96, %44 : index
// CHECK-NEXT:           %104 = arith.subi %103, %45 : index
// CHECK-NEXT:           scf.for %105 = %12 to %16 step %13 {
// CHECK-NEXT:             %106 = arith.subi %105, %13 : index
// CHECK-NEXT:             %107 = arith.addi %106, %12 : index
// CHECK-NEXT:             %108 = arith.cmpi ult, %107, %44 : index
// CHECK-NEXT:             %109 = arith.andi %102, %108 : i1
// CHECK-NEXT:             %110 = arith.addi %104, %105 : index
// CHECK-NEXT:             %111 = arith.addi %110, %89 : index
// CHECK-NEXT:             %112 = arith.addi %111, %94 : index
// CHECK-NEXT:             %113 = arith.addi %112, %12 : index
// CHECK-NEXT:             %114 = scf.if %109 -> (f32) {
// CHECK-NEXT:               %115 = memref.load %0[%113] : memref<240xf32>
// CHECK-NEXT:               scf.yield %115 : f32
// CHECK-NEXT:             } else {
// CHECK-NEXT:               scf.yield %51 : f32
// CHECK-NEXT:             }
// CHECK-NEXT:             %116 = arith.addi %99, %105 : index
// CHECK-NEXT:             memref.store %114, %10[%116] : memref<592xf32>
// CHECK-NEXT:           } {cpu.parallel, cpu.masked}
// CHECK-NEXT:         }
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK-NEXT:     scf.for %117 = %12 to %48 step %13 {
// CHECK-NEXT:       %118 = arith.muli %117, %11 : index
// CHECK-NEXT:       %119 = arith.addi %33, %118 : index
// CHECK-NEXT:       %120 = arith.addi %118, %13 : index
// CHECK-NEXT:       %121 = arith.addi %33, %120 : index
// CHECK-NEXT:       %122 = arith.addi %118, %43 : index
// CHECK-NEXT:       %123 = arith.addi %33, %122 : index
// CHECK-NEXT:       %124 = arith.addi %118, %14 : index
// CHECK-NEXT:       %125 = arith.addi %33, %124 : index
// CHECK-NEXT:       %126 = arith.muli %119, %38 : index
// CHECK-NEXT:       %127 = arith.muli %121, %38 : index
// CHECK-NEXT:       %128 = arith.muli %123, %38 : index
// CHECK-NEXT:       %129 = arith.muli %125, %38 : index
// CHECK-NEXT:       scf.for %130 = %12 to %50 step %13 {
// CHECK-NEXT:         %131 = arith.muli %130, %49 : index
// CHECK-NEXT:         %132 = arith.addi %54, %131 : index
// CHECK-NEXT:         %133, %134, %135, %136, %137, %138, %139, %140 = scf.for %141 = %12 to %38 step %13 iter_args(%142 = %52, %143 = %52, %144 = %52, %145 = %52, %146 = %52, %147 = %52, %148 = %52, %149 = %52) -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>) {
// CHECK-NEXT:           %150 = memref.load %9[%141] : memref<36xi32>
// CHECK-NEXT:           %151 = arith.index_cast %150 : i32 to index
// CHECK-NEXT:           %152 = arith.addi %151, %132 : index
// CHECK-NEXT:           %153 = vector.load %10[%152] : memref<592xf32>, vector<8xf32>
// CHECK-NEXT:           %154 = arith.addi %152, %55 : index
// CHECK-NEXT:           %155 = vector.load %10[%154] : memref<592xf32>, vector<8xf32>
// CHECK-NEXT:           %156 = arith.addi %12, %141 : index
// CHECK-NEXT:           %157 = arith.addi %126, %156 : index
// CHECK-NEXT:           %158 = memref.load %1[%157] : memref<144xf32>
// CHECK-NEXT:           %159 = vector.broadcast %158 : f32 to vector<8xf32>
// CHECK-NEXT:           %160 = vector.fma %159, %153, %142 : vector<8xf32>
// CHECK-NEXT:           %161 = vector.fma %159, %155, %143 : vector<8xf32>
// CHECK-NEXT:           %162 = arith.addi %127, %156 : index
// CHECK-NEXT:           %163 = memref.load %1[%162] : memref<144xf32>
// CHECK-NEXT:           %164 = vector.broadcast %163 : f32 to vector<8xf32>
// CHECK-NEXT:           %165 = vector.fma %164, %153, %144 : vector<8xf32>
// CHECK-NEXT:           %166 = vector.fma %164, %155, %145 : vector<8xf32>
// CHECK-NEXT:           %167 = arith.addi %128, %156 : index
// CHECK-NEXT:           %168 = memref.load %1[%167] : memref<144xf32>
// CHECK-NEXT:           %169 = vector.broadcast %168 : f32 to vector<8xf32>
// CHECK-NEXT:           %170 = vector.fma %169, %153, %146 : vector<8xf32>
// CHECK-NEXT:           %171 = vector.fma %169, %155, %147 : vector<8xf32>
// CHECK-NEXT:           %172 = arith.addi %129, %156 : index
// CHECK-NEXT:           %173 = memref.load %1[%172] : memref<144xf32>
// CHECK-NEXT:           %174 = vector.broadcast %173 : f32 to vector<8xf32>
// CHECK-NEXT:           %175 = vector.fma %174, %153, %148 : vector<8xf32>
// CHECK-NEXT:           %176 = vector.fma %174, %155, %149 : vector<8xf32>
// CHECK-NEXT:           scf.yield %160, %161, %165, %166, %170, %171, %175, %176 : vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         }
// CHECK-NEXT:         %177 = arith.addi %57, %131 : index
// CHECK-NEXT:         %178 = arith.addi %177, %55 : index
// CHECK-NEXT:         %179 = arith.addi %177, %58 : index
// CHECK-NEXT:         %180 = arith.addi %177, %59 : index
// CHECK-NEXT:         %181 = arith.addi %177, %60 : index
// CHECK-NEXT:         %182 = arith.addi %177, %61 : index
// CHECK-NEXT:         %183 = arith.addi %177, %62 : index
// CHECK-NEXT:         %184 = arith.addi %177, %63 : index
// CHECK-NEXT:         vector.store %133, %8[%177] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %134, %8[%178] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %135, %8[%179] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %136, %8[%180] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %137, %8[%181] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %138, %8[%182] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %139, %8[%183] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %140, %8[%184] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:       }
// CHECK-NEXT:       %185, %186, %187, %188, %189, %190, %191, %192 = scf.for %193 = %12 to %38 step %13 iter_args(%194 = %52, %195 = %52, %196 = %52, %197 = %52, %198 = %52, %199 = %52, %200 = %52, %201 = %52) -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>) {
// CHECK-NEXT:         %202 = memref.load %9[%193] : memref<36xi32>
// CHECK-NEXT:         %203 = arith.index_cast %202 : i32 to index
// CHECK-NEXT:         %204 = arith.addi %203, %65 : index
// CHECK-NEXT:         %205 = vector.load %10[%204] : memref<592xf32>, vector<8xf32>
// CHECK-NEXT:         %206 = arith.addi %204, %55 : index
// CHECK-NEXT:         %207 = vector.load %10[%206] : memref<592xf32>, vector<8xf32>
// CHECK-NEXT:         %208 = arith.addi %12, %193 : index
// CHECK-NEXT:         %209 = arith.addi %126, %208 : index
// CHECK-NEXT:         %210 = memref.load %1[%209] : memref<144xf32>
// CHECK-NEXT:         %211 = vector.broadcast %210 : f32 to vector<8xf32>
// CHECK-NEXT:         %212 = vector.fma %211, %205, %194 : vector<8xf32>
// CHECK-NEXT:         %213 = vector.fma %211, %207, %195 : vector<8xf32>
// CHECK-NEXT:         %214 = arith.addi %127, %208 : index
// CHECK-NEXT:         %215 = memref.load %1[%214] : memref<144xf32>
// CHECK-NEXT:         %216 = vector.broadcast %215 : f32 to vector<8xf32>
// CHECK-NEXT:         %217 = vector.fma %216, %205, %196 : vector<8xf32>
// CHECK-NEXT:         %218 = vector.fma %216, %207, %197 : vector<8xf32>
// CHECK-NEXT:         %219 = arith.addi %128, %208 : index
// CHECK-NEXT:         %220 = memref.load %1[%219] : memref<144xf32>
// CHECK-NEXT:         %221 = vector.broadcast %220 : f32 to vector<8xf32>
// CHECK-NEXT:         %222 = vector.fma %221, %205, %198 : vector<8xf32>
// CHECK-NEXT:         %223 = vector.fma %221, %207, %199 : vector<8xf32>
// CHECK-NEXT:         %224 = arith.addi %129, %208 : index
// CHECK-NEXT:         %225 = memref.load %1[%224] : memref<144xf32>
// CHECK-NEXT:         %226 = vector.broadcast %225 : f32 to vector<8xf32>
// CHECK-NEXT:         %227 = vector.fma %226, %205, %200 : vector<8xf32>
// CHECK-NEXT:         %228 = vector.fma %226, %207, %201 : vector<8xf32>
// CHECK-NEXT:         scf.yield %212, %213, %217, %218, %222, %223, %227, %228 : vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>
// CHECK-NEXT:       }
// CHECK-NEXT:       vector.store %185, %8[%66] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %186, %8[%67] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %187, %8[%68] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %188, %8[%69] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %189, %8[%70] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %190, %8[%71] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %191, %8[%72] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %192, %8[%73] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:       scf.for %229 = %12 to %11 step %13 {
// CHECK-NEXT:         %230 = arith.addi %118, %229 : index
// CHECK-NEXT:         %231 = arith.addi %33, %230 : index
// CHECK-NEXT:         %232 = arith.muli %229, %58 : index
// CHECK-NEXT:         %233 = arith.addi %57, %232 : index
// CHECK-NEXT:         %234 = arith.muli %231, %46 : index
// CHECK-NEXT:         scf.for %235 = %42 to %76 step %13 {
// CHECK-NEXT:           %236 = arith.muli %235, %16 : index
// CHECK-NEXT:           %237 = arith.maxui %236, %35 : index
// CHECK-NEXT:           %238 = arith.addi %236, %44 : index
// CHECK-NEXT:           %239 = arith.maxui %238, %35 : index
// CHECK-NEXT:           %240 = arith.minui %239, %74 : index
// CHECK-NEXT:           %241 = arith.subi %240, %35 : index
// CHECK-NEXT:           %242 = arith.subi %237, %35 : index
// CHECK-NEXT:           %243 = arith.muli %235, %44 : index
// CHECK-NEXT:           %244 = arith.addi %234, %243 : index
// CHECK-NEXT:           scf.for %245 = %242 to %241 step %13 {
// CHECK-NEXT:             %246 = arith.addi %35, %245 : index
// CHECK-NEXT:             %247 = arith.subi %246, %236 : index
// CHECK-NEXT:             %248 = arith.addi %233, %245 : index
// CHECK-NEXT:             %249 = memref.load %8[%248] : memref<256xf32>
// CHECK-NEXT:             %250 = arith.addi %244, %247 : index
// CHECK-NEXT:             memref.store %249, %2[%250] : memref<240xf32>
// CHECK-NEXT:           } {cpu.parallel, cpu.masked}
// CHECK-NEXT:         }
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }
// CHECK: buf.dispatch @packed0 workgroups = [1, 1, 1] attributes {buf.bytes_moved = 2496 : i64, buf.flops = {{[0-9]+}} : i64} (%x, %w, %2) : memref<1x4x2x30xf32>, memref<4x4x3x3xf32>, memref<1x4x2x30xf32>
