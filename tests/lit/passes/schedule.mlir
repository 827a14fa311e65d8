// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse,schedule' | filecheck %s
// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse,schedule{target=lavapipe}' | filecheck %s --check-prefix SOFTWARE

// One thread per grid point.
func.func @pointwise(%x: tensor<1000xf32>) -> tensor<1000xf32> {
  %0 = tg.neg %x : tensor<1000xf32>
  func.return %0 : tensor<1000xf32>
}
// CHECK-LABEL: func.func @pointwise(
// CHECK: buf.kernel grid = [1000] ins(%x : memref<1000xf32>) outs(%0 : memref<1000xf32>) schedule = #buf.schedule<thread, workgroup = [64, 1, 1], groups = [16, 1, 1]> {
// CHECK-NOT: buf.
// CHECK: func.return
// SOFTWARE-LABEL: func.func @pointwise(
// SOFTWARE: buf.kernel grid = [1000] ins(%x : memref<1000xf32>) outs(%0 : memref<1000xf32>) schedule = #buf.schedule<thread, workgroup = [8, 1, 1], groups = [125, 1, 1]> {
// SOFTWARE-NOT: buf.
// SOFTWARE: func.return

// Each thread computes four adjacent points, if there are many; on a GPU, if all accesses along them are whole vectors.
func.func @vector_of_points(%x: tensor<8388608xf32>) -> tensor<8388608xf32> {
  %0 = tg.neg %x : tensor<8388608xf32>
  func.return %0 : tensor<8388608xf32>
}
// CHECK-LABEL: func.func @vector_of_points(
// CHECK: buf.kernel grid = [8388608] ins(%x : memref<8388608xf32>) outs(%0 : memref<8388608xf32>) schedule = #buf.schedule<thread, workgroup = [256, 1, 1], groups = [8192, 1, 1], width = 4> {
// CHECK-NOT: buf.
// CHECK: func.return
// SOFTWARE-LABEL: func.func @vector_of_points(
// SOFTWARE: buf.kernel grid = [8388608] ins(%x : memref<8388608xf32>) outs(%0 : memref<8388608xf32>) schedule = #buf.schedule<thread, workgroup = [64, 1, 1], groups = [32768, 1, 1], width = 4> {
// SOFTWARE-NOT: buf.
// SOFTWARE: func.return

// On a GPU they are not whole vectors: the rows of the second operand are read across, or from their middle, or elements
// are not f32. Then neighbouring lanes take neighbouring points.
func.func @transposed(%x: tensor<512x512xf32>) -> tensor<512x512xf32> {
  %t = tg.transpose %x permutation = [1, 0] : tensor<512x512xf32>
  %0 = tg.mul %x, %t : tensor<512x512xf32>, tensor<512x512xf32>
  func.return %0 : tensor<512x512xf32>
}
// CHECK-LABEL: func.func @transposed(
// CHECK: #buf.schedule<thread, workgroup = [256, 1, 1], groups = [1024, 1, 1]> {
func.func @sliced(%x: tensor<512x512xf32>, %w: tensor<512x514xf32>) -> tensor<512x512xf32> {
  %s = tg.slice %w start = [0, 1] stop = [512, 513] step = [1, 1] : tensor<512x514xf32>
  %0 = tg.sub %x, %s : tensor<512x512xf32>, tensor<512x512xf32>
  func.return %0 : tensor<512x512xf32>
}
// CHECK-LABEL: func.func @sliced(
// CHECK: #buf.schedule<thread, workgroup = [256, 1, 1], groups = [1024, 1, 1]> {
func.func @of_integers(%i: tensor<512x512xi32>) -> tensor<512x512xi32> {
  %0 = tg.neg %i : tensor<512x512xi32>
  func.return %0 : tensor<512x512xi32>
}
// CHECK-LABEL: func.func @of_integers(
// CHECK: #buf.schedule<thread, workgroup = [256, 1, 1], groups = [1024, 1, 1]> {

