// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse,plan-memory' | filecheck %s

// Packed parameters keep their places in their arena, and packed allocations get an arena of their own. A row is one
// view over its buffers; a single kernel updates that of the parameters in place.
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

// CHECK: func.func @pack() attributes {buf.workspace_bytes = 0 : i64, buf.least_workspace_bytes = 0 : i64, buf.peak_bytes = 788 : i64} {
// CHECK: %0 = buf.arena "parameters" role = "parameter" : memref<260xi8>
// CHECK: %a = buf.view %0[0] attributes {tg.name = "a", tg.role = "parameter"} : memref<260xi8> to memref<2xf32>
// CHECK: %b = buf.view %0[256] attributes {tg.name = "b", tg.role = "parameter"} : memref<260xi8> to memref<f32>
// CHECK: %1 = buf.arena "inputs" role = "input" : memref<8xi8>
// CHECK: %x = buf.view %1[0] attributes {tg.name = "arg2", tg.role = "input"} : memref<8xi8> to memref<2xf32>
// CHECK: %2 = buf.arena "packed" role = "workspace" : memref<520xi8>
// CHECK: %3 = buf.view %2[0] : memref<520xi8> to memref<2xf32>
// CHECK: %4 = buf.view %2[256] : memref<520xi8> to memref<2xf32>
// CHECK: %5 = buf.view %2[512] : memref<520xi8> to memref<2xf32>
// CHECK: %6 = buf.view %2[0] attributes {buf.packed} : memref<520xi8> to memref<130xf32>
// CHECK: %7 = buf.view %0[0] attributes {buf.packed} : memref<260xi8> to memref<65xf32>
// CHECK: buf.kernel grid = [2] ins(%x : memref<2xf32>) outs(%3, %4, %5 : memref<2xf32>, memref<2xf32>, memref<2xf32>) {
// CHECK: buf.kernel grid = [65] ins(%7, %6 : memref<65xf32>, memref<130xf32>) outs(%7 : memref<65xf32>) {
