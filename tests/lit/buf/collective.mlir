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

// Two buffers in one message, in the phases `start` and `wait`.
func.func @overlapped(%x: memref<2x3xf32>, %z: memref<4xf32>, %y: memref<8x3xf32>, %w: memref<16xf32>, %r: memref<i32>) {
  buf.kernel grid = [] ins(%x, %z : memref<2x3xf32>, memref<4xf32>) outs(%r : memref<i32>) {
  ^bb0(%0: memref<2x3xf32>, %1: memref<4xf32>, %2: memref<i32>):
    buf.collective "all_gather" ins(%0, %1 : memref<2x3xf32>, memref<4xf32>) outs(%2 : memref<i32>) {reduction = "sum", root = 0 : i64, size = 4 : i64, phase = "start"}
  }
  buf.kernel grid = [] ins(%x, %z, %r : memref<2x3xf32>, memref<4xf32>, memref<i32>) outs(%y, %w : memref<8x3xf32>, memref<16xf32>) {
  ^bb0(%0: memref<2x3xf32>, %1: memref<4xf32>, %2: memref<i32>, %3: memref<8x3xf32>, %4: memref<16xf32>):
    buf.collective "all_gather" ins(%0, %1, %2 : memref<2x3xf32>, memref<4xf32>, memref<i32>) outs(%3, %4 : memref<8x3xf32>, memref<16xf32>) {reduction = "sum", root = 0 : i64, size = 4 : i64, phase = "wait"}
  }
  func.return
}

// CHECK-LABEL: func.func @overlapped(
// CHECK: buf.collective "all_gather" ins(%0, %1 : memref<2x3xf32>, memref<4xf32>) outs(%2 : memref<i32>) {reduction = "sum", root = 0 : i64, size = 4 : i64, phase = "start"}
// CHECK: buf.collective "all_gather" ins(%0, %1, %2 : memref<2x3xf32>, memref<4xf32>, memref<i32>) outs(%3, %4 : memref<8x3xf32>, memref<16xf32>) {reduction = "sum", root = 0 : i64, size = 4 : i64, phase = "wait"}