// What doesn't vary along the last loop needs no vector; rows that are no multiple of four have none, and neither do
// fewer points than those that fill a GPU.
func.func @some_vectors(%x: tensor<512x512xf32>, %b: tensor<512xf32>, %y: tensor<512x510xf32>, %z: tensor<256x256xf32>) -> (tensor<512x512xf32>, tensor<512x510xf32>, tensor<256x256xf32>) {
  %r = tg.broadcast %b shape = [512, 512] dims = [0] : tensor<512xf32>
  %0 = tg.add %x, %r : tensor<512x512xf32>, tensor<512x512xf32>
  %1 = tg.neg %y : tensor<512x510xf32>
  %2 = tg.neg %z : tensor<256x256xf32>
  func.return %0, %1, %2 : tensor<512x512xf32>, tensor<512x510xf32>, tensor<256x256xf32>
}
// CHECK-LABEL: func.func @some_vectors(
// CHECK: #buf.schedule<thread, workgroup = [256, 1, 1], groups = [256, 1, 1], width = 4> {
// CHECK: #buf.schedule<thread, workgroup = [256, 1, 1], groups = [1020, 1, 1]> {
// CHECK: #buf.schedule<thread, workgroup = [64, 1, 1], groups = [1024, 1, 1]> {

// More workgroups than one dimension allows are folded into two.
func.func @folded(%x: tensor<33554432xi32>) -> tensor<33554432xi32> {
  %0 = tg.neg %x : tensor<33554432xi32>
  func.return %0 : tensor<33554432xi32>
}
// CHECK-LABEL: func.func @folded(
// CHECK: #buf.schedule<thread, workgroup = [256, 1, 1], groups = [43691, 3, 1]> {

// Few long rows: one workgroup per grid point.
func.func @rows(%x: tensor<10x1000xf32>) -> tensor<10xf32> {
  %0 = tg.sum %x axes = [1] : tensor<10x1000xf32>
  func.return %0 : tensor<10xf32>
}
// CHECK-LABEL: func.func @rows(
// CHECK: buf.kernel grid = [10] ins(%x : memref<10x1000xf32>) outs(%0 : memref<10xf32>) schedule = #buf.schedule<group, workgroup = [128, 1, 1], groups = [10, 1, 1], steps = 4> {
// CHECK-NOT: buf.
// CHECK: func.return
// SOFTWARE-LABEL: func.func @rows(
// SOFTWARE: buf.kernel grid = [10] ins(%x : memref<10x1000xf32>) outs(%0 : memref<10xf32>) schedule = #buf.schedule<group, workgroup = [8, 1, 1], groups = [10, 1, 1], steps = 8> {
// SOFTWARE-NOT: buf.
// SOFTWARE: func.return

// Many rows: on a CPU one thread per row, with the reduction unrolled by 8 for long rows and by 4 for shorter ones.
func.func @many_rows(%x: tensor<32x1000xf32>, %y: tensor<32x65xf32>) -> (tensor<32xf32>, tensor<32xf32>) {
  %0 = tg.sum %x axes = [1] : tensor<32x1000xf32>
  %1 = tg.max %y axes = [1] : tensor<32x65xf32>
  func.return %0, %1 : tensor<32xf32>, tensor<32xf32>
}
// CHECK-LABEL: func.func @many_rows(
// CHECK: #buf.schedule<group, workgroup = [256, 1, 1], groups = [32, 1, 1]> {
// SOFTWARE-LABEL: func.func @many_rows(
// SOFTWARE: #buf.schedule<thread, workgroup = [8, 1, 1], groups = [4, 1, 1], steps = 8> {

func.func @short_rows(%y: tensor<32x65xf32>) -> tensor<32xf32> {
  %0 = tg.max %y axes = [1] : tensor<32x65xf32>
  func.return %0 : tensor<32xf32>
}
// SOFTWARE-LABEL: func.func @short_rows(
// SOFTWARE: #buf.schedule<thread, workgroup = [8, 1, 1], groups = [4, 1, 1], steps = 4> {

