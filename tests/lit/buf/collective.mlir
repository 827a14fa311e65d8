// RUN: TG_ROUNDTRIP

func.func @gathered(%x: memref<2x3xf32>, %y: memref<8x3xf32>) {
  buf.kernel grid = [] ins(%x : memref<2x3xf32>) outs(%y : memref<8x3xf32>) {
  ^bb0(%0: memref<2x3xf32>, %1: memref<8x3xf32>):
    buf.collective "all_gather" ins(%0 : memref<2x3xf32>) outs(%1 : memref<8x3xf32>) {reduction = "sum", root = 0 : i64, size = 4 : i64}
  }
  func.return
}
// CHECK-LABEL: func.func @gathered(
// CHECK-NEXT:   buf.kernel grid = [] ins(%x : memref<2x3xf32>) outs(%y : memref<8x3xf32>) {
// CHECK-NEXT:   ^bb0(%0: memref<2x3xf32>, %1: memref<8x3xf32>):
// CHECK-NEXT:     buf.collective "all_gather" ins(%0 : memref<2x3xf32>) outs(%1 : memref<8x3xf32>) {reduction = "sum", root = 0 : i64, size = 4 : i64}
// CHECK-NEXT:   }
