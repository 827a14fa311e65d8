// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{only=inline,prologue target=cpu}' | filecheck %s --check-prefix=NATIVE
// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{only=inline,prologue target=lavapipe}' | filecheck %s --check-prefix=CPU
// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{only=inline,prologue}' | filecheck %s --check-prefix=GPU

// Codes of 8 bits in words: a product of few rows computes each only once or twice, which costs less than to store a
// weight that is four times as large, and to load it again.
func.func @few_rows(%x: tensor<64x1024xf32>, %words: tensor<256x1024xui32>) -> tensor<64x1024xf32> {
  %0 = tg.broadcast %words shape = [256, 4, 1024] dims = [0, 2] : tensor<256x1024xui32>
  %1 = tg.iota shape = [256, 4, 1024] axis = 1 element = ui32
  %2 = tg.constant value = dense<8> : tensor<256x4x1024xui32>
  %3 = tg.mul %1, %2 : tensor<256x4x1024xui32>, tensor<256x4x1024xui32>
  %4 = tg.shift_right %0, %3 : tensor<256x4x1024xui32>, tensor<256x4x1024xui32>
  %5 = tg.constant value = dense<255> : tensor<256x4x1024xui32>
  %6 = tg.and %4, %5 : tensor<256x4x1024xui32>, tensor<256x4x1024xui32>
  %7 = tg.cast %6 to = f32 : tensor<256x4x1024xui32>
  %8 = tg.reshape %7 shape = [1024, 1024] : tensor<256x4x1024xf32>
  %9 = tg.dot_general %x, %8 lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<64x1024xf32>, tensor<1024x1024xf32>
  func.return %9 : tensor<64x1024xf32>
}
// NATIVE-LABEL: func.func @few_rows(
// NATIVE: buf.kernel grid = [64, 1024] ins(%x, %words : memref<64x1024xf32>, memref<256x1024xi32>)
// NATIVE-NOT: buf.kernel
// NATIVE: func.return
// CPU-LABEL: func.func @few_rows(
// CPU: buf.kernel grid = [64, 1024] ins(%x, %words : memref<64x1024xf32>, memref<256x1024xi32>)
// CPU-NOT: buf.kernel
// CPU: func.return
// GPU-LABEL: func.func @few_rows(
// GPU: buf.kernel grid = [64, 1024] ins(%x, %words : memref<64x1024xf32>, memref<256x1024xi32>)
// GPU-NOT: buf.kernel
// GPU: func.return

// With many rows they are stored: each block of rows would compute all of them again. Native code computes them when it
// packs columns, for large blocks and in vectors, so there it takes more rows.
func.func @many_rows(%x: tensor<1024x1024xf32>, %words: tensor<256x1024xui32>) -> tensor<1024x1024xf32> {
  %0 = tg.broadcast %words shape = [256, 4, 1024] dims = [0, 2] : tensor<256x1024xui32>
  %1 = tg.iota shape = [256, 4, 1024] axis = 1 element = ui32
  %2 = tg.constant value = dense<8> : tensor<256x4x1024xui32>
  %3 = tg.mul %1, %2 : tensor<256x4x1024xui32>, tensor<256x4x1024xui32>
  %4 = tg.shift_right %0, %3 : tensor<256x4x1024xui32>, tensor<256x4x1024xui32>
  %5 = tg.constant value = dense<255> : tensor<256x4x1024xui32>
  %6 = tg.and %4, %5 : tensor<256x4x1024xui32>, tensor<256x4x1024xui32>
  %7 = tg.cast %6 to = f32 : tensor<256x4x1024xui32>
  %8 = tg.reshape %7 shape = [1024, 1024] : tensor<256x4x1024xf32>
  %9 = tg.dot_general %x, %8 lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<1024x1024xf32>, tensor<1024x1024xf32>
  func.return %9 : tensor<1024x1024xf32>
}
// NATIVE-LABEL: func.func @many_rows(
// NATIVE: buf.kernel grid = [1024, 1024] ins(%x, %words : memref<1024x1024xf32>, memref<256x1024xi32>)
// NATIVE-NOT: buf.kernel
// NATIVE: func.return
// CPU-LABEL: func.func @many_rows(
// CPU: buf.kernel grid = [256, 4, 1024] ins(%words : memref<256x1024xi32>)
// CPU: buf.kernel grid = [1024, 1024]
// CPU: func.return
// GPU-LABEL: func.func @many_rows(
// GPU: buf.kernel grid = [256, 4, 1024] ins(%words : memref<256x1024xi32>)
// GPU: buf.kernel grid = [1024, 1024]
// GPU: func.return
