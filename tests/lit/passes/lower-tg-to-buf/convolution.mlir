// RUN: tg-opt %s -p lower-tg-to-buf | filecheck %s

// The grid is batch, output channels and positions; input channels and window are reduced. Nothing needs a guard.
func.func @plain(%x: tensor<2x3x6xf32>, %w: tensor<4x3x3xf32>) -> tensor<2x4x4xf32> {
  %y = tg.conv %x, %w stride = [1] low = [0] high = [0] lhs_dilation = [1] rhs_dilation = [1] groups = 1 : tensor<2x3x6xf32>, tensor<4x3x3xf32>
  func.return %y : tensor<2x4x4xf32>
}
// CHECK-LABEL: func.func @plain(
// CHECK-SAME: %x: memref<2x3x6xf32> {tg.name = "arg0", tg.role = "input"}, %w: memref<4x3x3xf32> {tg.name = "arg1", tg.role = "input"}, %y: memref<2x4x4xf32> {tg.name = "result0", tg.role = "output"}) {
// CHECK-NEXT:   buf.kernel grid = [2, 4, 4] ins(%x, %w : memref<2x3x6xf32>, memref<4x3x3xf32>) outs(%y : memref<2x4x4xf32>) {
// CHECK-NEXT:   ^bb0(%0: memref<2x3x6xf32>, %1: memref<4x3x3xf32>, %2: memref<2x4x4xf32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d3, (d2 + d4))>, affine_map<(d0, d1, d2, d3, d4) -> (d1, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%0, %1 : memref<2x3x6xf32>, memref<4x3x3xf32>) outs(%2 : memref<2x4x4xf32>) {
// CHECK-NEXT:     ^bb0(%3: f32, %4: f32, %5: f32):
// CHECK-NEXT:       %6 = arith.mulf %3, %4 : f32
// CHECK-NEXT:       %7 = arith.addf %5, %6 : f32
// CHECK-NEXT:       linalg.yield %7 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

// In the padding, the index wraps around so that the load is in bounds, and the body replaces its value by 0.
func.func @padded(%x: tensor<2x3x6xf32>, %w: tensor<4x3x3xf32>) -> tensor<2x4x3xf32> {
  %y = tg.conv %x, %w stride = [2] low = [1] high = [1] lhs_dilation = [1] rhs_dilation = [1] groups = 1 : tensor<2x3x6xf32>, tensor<4x3x3xf32>
  func.return %y : tensor<2x4x3xf32>
}
// CHECK-LABEL: func.func @padded(
// CHECK-SAME: %x: memref<2x3x6xf32> {tg.name = "arg0", tg.role = "input"}, %w: memref<4x3x3xf32> {tg.name = "arg1", tg.role = "input"}, %y: memref<2x4x3xf32> {tg.name = "result0", tg.role = "output"}) {
// CHECK-NEXT:   buf.kernel grid = [2, 4, 3] ins(%x, %w : memref<2x3x6xf32>, memref<4x3x3xf32>) outs(%y : memref<2x4x3xf32>) {
// CHECK-NEXT:   ^bb0(%0: memref<2x3x6xf32>, %1: memref<4x3x3xf32>, %2: memref<2x4x3xf32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d3, ((((d2 * 2) + d4) + 5) mod 6))>, affine_map<(d0, d1, d2, d3, d4) -> (d1, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%0, %1 : memref<2x3x6xf32>, memref<4x3x3xf32>) outs(%2 : memref<2x4x3xf32>) {
// CHECK-NEXT:     ^bb0(%3: f32, %4: f32, %5: f32):
// CHECK-NEXT:       %6 = linalg.index 2 : index
// CHECK-NEXT:       %7 = arith.constant 2 : index
// CHECK-NEXT:       %8 = arith.muli %6, %7 : index
// CHECK-NEXT:       %9 = linalg.index 4 : index
// CHECK-NEXT:       %10 = arith.addi %8, %9 : index
// CHECK-NEXT:       %11 = arith.constant 1 : index
// CHECK-NEXT:       %12 = arith.subi %10, %11 : index
// CHECK-NEXT:       %13 = arith.constant 6 : index
// CHECK-NEXT:       %14 = arith.cmpi ult, %12, %13 : index
// CHECK-NEXT:       %15 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:       %16 = arith.select %14, %3, %15 : f32
// CHECK-NEXT:       %17 = arith.mulf %16, %4 : f32
// CHECK-NEXT:       %18 = arith.addf %5, %17 : f32
// CHECK-NEXT:       linalg.yield %18 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

