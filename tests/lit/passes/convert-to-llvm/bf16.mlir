// RUN: tg-opt %s -p 'expand-math{target=cpu},convert-to-llvm' | filecheck %s
// RUN: tg-opt %s -p 'expand-math{target=cpu},convert-to-llvm' -t llvm | filecheck %s --check-prefix TEXT
// RUN: not tg-opt %s -p convert-to-llvm 2>&1 | filecheck %s --check-prefix ORDER

// ORDER: arith.extf of bf16 at {{.*}}: run `expand-math` first

// A bf16 is the integer of its bits, in memory too, rounded by integer arithmetic: few CPUs have the type.
// CHECK-LABEL: llvm.func @rounded
// CHECK:       %[[LOADED:.*]] = llvm.load {{.*}} : !llvm.ptr -> i16
// CHECK:       llvm.zext %[[LOADED]] : i16 to i32
// CHECK:       llvm.shl
// CHECK:       llvm.bitcast %{{.*}} : i32 to f32
// CHECK:       llvm.fcmp "uno"
// CHECK:       %[[BITS:.*]] = llvm.trunc %{{.*}} : i32 to i16
// CHECK:       llvm.store %[[BITS]], {{.*}} : i16, !llvm.ptr
cpu.kernel @rounded access = ["read_write"] {
^bb0(%x: memref<64xbf16>, %first: index, %last: index):
  %0 = memref.load %x[%first] : memref<64xbf16>
  %1 = arith.extf %0 : bf16 to f32
  %2 = arith.addf %1, %1 : f32
  %3 = arith.truncf %2 : f32 to bf16
  memref.store %3, %x[%first] : memref<64xbf16>
}

// Whole vectors are extended too, and two numbers are the word that they are in memory.
// CHECK-LABEL: llvm.func @vectors
// CHECK:       %[[SHORTS:.*]] = llvm.load {{.*}} : !llvm.ptr -> vector<8xbf16>
// CHECK:       %[[INTEGERS:.*]] = llvm.bitcast %[[SHORTS]] : vector<8xbf16> to vector<8xi16>
// CHECK:       llvm.zext %[[INTEGERS]] : vector<8xi16> to vector<8xi32>
// CHECK:       llvm.shl
// CHECK:       llvm.bitcast %{{.*}} : vector<8xi32> to vector<8xf32>
// CHECK:       llvm.bitcast %[[SHORTS]] : vector<8xbf16> to vector<4xi32>
cpu.kernel @vectors access = ["read", "read_write", "read_write"] {
^bb0(%x: memref<64xbf16>, %y: memref<64xf32>, %z: memref<64xi32>, %first: index, %last: index):
  %0 = vector.load %x[%first] : memref<64xbf16>, vector<8xbf16>
  %1 = arith.extf %0 : vector<8xbf16> to vector<8xf32>
  vector.store %1, %y[%first] : memref<64xf32>, vector<8xf32>
  %2 = vector.bitcast %0 : vector<8xbf16> to vector<4xi32>
  vector.store %2, %z[%first] : memref<64xi32>, vector<4xi32>
}

// Of both operands, the instruction takes the upper half first.
// TEXT: %[[BOTH:.*]] = call <8 x bfloat> @llvm.x86.avx512bf16.cvtne2ps2bf16.128(<4 x float> %[[HIGH:.*]], <4 x float> %{{.*}})
// TEXT: bitcast <8 x bfloat> %[[BOTH]] to <4 x i32>
// TEXT: call <4 x float> @llvm.x86.avx512bf16.dpbf16ps.128(<4 x float> %{{.*}}, <8 x bfloat> %{{.*}}, <8 x bfloat> %{{.*}})
cpu.kernel @pairs access = ["read_write", "read"] {
^bb0(%x: memref<64xf32>, %y: memref<64xi32>, %first: index, %last: index):
  %before = vector.load %x[%first] : memref<64xf32>, vector<4xf32>
  %words = vector.load %y[%first] : memref<64xi32>, vector<4xi32>
  %high = arith.addf %before, %before : vector<4xf32>
  %both = cpu.pair_neighbours %before, %high : vector<4xf32>, vector<4xi32>
  %sums = cpu.dot_pairs %before, %words, %both : vector<4xf32>, vector<4xi32>
  vector.store %sums, %x[%first] : memref<64xf32>, vector<4xf32>
}