// Adjacent threads read adjacent columns, and the loop is unrolled by 4; a row of 7 is too short for two iterations.
func.func @columns(%x: tensor<64x32xf32>, %y: tensor<32x7xf32>) -> (tensor<32xf32>, tensor<32xf32>) {
  %0 = tg.sum %x axes = [0] : tensor<64x32xf32>
  %1 = tg.sum %y axes = [1] : tensor<32x7xf32>
  func.return %0, %1 : tensor<32xf32>, tensor<32xf32>
}
// SOFTWARE-LABEL: func.func @columns(
// SOFTWARE: #buf.schedule<thread, workgroup = [8, 1, 1], groups = [4, 1, 1], steps = 4> {

// On a GPU, the lanes of a row load vectors of 4 if it is f32, of a length divisible by 4; there are as many lanes as get
// one, but at least 32.
func.func @vectors(%x: tensor<10x1024xf32>) -> tensor<10xf32> {
  %0 = tg.sum %x axes = [1] : tensor<10x1024xf32>
  func.return %0 : tensor<10xf32>
}
// CHECK-LABEL: func.func @vectors(
// CHECK: #buf.schedule<group, workgroup = [256, 1, 1], groups = [10, 1, 1], steps = 4> {
func.func @lanes_of_vectors(%x: tensor<10x128xf32>) -> tensor<10xf32> {
  %0 = tg.sum %x axes = [1] : tensor<10x128xf32>
  func.return %0 : tensor<10xf32>
}
// CHECK-LABEL: func.func @lanes_of_vectors(
// CHECK: #buf.schedule<group, workgroup = [32, 1, 1], groups = [10, 1, 1], steps = 4> {
func.func @lanes_of_elements(%y: tensor<10x124xf32>) -> tensor<10xf32> {
  %0 = tg.sum %y axes = [1] : tensor<10x124xf32>
  func.return %0 : tensor<10xf32>
}
// CHECK-LABEL: func.func @lanes_of_elements(
// CHECK: #buf.schedule<group, workgroup = [64, 1, 1], groups = [10, 1, 1]> {
func.func @integers(%x: tensor<10x1024xi32>, %y: tensor<10x1022xf32>) -> (tensor<10xi32>, tensor<10xf32>) {
  %0 = tg.sum %x axes = [1] : tensor<10x1024xi32>
  %1 = tg.sum %y axes = [1] : tensor<10x1022xf32>
  func.return %0, %1 : tensor<10xi32>, tensor<10xf32>
}
// CHECK-LABEL: func.func @integers(
// CHECK: #buf.schedule<group, workgroup = [256, 1, 1], groups = [10, 1, 1]> {

// A block of results per thread.
func.func @product(%a: tensor<128x64xf32>, %b: tensor<64x256xf32>) -> tensor<128x256xf32> {
  %0 = tg.dot_general %a, %b lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<128x64xf32>, tensor<64x256xf32>
  func.return %0 : tensor<128x256xf32>
}
// CHECK-LABEL: func.func @product(
// CHECK: buf.kernel grid = [128, 256] ins(%a, %b : memref<128x64xf32>, memref<64x256xf32>) outs(%0 : memref<128x256xf32>) schedule = #buf.schedule<contraction, groups = [8, 16, 1], row = [0], column = [1], rows = 1, columns = 2, lanes = 16, depth = 8, chunk = 16> {
// CHECK-NOT: buf.
// CHECK: func.return
// SOFTWARE-LABEL: func.func @product(
// SOFTWARE: buf.kernel grid = [128, 256] ins(%a, %b : memref<128x64xf32>, memref<64x256xf32>) outs(%0 : memref<128x256xf32>) schedule = #buf.schedule<contraction, groups = [8, 4, 1], row = [0], column = [1], rows = 32, columns = 4, lanes = 8, depth = 1, broadcast = 1, steps = 4> {
// SOFTWARE-NOT: buf.
// SOFTWARE: func.return
