// RUN: tg-opt %s -p 'convert-to-llvm' -t llvm | filecheck %s

// The address is that of lane 0, which may lie before the memory: lanes that are masked aren't loaded.
cpu.kernel @lanes access = ["read", "read_write"] {
^bb0(%x: memref<64xf32>, %y: memref<64xf32>, %first: index, %last: index):
  %v = cpu.load_lanes %x[%first] first 1 count 2 : memref<64xf32>, vector<4xf32>
  vector.store %v, %y[%last] : memref<64xf32>, vector<4xf32>
}
// CHECK:      %5 = getelementptr inbounds float, ptr %0, i64 %3
// CHECK-NEXT: %6 = getelementptr float, ptr %5, i64 -1
// CHECK-NEXT: %7 = call <4 x float> @llvm.masked.load.v4f32.p0(ptr %6, i32 4, <4 x i1> <i1 0, i1 -1, i1 -1, i1 0>, <4 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>)