// Positions between the dilated elements are also replaced by 0; outputs 3 to 5 read the second group of channels.
func.func @groups(%x: tensor<1x4x3xf32>, %w: tensor<6x2x2xf32>) -> tensor<1x6x4xf32> {
  %y = tg.conv %x, %w stride = [1] low = [0] high = [0] lhs_dilation = [2] rhs_dilation = [1] groups = 2 : tensor<1x4x3xf32>, tensor<6x2x2xf32>
  func.return %y : tensor<1x6x4xf32>
}
// CHECK-LABEL: func.func @groups(
// CHECK-SAME: %x: memref<1x4x3xf32> {tg.name = "arg0", tg.role = "input"}, %w: memref<6x2x2xf32> {tg.name = "arg1", tg.role = "input"}, %y: memref<1x6x4xf32> {tg.name = "result0", tg.role = "output"}) {
// CHECK-NEXT:   buf.kernel grid = [6, 4] ins(%x, %w : memref<1x4x3xf32>, memref<6x2x2xf32>) outs(%y : memref<1x6x4xf32>) {
// CHECK-NEXT:   ^bb0(%0: memref<1x4x3xf32>, %1: memref<6x2x2xf32>, %2: memref<1x6x4xf32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (0, (((d0 floordiv 3) * 2) + d2), ((d1 + d3) floordiv 2))>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (0, d0, d1)>], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%0, %1 : memref<1x4x3xf32>, memref<6x2x2xf32>) outs(%2 : memref<1x6x4xf32>) {
// CHECK-NEXT:     ^bb0(%3: f32, %4: f32, %5: f32):
// CHECK-NEXT:       %6 = linalg.index 1 : index
// CHECK-NEXT:       %7 = linalg.index 3 : index
// CHECK-NEXT:       %8 = arith.addi %6, %7 : index
// CHECK-NEXT:       %9 = arith.constant 2 : index
// CHECK-NEXT:       %10 = arith.remui %8, %9 : index
// CHECK-NEXT:       %11 = arith.constant 0 : index
// CHECK-NEXT:       %12 = arith.cmpi eq, %10, %11 : index
// CHECK-NEXT:       %13 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:       %14 = arith.select %12, %3, %13 : f32
// CHECK-NEXT:       %15 = arith.mulf %14, %4 : f32
// CHECK-NEXT:       %16 = arith.addf %5, %15 : f32
// CHECK-NEXT:       linalg.yield %16 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

