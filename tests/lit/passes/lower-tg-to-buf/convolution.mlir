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

// The holes of a dilated image are no operands: each phase of the positions reads half of the window. A group is
// a loop: outputs 3 to 5 read the second group of channels.
func.func @groups(%x: tensor<1x4x3xf32>, %w: tensor<6x2x2xf32>) -> tensor<1x6x4xf32> {
  %y = tg.conv %x, %w stride = [1] low = [0] high = [0] lhs_dilation = [2] rhs_dilation = [1] groups = 2 : tensor<1x4x3xf32>, tensor<6x2x2xf32>
  func.return %y : tensor<1x6x4xf32>
}
// CHECK-LABEL: func.func @groups(
// CHECK-SAME: %x: memref<1x4x3xf32> {tg.name = "arg0", tg.role = "input"}, %w: memref<6x2x2xf32> {tg.name = "arg1", tg.role = "input"}, %y: memref<1x6x4xf32> {tg.name = "result0", tg.role = "output"}) {
// CHECK-NEXT:   buf.kernel grid = [2, 2, 3, 2] ins(%x, %w : memref<1x4x3xf32>, memref<6x2x2xf32>) outs(%y : memref<1x6x4xf32>) {
// CHECK-NEXT:   ^bb0(%0: memref<1x4x3xf32>, %1: memref<6x2x2xf32>, %2: memref<1x6x4xf32>):
// CHECK-NEXT:     %3 = memref.alloca() {buf.shape_only} : memref<2xi1>
// CHECK-NEXT:     %4 = memref.alloca() {buf.shape_only} : memref<3xi1>
// CHECK-NEXT:     %5 = memref.alloca() {buf.shape_only} : memref<2xi1>
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (0, ((d1 * 2) + d4), (d0 + d3))>, affine_map<(d0, d1, d2, d3, d4) -> (((d1 * 3) + d2), d4, d0)>, affine_map<(d0, d1, d2, d3, d4) -> (d1)>, affine_map<(d0, d1, d2, d3, d4) -> (d2)>, affine_map<(d0, d1, d2, d3, d4) -> (d3)>, affine_map<(d0, d1, d2, d3, d4) -> (0, ((d1 * 3) + d2), ((d3 * 2) + d0))>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%0, %1, %3, %4, %5 : memref<1x4x3xf32>, memref<6x2x2xf32>, memref<2xi1>, memref<3xi1>, memref<2xi1>) outs(%2 : memref<1x6x4xf32>) {
// CHECK-NEXT:     ^bb0(%6: f32, %7: f32, %8: i1, %9: i1, %10: i1, %11: f32):
// CHECK-NEXT:       %12 = arith.mulf %6, %7 : f32
// CHECK-NEXT:       %13 = arith.addf %11, %12 : f32
// CHECK-NEXT:       linalg.yield %13 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

// If the window is no multiple of the phases, some of them have a tap less: both factors are 0 there. The last position
// of the second phase lies behind the result.
func.func @uneven(%x: tensor<2x3x5xf32>, %w: tensor<4x3x3xf32>) -> tensor<2x4x9xf32> {
  %y = tg.conv %x, %w stride = [1] low = [1] high = [1] lhs_dilation = [2] rhs_dilation = [1] groups = 1 : tensor<2x3x5xf32>, tensor<4x3x3xf32>
  func.return %y : tensor<2x4x9xf32>
}
// CHECK-LABEL: func.func @uneven(
// CHECK-SAME: %x: memref<2x3x5xf32> {tg.name = "arg0", tg.role = "input"}, %w: memref<4x3x3xf32> {tg.name = "arg1", tg.role = "input"}, %y: memref<2x4x9xf32> {tg.name = "result0", tg.role = "output"}) {
// CHECK-NEXT:   %y_1 = memref.alloc() : memref<2x4x10xf32>
// CHECK-NEXT:   buf.kernel grid = [2, 2, 4, 5] ins(%x, %w : memref<2x3x5xf32>, memref<4x3x3xf32>) outs(%y_1 : memref<2x4x10xf32>) {
// CHECK-NEXT:   ^bb0(%0: memref<2x3x5xf32>, %1: memref<4x3x3xf32>, %2: memref<2x4x10xf32>):
// CHECK-NEXT:     %3 = memref.alloca() {buf.shape_only} : memref<2xi1>
// CHECK-NEXT:     %4 = memref.alloca() {buf.shape_only} : memref<5xi1>
// CHECK-NEXT:     %5 = memref.alloca() {buf.shape_only} : memref<2xi1>
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5) -> (d1, d4, ((d3 + d5) mod 5))>, affine_map<(d0, d1, d2, d3, d4, d5) -> (d2, d4, ((((d5 * 2) + (d0 * -1)) + 1) mod 3))>, affine_map<(d0, d1, d2, d3, d4, d5) -> (d0)>, affine_map<(d0, d1, d2, d3, d4, d5) -> (d3)>, affine_map<(d0, d1, d2, d3, d4, d5) -> (d5)>, affine_map<(d0, d1, d2, d3, d4, d5) -> (d1, d2, ((d3 * 2) + d0))>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%0, %1, %3, %4, %5 : memref<2x3x5xf32>, memref<4x3x3xf32>, memref<2xi1>, memref<5xi1>, memref<2xi1>) outs(%2 : memref<2x4x10xf32>) {
// CHECK-NEXT:     ^bb0(%6: f32, %7: f32, %8: i1, %9: i1, %10: i1, %11: f32):
// CHECK-NEXT:       %12 = linalg.index 5 : index
// CHECK-NEXT:       %13 = arith.constant 2 : index
// CHECK-NEXT:       %14 = arith.muli %12, %13 : index
// CHECK-NEXT:       %15 = linalg.index 0 : index
// CHECK-NEXT:       %16 = arith.subi %14, %15 : index
// CHECK-NEXT:       %17 = arith.constant 1 : index
// CHECK-NEXT:       %18 = arith.addi %16, %17 : index
// CHECK-NEXT:       %19 = arith.constant 3 : index
// CHECK-NEXT:       %20 = arith.cmpi ult, %18, %19 : index
// CHECK-NEXT:       %21 = linalg.index 3 : index
// CHECK-NEXT:       %22 = linalg.index 5 : index
// CHECK-NEXT:       %23 = arith.addi %21, %22 : index
// CHECK-NEXT:       %24 = arith.constant 5 : index
// CHECK-NEXT:       %25 = arith.cmpi ult, %23, %24 : index
// CHECK-NEXT:       %26 = arith.andi %20, %25 : i1
// CHECK-NEXT:       %27 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:       %28 = arith.select %26, %6, %27 : f32
// CHECK-NEXT:       %29 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:       %30 = arith.select %20, %7, %29 : f32
// CHECK-NEXT:       %31 = arith.mulf %28, %30 : f32
// CHECK-NEXT:       %32 = arith.addf %11, %31 : f32
// CHECK-NEXT:       linalg.yield %32 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   buf.kernel grid = [2, 4, 9] ins(%y_1 : memref<2x4x10xf32>) outs(%y : memref<2x4x9xf32>) {
// CHECK-NEXT:   ^bb0(%0: memref<2x4x10xf32>, %1: memref<2x4x9xf32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, (d2 mod 10))>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%0 : memref<2x4x10xf32>) outs(%1 : memref<2x4x9xf32>) {
// CHECK-NEXT:     ^bb0(%2: f32, %3: f32):
// CHECK-NEXT:       linalg.yield %2 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

// Three phases of one tap: where the first tap lies is a step function of the phase.
func.func @three(%x: tensor<2x3x4xf32>, %w: tensor<4x3x3xf32>) -> tensor<2x4x12xf32> {
  %y = tg.conv %x, %w stride = [1] low = [1] high = [3] lhs_dilation = [3] rhs_dilation = [1] groups = 1 : tensor<2x3x4xf32>, tensor<4x3x3xf32>
  func.return %y : tensor<2x4x12xf32>
}
// CHECK-LABEL: func.func @three(
// CHECK-SAME: %x: memref<2x3x4xf32> {tg.name = "arg0", tg.role = "input"}, %w: memref<4x3x3xf32> {tg.name = "arg1", tg.role = "input"}, %y: memref<2x4x12xf32> {tg.name = "result0", tg.role = "output"}) {
// CHECK-NEXT:   buf.kernel grid = [3, 2, 4, 4] ins(%x, %w : memref<2x3x4xf32>, memref<4x3x3xf32>) outs(%y : memref<2x4x12xf32>) {
// CHECK-NEXT:   ^bb0(%0: memref<2x3x4xf32>, %1: memref<4x3x3xf32>, %2: memref<2x4x12xf32>):
// CHECK-NEXT:     %3 = memref.alloca() {buf.shape_only} : memref<3xi1>
// CHECK-NEXT:     %4 = memref.alloca() {buf.shape_only} : memref<4xi1>
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d1, d4, ((((d0 + 1) floordiv 3) + d3) mod 4))>, affine_map<(d0, d1, d2, d3, d4) -> (d2, d4, (((d0 * -1) + 4) mod 3))>, affine_map<(d0, d1, d2, d3, d4) -> (d0)>, affine_map<(d0, d1, d2, d3, d4) -> (d3)>, affine_map<(d0, d1, d2, d3, d4) -> (d1, d2, ((d3 * 3) + d0))>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%0, %1, %3, %4 : memref<2x3x4xf32>, memref<4x3x3xf32>, memref<3xi1>, memref<4xi1>) outs(%2 : memref<2x4x12xf32>) {
// CHECK-NEXT:     ^bb0(%5: f32, %6: f32, %7: i1, %8: i1, %9: f32):
// CHECK-NEXT:       %10 = linalg.index 0 : index
// CHECK-NEXT:       %11 = arith.constant 1 : index
// CHECK-NEXT:       %12 = arith.addi %10, %11 : index
// CHECK-NEXT:       %13 = arith.constant 3 : index
// CHECK-NEXT:       %14 = arith.divui %12, %13 : index
// CHECK-NEXT:       %15 = linalg.index 3 : index
// CHECK-NEXT:       %16 = arith.addi %14, %15 : index
// CHECK-NEXT:       %17 = arith.constant 4 : index
// CHECK-NEXT:       %18 = arith.cmpi ult, %16, %17 : index
// CHECK-NEXT:       %19 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:       %20 = arith.select %18, %5, %19 : f32
// CHECK-NEXT:       %21 = arith.mulf %20, %6 : f32
// CHECK-NEXT:       %22 = arith.addf %9, %21 : f32
// CHECK-NEXT:       linalg.yield %22 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

// No position meets an element: nothing is read.
func.func @only_holes(%x: tensor<1x1x3xf32>, %w: tensor<1x1x3xf32>) -> tensor<1x1x3xf32> {
  %y = tg.conv %x, %w stride = [2] low = [1] high = [3] lhs_dilation = [2] rhs_dilation = [2] groups = 1 : tensor<1x1x3xf32>, tensor<1x1x3xf32>
  func.return %y : tensor<1x1x3xf32>
}
// CHECK-LABEL: func.func @only_holes(
// CHECK-SAME: %x: memref<1x1x3xf32> {tg.name = "arg0", tg.role = "input"}, %w: memref<1x1x3xf32> {tg.name = "arg1", tg.role = "input"}, %y: memref<1x1x3xf32> {tg.name = "result0", tg.role = "output"}) {
// CHECK-NEXT:   buf.kernel grid = [3] outs(%y : memref<1x1x3xf32>) {
// CHECK-NEXT:   ^bb0(%0: memref<1x1x3xf32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0) -> (0, 0, d0)>], iterator_types = ["parallel"]} outs(%0 : memref<1x1x3xf32>) {
// CHECK-NEXT:     ^bb0(%1: f32):
// CHECK-NEXT:       %2 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:       linalg.yield %2 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

// With few outputs, products with all elements of the window are stored, and then added up.
func.func @few(%x: tensor<2x8x4xf32>, %w: tensor<3x8x4xf32>) -> tensor<2x3x8xf32> {
  %y = tg.conv %x, %w stride = [1] low = [2] high = [2] lhs_dilation = [2] rhs_dilation = [1] groups = 1 : tensor<2x8x4xf32>, tensor<3x8x4xf32>
  func.return %y : tensor<2x3x8xf32>
}
// CHECK-LABEL: func.func @few(
// CHECK-SAME: %x: memref<2x8x4xf32> {tg.name = "arg0", tg.role = "input"}, %w: memref<3x8x4xf32> {tg.name = "arg1", tg.role = "input"}, %y: memref<2x3x8xf32> {tg.name = "result0", tg.role = "output"}) {
// CHECK-NEXT:   %y_1 = memref.alloc() : memref<2x3x4x4xf32>
// CHECK-NEXT:   buf.kernel grid = [2, 3, 4, 4] ins(%x, %w : memref<2x8x4xf32>, memref<3x8x4xf32>) outs(%y_1 : memref<2x3x4x4xf32>) {
// CHECK-NEXT:   ^bb0(%0: memref<2x8x4xf32>, %1: memref<3x8x4xf32>, %2: memref<2x3x4x4xf32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d4, d3)>, affine_map<(d0, d1, d2, d3, d4) -> (d1, d4, d2)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%0, %1 : memref<2x8x4xf32>, memref<3x8x4xf32>) outs(%2 : memref<2x3x4x4xf32>) {
// CHECK-NEXT:     ^bb0(%3: f32, %4: f32, %5: f32):
// CHECK-NEXT:       %6 = arith.mulf %3, %4 : f32
// CHECK-NEXT:       %7 = arith.addf %5, %6 : f32
// CHECK-NEXT:       linalg.yield %7 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   buf.kernel grid = [2, 3, 8] ins(%y_1 : memref<2x3x4x4xf32>) outs(%y : memref<2x3x8xf32>) {
// CHECK-NEXT:   ^bb0(%0: memref<2x3x4x4xf32>, %1: memref<2x3x8xf32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3, ((((d2 + d3) floordiv 2) + 3) mod 4))>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%0 : memref<2x3x4x4xf32>) outs(%1 : memref<2x3x8xf32>) {
// CHECK-NEXT:     ^bb0(%2: f32, %3: f32):
// CHECK-NEXT:       %4 = linalg.index 2 : index
// CHECK-NEXT:       %5 = linalg.index 3 : index
// CHECK-NEXT:       %6 = arith.addi %4, %5 : index
// CHECK-NEXT:       %7 = arith.constant 2 : index
// CHECK-NEXT:       %8 = arith.subi %6, %7 : index
// CHECK-NEXT:       %9 = arith.constant 7 : index
// CHECK-NEXT:       %10 = arith.cmpi ult, %8, %9 : index
// CHECK-NEXT:       %11 = arith.constant 2 : index
// CHECK-NEXT:       %12 = arith.remui %8, %11 : index
// CHECK-NEXT:       %13 = arith.constant 0 : index
// CHECK-NEXT:       %14 = arith.cmpi eq, %12, %13 : index
// CHECK-NEXT:       %15 = arith.andi %10, %14 : i1
// CHECK-NEXT:       %16 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:       %17 = arith.select %15, %2, %16 : f32
// CHECK-NEXT:       %18 = arith.addf %3, %17 : f32
// CHECK-NEXT:       linalg.yield %18 : f32
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
