// RUN: tg-opt %s -p lower-tg-to-buf | filecheck %s
// RUN: tg-opt %s -p 'inference-pipeline{target=cpu}' | filecheck %s --check-prefix PLANNED

// A collective takes whole buffers, and what a loop's body is given and returns may be slices of larger ones, whose place
// depends on the iteration: they are copied.
func.func @f(%w: tensor<2xf32>, %x: tensor<3x2xf32>) -> (tensor<2xf32>, tensor<3x2xf32>) {
  %0, %1 = tg.scan () carry (%w) over (%x) length = 3 : (tensor<2xf32>, tensor<3x2xf32>) -> (tensor<2xf32>, tensor<3x2xf32>) {
  ^bb0(%b: tensor<2xf32>, %c: tensor<2xf32>):
    %2 = tg.all_reduce %c reduction = "sum" size = 2 : tensor<2xf32>
    %3 = tg.exp %b : tensor<2xf32>
    %4 = tg.all_reduce %3 reduction = "sum" size = 2 : tensor<2xf32>
    tg.return %4, %2 : tensor<2xf32>, tensor<2xf32>
  }
  func.return %0, %1 : tensor<2xf32>, tensor<3x2xf32>
}

// CHECK-LABEL: func.func private @f.body0(
// CHECK-SAME:    %b: memref<2xf32>
// CHECK-SAME:    %c: memref<2xf32>
// CHECK:         buf.kernel grid = [2] ins(%c : memref<2xf32>) outs([[ROW:%.+]] : memref<2xf32>)
// CHECK:         buf.kernel grid = [] ins([[ROW]] : memref<2xf32>) outs([[SUM:%.+]] : memref<2xf32>)
// CHECK:           buf.collective "all_reduce"
// CHECK:         buf.kernel grid = [2] ins([[SUM]] : memref<2xf32>) outs({{%.+}} : memref<2xf32>)
// CHECK:         buf.kernel grid = [2] ins(%b : memref<2xf32>) outs([[EXP:%.+]] : memref<2xf32>)
// CHECK:           math.exp
// CHECK:         buf.kernel grid = [] ins([[EXP]] : memref<2xf32>) outs([[NEXT:%.+]] : memref<2xf32>)
// CHECK:         buf.kernel grid = [2] ins([[NEXT]] : memref<2xf32>) outs({{%.+}} : memref<2xf32>)

// PLANNED: buf.repeat
// PLANNED: buf.kernel grid = [] ins({{%.+}}, {{%.+}} : memref<2xf32>, memref<2xf32>)
// PLANNED: buf.collective "all_reduce"