// Windows are an indexing map: nothing is copied.
func.func @pool(%x: tensor<2x7xf32>) -> tensor<2x3xf32> {
  %0 = tg.windows %x axes = [1] size = [3] stride = [2] dilation = [1] : tensor<2x7xf32>
  %1 = tg.max %0 axes = [2] : tensor<2x3x3xf32>
  func.return %1 : tensor<2x3xf32>
}
// CHECK-LABEL: func.func @pool(
// CHECK-SAME: %x: memref<2x7xf32> {tg.name = "arg0", tg.role = "input"}, %0: memref<2x3xf32> {tg.name = "result0", tg.role = "output"}) {
// CHECK-NEXT:   buf.kernel grid = [2, 3] ins(%x : memref<2x7xf32>) outs(%0 : memref<2x3xf32>) {
// CHECK-NEXT:   ^bb0(%1: memref<2x7xf32>, %2: memref<2x3xf32>):
// CHECK-NEXT:     %3 = memref.alloca() {buf.shape_only} : memref<3xi1>
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, ((d1 * 2) + d2))>, affine_map<(d0, d1, d2) -> (d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%1, %3 : memref<2x7xf32>, memref<3xi1>) outs(%2 : memref<2x3xf32>) {
// CHECK-NEXT:     ^bb0(%4: f32, %5: i1, %6: f32):
// CHECK-NEXT:       %7 = arith.maximumf %6, %4 : f32
// CHECK-NEXT:       linalg.yield %7 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

// Each element sums the windows that contain it.
func.func @overlapping(%x: tensor<3x3xf32>) -> tensor<8xf32> {
  %0 = tg.fold %x axes = [0] stride = [2] dilation = [1] extents = [8] : tensor<3x3xf32>
  func.return %0 : tensor<8xf32>
}
// CHECK-LABEL: func.func @overlapping(
// CHECK-SAME: %x: memref<3x3xf32> {tg.name = "arg0", tg.role = "input"}, %0: memref<8xf32> {tg.name = "result0", tg.role = "output"}) {
// CHECK-NEXT:   buf.kernel grid = [8] ins(%x : memref<3x3xf32>) outs(%0 : memref<8xf32>) {
// CHECK-NEXT:   ^bb0(%1: memref<3x3xf32>, %2: memref<8xf32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0, d1) -> ((((((d0 + (d1 * -1)) + 2) floordiv 2) + 2) mod 3), d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%1 : memref<3x3xf32>) outs(%2 : memref<8xf32>) {
// CHECK-NEXT:     ^bb0(%3: f32, %4: f32):
// CHECK-NEXT:       %5 = linalg.index 0 : index
// CHECK-NEXT:       %6 = linalg.index 1 : index
// CHECK-NEXT:       %7 = arith.subi %5, %6 : index
// CHECK-NEXT:       %8 = arith.constant 5 : index
// CHECK-NEXT:       %9 = arith.cmpi ult, %7, %8 : index
// CHECK-NEXT:       %10 = arith.constant 2 : index
// CHECK-NEXT:       %11 = arith.remui %7, %10 : index
// CHECK-NEXT:       %12 = arith.constant 0 : index
// CHECK-NEXT:       %13 = arith.cmpi eq, %11, %12 : index
// CHECK-NEXT:       %14 = arith.andi %9, %13 : i1
// CHECK-NEXT:       %15 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:       %16 = arith.select %14, %3, %15 : f32
// CHECK-NEXT:       %17 = arith.addf %4, %16 : f32
// CHECK-NEXT:       linalg.yield %17 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

// With disjoint windows there is no reduction: each element reads its only window, or is 0 in a gap.
func.func @apart(%x: tensor<3x2xf32>) -> tensor<9xf32> {
  %0 = tg.fold %x axes = [0] stride = [3] dilation = [1] extents = [9] : tensor<3x2xf32>
  func.return %0 : tensor<9xf32>
}
// CHECK-LABEL: func.func @apart(
// CHECK-SAME: %x: memref<3x2xf32> {tg.name = "arg0", tg.role = "input"}, %0: memref<9xf32> {tg.name = "result0", tg.role = "output"}) {
// CHECK-NEXT:   buf.kernel grid = [9] ins(%x : memref<3x2xf32>) outs(%0 : memref<9xf32>) {
// CHECK-NEXT:   ^bb0(%1: memref<3x2xf32>, %2: memref<9xf32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0) -> ((d0 floordiv 3), ((d0 mod 3) mod 2))>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%1 : memref<3x2xf32>) outs(%2 : memref<9xf32>) {
// CHECK-NEXT:     ^bb0(%3: f32, %4: f32):
// CHECK-NEXT:       %5 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:       %6 = linalg.index 0 : index
// CHECK-NEXT:       %7 = arith.constant 8 : index
// CHECK-NEXT:       %8 = arith.cmpi ult, %6, %7 : index
// CHECK-NEXT:       %9 = arith.select %8, %3, %5 : f32
// CHECK-NEXT:       %10 = linalg.index 0 : index
// CHECK-NEXT:       %11 = arith.constant 3 : index
// CHECK-NEXT:       %12 = arith.remui %10, %11 : index
// CHECK-NEXT:       %13 = arith.constant 2 : index
// CHECK-NEXT:       %14 = arith.cmpi ult, %12, %13 : index
// CHECK-NEXT:       %15 = arith.select %14, %9, %5 : f32
// CHECK-NEXT:       linalg.yield %15 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }
