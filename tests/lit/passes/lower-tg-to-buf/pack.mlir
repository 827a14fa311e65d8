// RUN: tg-opt %s -p 'lower-tg-to-buf' | filecheck %s
// RUN: not tg-opt %s -p 'lower-tg-to-buf,buf-to-upstream' 2>&1 | filecheck %s --check-prefix UPSTREAM

// UPSTREAM: tg-opt: error: buf-to-upstream: arguments of a function are packed; run plan-memory first

// Parameters and results of kernels are packed in place; inputs, and operands that are packed twice, are copied.
// Updates that are slices of one row are written through that row.
func.func @pack(%a: tensor<2xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<f32> {tg.name = "b", tg.role = "parameter"}, %x: tensor<2xf32>) -> (tensor<2xf32> {tg.name = "a", tg.role = "update"}, tensor<f32> {tg.name = "b", tg.role = "update"}) {
  %0 = tg.exp %x : tensor<2xf32>
  %1 = tg.pack %0, %0, %x offsets = [0, 64, 128] size = 130 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
  %2 = tg.slice %1 start = [0] stop = [65] step = [1] : tensor<130xf32>
  %3 = tg.pack %a, %b offsets = [0, 64] size = 65 : tensor<2xf32>, tensor<f32>
  %4 = tg.sub %3, %2 : tensor<65xf32>, tensor<65xf32>
  %5 = tg.slice %4 start = [0] stop = [2] step = [1] : tensor<65xf32>
  %6 = tg.slice %4 start = [64] stop = [65] step = [1] : tensor<65xf32>
  %7 = tg.reshape %6 shape = [] : tensor<1xf32>
  func.return %5, %7 : tensor<2xf32>, tensor<f32>
}

// CHECK: func.func @pack(%a: memref<2xf32> {tg.name = "a", tg.role = "parameter"}, %b: memref<f32> {tg.name = "b", tg.role = "parameter"}, %x: memref<2xf32> {tg.name = "arg2", tg.role = "input"}, %0: memref<2xf32> {tg.name = "a", tg.role = "update"}, %1: memref<f32> {tg.name = "b", tg.role = "update"}) {
// CHECK: %2 = memref.alloc() : memref<2xf32>
// CHECK: buf.kernel grid = [2] ins(%x : memref<2xf32>) outs(%2 : memref<2xf32>) {
// CHECK: %3 = memref.alloc() : memref<2xf32>
// CHECK: buf.kernel grid = [2] ins(%2 : memref<2xf32>) outs(%3 : memref<2xf32>) {
// CHECK: %4 = memref.alloc() : memref<2xf32>
// CHECK: buf.kernel grid = [2] ins(%x : memref<2xf32>) outs(%4 : memref<2xf32>) {
// CHECK: %5 = buf.pack %2, %3, %4 offsets = [0, 64, 128] : memref<2xf32>, memref<2xf32>, memref<2xf32> to memref<130xf32>
// CHECK: %6 = buf.pack %a, %b offsets = [0, 64] : memref<2xf32>, memref<f32> to memref<65xf32>
// CHECK: %7 = buf.pack %0, %1 offsets = [0, 64] : memref<2xf32>, memref<f32> to memref<65xf32>
// CHECK: buf.kernel grid = [65] ins(%6, %5 : memref<65xf32>, memref<130xf32>) outs(%7 : memref<65xf32>) {
