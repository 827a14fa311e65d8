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
// CHECK-NEXT:   %48 = arith.constant 16 : index
// CHECK-NEXT:   %49 = arith.divui %34, %48 : index
// CHECK-NEXT:   %50 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:   %51 = vector.broadcast %50 : f32 to vector<8xf32>
// CHECK-NEXT:   %52 = arith.muli %42, %16 : index
// CHECK-NEXT:   %53 = arith.subi %35, %52 : index
// CHECK-NEXT:   %54 = arith.constant 8 : index
// CHECK-NEXT:   %55 = arith.constant 256 : index
// CHECK-NEXT:   %56 = arith.muli %12, %55 : index
// CHECK-NEXT:   %57 = arith.constant 64 : index
// CHECK-NEXT:   %58 = arith.constant 72 : index
// CHECK-NEXT:   %59 = arith.constant 128 : index
// CHECK-NEXT:   %60 = arith.constant 136 : index
// CHECK-NEXT:   %61 = arith.constant 192 : index
// CHECK-NEXT:   %62 = arith.constant 200 : index
// CHECK-NEXT:   %63 = arith.subi %37, %48 : index
// CHECK-NEXT:   %64 = arith.addi %53, %63 : index
// CHECK-NEXT:   %65 = arith.addi %56, %63 : index
// CHECK-NEXT:   %66 = arith.addi %65, %54 : index
// CHECK-NEXT:   %67 = arith.addi %65, %57 : index
// CHECK-NEXT:   %68 = arith.addi %65, %58 : index
// CHECK-NEXT:   %69 = arith.addi %65, %59 : index
// CHECK-NEXT:   %70 = arith.addi %65, %60 : index
// CHECK-NEXT:   %71 = arith.addi %65, %61 : index
// CHECK-NEXT:   %72 = arith.addi %65, %62 : index
// CHECK-NEXT:   %73 = arith.addi %35, %37 : index
// CHECK-NEXT:   %74 = arith.constant 31 : index
// CHECK-NEXT:   %75 = arith.addi %73, %74 : index
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
// CHECK-NEXT:       %89 = arith.muli %88, %45 : index
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
// CHECK-NEXT:           %104 = arith.subi %103, %44 : index
// CHECK-NEXT:           %105 = arith.addi %104, %89 : index
// CHECK-NEXT:           %106 = arith.addi %105, %94 : index
// CHECK-NEXT:           scf.if %102 {
// CHECK-NEXT:             %107 = vector.broadcast %50 : f32 to vector<1xf32>
// CHECK-NEXT:             vector.store %107, %10[%99] : memref<592xf32>, vector<1xf32>
// CHECK-NEXT:             %108 = arith.addi %99, %13 : index
// CHECK-NEXT:             %109 = arith.constant 24 : index
// CHECK-NEXT:             scf.for %110 = %12 to %109 step %54 {
// CHECK-NEXT:               %111 = arith.addi %106, %110 : index
// CHECK-NEXT:               %112 = vector.load %0[%111] : memref<240xf32>, vector<8xf32>
// CHECK-NEXT:               %113 = arith.addi %108, %110 : index
// CHECK-NEXT:               vector.store %112, %10[%113] : memref<592xf32>, vector<8xf32>
// CHECK-NEXT:             }
// CHECK-NEXT:             %114 = arith.constant 22 : index
// CHECK-NEXT:             %115 = arith.addi %106, %114 : index
// CHECK-NEXT:             %116 = vector.load %0[%115] : memref<240xf32>, vector<8xf32>
// CHECK-NEXT:             %117 = arith.addi %108, %114 : index
// CHECK-NEXT:             vector.store %116, %10[%117] : memref<592xf32>, vector<8xf32>
// CHECK-NEXT:             %118 = arith.addi %99, %74 : index
// CHECK-NEXT:             vector.store %107, %10[%118] : memref<592xf32>, vector<1xf32>
// CHECK-NEXT:           } else {
// CHECK-NEXT:             scf.for %119 = %12 to %16 step %54 {
// CHECK-NEXT:               %120 = arith.addi %99, %119 : index
// CHECK-NEXT:               vector.store %51, %10[%120] : memref<592xf32>, vector<8xf32>
// CHECK-NEXT:             }
// CHECK-NEXT:           }
// CHECK-NEXT:         }
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK-NEXT:     scf.for %121 = %12 to %47 step %13 {
// CHECK-NEXT:       %122 = arith.muli %121, %11 : index
// CHECK-NEXT:       %123 = arith.addi %33, %122 : index
// CHECK-NEXT:       %124 = arith.addi %122, %13 : index
// CHECK-NEXT:       %125 = arith.addi %33, %124 : index
// CHECK-NEXT:       %126 = arith.addi %122, %43 : index
// CHECK-NEXT:       %127 = arith.addi %33, %126 : index
// CHECK-NEXT:       %128 = arith.addi %122, %14 : index
// CHECK-NEXT:       %129 = arith.addi %33, %128 : index
// CHECK-NEXT:       %130 = arith.muli %123, %38 : index
// CHECK-NEXT:       %131 = arith.muli %125, %38 : index
// CHECK-NEXT:       %132 = arith.muli %127, %38 : index
// CHECK-NEXT:       %133 = arith.muli %129, %38 : index
// CHECK-NEXT:       scf.for %134 = %12 to %49 step %13 {
// CHECK-NEXT:         %135 = arith.muli %134, %48 : index
// CHECK-NEXT:         %136 = arith.addi %53, %135 : index
// CHECK-NEXT:         %137, %138, %139, %140, %141, %142, %143, %144 = scf.for %145 = %12 to %38 step %13 iter_args(%146 = %51, %147 = %51, %148 = %51, %149 = %51, %150 = %51, %151 = %51, %152 = %51, %153 = %51) -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>) {
// CHECK-NEXT:           %154 = memref.load %9[%145] : memref<36xi32>
// CHECK-NEXT:           %155 = arith.index_cast %154 : i32 to index
// CHECK-NEXT:           %156 = arith.addi %155, %136 : index
// CHECK-NEXT:           %157 = vector.load %10[%156] : memref<592xf32>, vector<8xf32>
// CHECK-NEXT:           %158 = arith.addi %156, %54 : index
// CHECK-NEXT:           %159 = vector.load %10[%158] : memref<592xf32>, vector<8xf32>
// CHECK-NEXT:           %160 = arith.addi %12, %145 : index
// CHECK-NEXT:           %161 = arith.addi %130, %160 : index
// CHECK-NEXT:           %162 = memref.load %1[%161] : memref<144xf32>
// CHECK-NEXT:           %163 = vector.broadcast %162 : f32 to vector<8xf32>
// CHECK-NEXT:           %164 = vector.fma %163, %157, %146 : vector<8xf32>
// CHECK-NEXT:           %165 = vector.fma %163, %159, %147 : vector<8xf32>
// CHECK-NEXT:           %166 = arith.addi %131, %160 : index
// CHECK-NEXT:           %167 = memref.load %1[%166] : memref<144xf32>
// CHECK-NEXT:           %168 = vector.broadcast %167 : f32 to vector<8xf32>
// CHECK-NEXT:           %169 = vector.fma %168, %157, %148 : vector<8xf32>
// CHECK-NEXT:           %170 = vector.fma %168, %159, %149 : vector<8xf32>
// CHECK-NEXT:           %171 = arith.addi %132, %160 : index
// CHECK-NEXT:           %172 = memref.load %1[%171] : memref<144xf32>
// CHECK-NEXT:           %173 = vector.broadcast %172 : f32 to vector<8xf32>
// CHECK-NEXT:           %174 = vector.fma %173, %157, %150 : vector<8xf32>
// CHECK-NEXT:           %175 = vector.fma %173, %159, %151 : vector<8xf32>
// CHECK-NEXT:           %176 = arith.addi %133, %160 : index
// CHECK-NEXT:           %177 = memref.load %1[%176] : memref<144xf32>
// CHECK-NEXT:           %178 = vector.broadcast %177 : f32 to vector<8xf32>
// CHECK-NEXT:           %179 = vector.fma %178, %157, %152 : vector<8xf32>
// CHECK-NEXT:           %180 = vector.fma %178, %159, %153 : vector<8xf32>
// CHECK-NEXT:           scf.yield %164, %165, %169, %170, %174, %175, %179, %180 : vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>
// CHECK-NEXT:         }
// CHECK-NEXT:         %181 = arith.addi %56, %135 : index
// CHECK-NEXT:         %182 = arith.addi %181, %54 : index
// CHECK-NEXT:         %183 = arith.addi %181, %57 : index
// CHECK-NEXT:         %184 = arith.addi %181, %58 : index
// CHECK-NEXT:         %185 = arith.addi %181, %59 : index
// CHECK-NEXT:         %186 = arith.addi %181, %60 : index
// CHECK-NEXT:         %187 = arith.addi %181, %61 : index
// CHECK-NEXT:         %188 = arith.addi %181, %62 : index
// CHECK-NEXT:         vector.store %137, %8[%181] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %138, %8[%182] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %139, %8[%183] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %140, %8[%184] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %141, %8[%185] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %142, %8[%186] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %143, %8[%187] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:         vector.store %144, %8[%188] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:       }
// CHECK-NEXT:       %189, %190, %191, %192, %193, %194, %195, %196 = scf.for %197 = %12 to %38 step %13 iter_args(%198 = %51, %199 = %51, %200 = %51, %201 = %51, %202 = %51, %203 = %51, %204 = %51, %205 = %51) -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>) {
// CHECK-NEXT:         %206 = memref.load %9[%197] : memref<36xi32>
// CHECK-NEXT:         %207 = arith.index_cast %206 : i32 to index
// CHECK-NEXT:         %208 = arith.addi %207, %64 : index
// CHECK-NEXT:         %209 = vector.load %10[%208] : memref<592xf32>, vector<8xf32>
// CHECK-NEXT:         %210 = arith.addi %208, %54 : index
// CHECK-NEXT:         %211 = vector.load %10[%210] : memref<592xf32>, vector<8xf32>
// CHECK-NEXT:         %212 = arith.addi %12, %197 : index
// CHECK-NEXT:         %213 = arith.addi %130, %212 : index
// CHECK-NEXT:         %214 = memref.load %1[%213] : memref<144xf32>
// CHECK-NEXT:         %215 = vector.broadcast %214 : f32 to vector<8xf32>
// CHECK-NEXT:         %216 = vector.fma %215, %209, %198 : vector<8xf32>
// CHECK-NEXT:         %217 = vector.fma %215, %211, %199 : vector<8xf32>
// CHECK-NEXT:         %218 = arith.addi %131, %212 : index
// CHECK-NEXT:         %219 = memref.load %1[%218] : memref<144xf32>
// CHECK-NEXT:         %220 = vector.broadcast %219 : f32 to vector<8xf32>
// CHECK-NEXT:         %221 = vector.fma %220, %209, %200 : vector<8xf32>
// CHECK-NEXT:         %222 = vector.fma %220, %211, %201 : vector<8xf32>
// CHECK-NEXT:         %223 = arith.addi %132, %212 : index
// CHECK-NEXT:         %224 = memref.load %1[%223] : memref<144xf32>
// CHECK-NEXT:         %225 = vector.broadcast %224 : f32 to vector<8xf32>
// CHECK-NEXT:         %226 = vector.fma %225, %209, %202 : vector<8xf32>
// CHECK-NEXT:         %227 = vector.fma %225, %211, %203 : vector<8xf32>
// CHECK-NEXT:         %228 = arith.addi %133, %212 : index
// CHECK-NEXT:         %229 = memref.load %1[%228] : memref<144xf32>
// CHECK-NEXT:         %230 = vector.broadcast %229 : f32 to vector<8xf32>
// CHECK-NEXT:         %231 = vector.fma %230, %209, %204 : vector<8xf32>
// CHECK-NEXT:         %232 = vector.fma %230, %211, %205 : vector<8xf32>
// CHECK-NEXT:         scf.yield %216, %217, %221, %222, %226, %227, %231, %232 : vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>
// CHECK-NEXT:       }
// CHECK-NEXT:       vector.store %189, %8[%65] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %190, %8[%66] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %191, %8[%67] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %192, %8[%68] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %193, %8[%69] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %194, %8[%70] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %195, %8[%71] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:       vector.store %196, %8[%72] : memref<256xf32>, vector<8xf32>
// CHECK-NEXT:       scf.for %233 = %12 to %11 step %13 {
// CHECK-NEXT:         %234 = arith.addi %122, %233 : index
// CHECK-NEXT:         %235 = arith.addi %33, %234 : index
// CHECK-NEXT:         %236 = arith.muli %233, %57 : index
// CHECK-NEXT:         %237 = arith.addi %56, %236 : index
// CHECK-NEXT:         %238 = arith.muli %235, %45 : index
// CHECK-NEXT:         scf.for %239 = %42 to %76 step %13 {
// CHECK-NEXT:           %240 = arith.muli %239, %16 : index
// CHECK-NEXT:           %241 = arith.maxui %240, %35 : index
// CHECK-NEXT:           %242 = arith.addi %240, %44 : index
// CHECK-NEXT:           %243 = arith.maxui %242, %35 : index
// CHECK-NEXT:           %244 = arith.minui %243, %73 : index
// CHECK-NEXT:           %245 = arith.subi %244, %35 : index
// CHECK-NEXT:           %246 = arith.subi %241, %35 : index
// CHECK-NEXT:           %247 = arith.muli %239, %44 : index
// CHECK-NEXT:           %248 = arith.addi %238, %247 : index
// CHECK-NEXT:           scf.for %249 = %246 to %245 step %13 {
// CHECK-NEXT:             %250 = arith.addi %35, %249 : index
// CHECK-NEXT:             %251 = arith.subi %250, %240 : index
// CHECK-NEXT:             %252 = arith.addi %237, %249 : index
// CHECK-NEXT:             %253 = memref.load %8[%252] : memref<256xf32>
// CHECK-NEXT:             %254 = arith.addi %248, %251 : index
// CHECK-NEXT:             memref.store %253, %2[%254] : memref<240xf32>
// CHECK-NEXT:           } {cpu.parallel, cpu.masked}
// CHECK-NEXT:         }
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }
// CHECK: buf.dispatch @packed0 workgroups = [1, 1, 1] attributes {buf.bytes_moved = 2496 : i64, buf.flops = {{[0-9]+}} : i64} (%x, %w, %2) : memref<1x4x2x30xf32>, memref<4x4x3x3xf32>, memref<1x4x2x30xf32>
