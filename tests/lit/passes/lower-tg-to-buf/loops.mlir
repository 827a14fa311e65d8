// RUN: tg-opt %s -p lower-tg-to-buf | filecheck %s

// The reduced axes become reduction loops inside those of the grid.
func.func @sum(%x: tensor<4x3xf32>) -> tensor<3xf32> {
  %0 = tg.sum %x axes = [0] : tensor<4x3xf32>
  func.return %0 : tensor<3xf32>
}
// CHECK-LABEL: func.func @sum(
// CHECK-SAME: %x: memref<4x3xf32> {tg.name = "arg0", tg.role = "input"}, %0: memref<3xf32> {tg.name = "result0", tg.role = "output"}) {
// CHECK-NEXT:   buf.kernel grid = [3] ins(%x : memref<4x3xf32>) outs(%0 : memref<3xf32>) {
// CHECK-NEXT:   ^bb0(%1: memref<4x3xf32>, %2: memref<3xf32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%1 : memref<4x3xf32>) outs(%2 : memref<3xf32>) {
// CHECK-NEXT:     ^bb0(%3: f32, %4: f32):
// CHECK-NEXT:       %5 = arith.addf %4, %3 : f32
// CHECK-NEXT:       linalg.yield %5 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

func.func @max_of_unsigned(%x: tensor<4x3xui32>) -> tensor<4xui32> {
  %0 = tg.max %x axes = [1] : tensor<4x3xui32>
  func.return %0 : tensor<4xui32>
}
// CHECK-LABEL: func.func @max_of_unsigned(
// CHECK-SAME: %x: memref<4x3xi32> {tg.name = "arg0", tg.role = "input", tg.dtype = "u32"}, %0: memref<4xi32> {tg.name = "result0", tg.role = "output", tg.dtype = "u32"}) {
// CHECK-NEXT:   buf.kernel grid = [4] ins(%x : memref<4x3xi32>) outs(%0 : memref<4xi32>) {
// CHECK-NEXT:   ^bb0(%1: memref<4x3xi32>, %2: memref<4xi32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%1 : memref<4x3xi32>) outs(%2 : memref<4xi32>) {
// CHECK-NEXT:     ^bb0(%3: i32, %4: i32):
// CHECK-NEXT:       %5 = arith.maxui %4, %3 : i32
// CHECK-NEXT:       linalg.yield %5 : i32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

func.func @min(%x: tensor<4xf32>) -> tensor<f32> {
  %0 = tg.min %x axes = [0] : tensor<4xf32>
  func.return %0 : tensor<f32>
}
// CHECK-LABEL: func.func @min(
// CHECK-SAME: %x: memref<4xf32> {tg.name = "arg0", tg.role = "input"}, %0: memref<f32> {tg.name = "result0", tg.role = "output"}) {
// CHECK-NEXT:   buf.kernel grid = [] ins(%x : memref<4xf32>) outs(%0 : memref<f32>) {
// CHECK-NEXT:   ^bb0(%1: memref<4xf32>, %2: memref<f32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>], iterator_types = ["reduction"]} ins(%1 : memref<4xf32>) outs(%2 : memref<f32>) {
// CHECK-NEXT:     ^bb0(%3: f32, %4: f32):
// CHECK-NEXT:       %5 = arith.minimumf %4, %3 : f32
// CHECK-NEXT:       linalg.yield %5 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

// A sum of one element has no loop, and an empty sum is the constant 0.
func.func @short_and_empty(%x: tensor<4x1xf32>, %y: tensor<0x3xf32>) -> (tensor<4xf32>, tensor<3xf32>) {
  %0 = tg.sum %x axes = [1] : tensor<4x1xf32>
  %1 = tg.sum %y axes = [0] : tensor<0x3xf32>
  func.return %0, %1 : tensor<4xf32>, tensor<3xf32>
}
// CHECK-LABEL: func.func @short_and_empty(
// CHECK-SAME: %x: memref<4x1xf32> {tg.name = "arg0", tg.role = "input"}, %y: memref<0x3xf32> {tg.name = "arg1", tg.role = "input"}, %0: memref<4xf32> {tg.name = "result0", tg.role = "output"}, %1: memref<3xf32> {tg.name = "result1", tg.role = "output"}) {
// CHECK-NEXT:   buf.kernel grid = [4] ins(%x : memref<4x1xf32>) outs(%0 : memref<4xf32>) {
// CHECK-NEXT:   ^bb0(%2: memref<4x1xf32>, %3: memref<4xf32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0) -> (d0, 0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%2 : memref<4x1xf32>) outs(%3 : memref<4xf32>) {
// CHECK-NEXT:     ^bb0(%4: f32, %5: f32):
// CHECK-NEXT:       linalg.yield %4 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   buf.kernel grid = [3] outs(%1 : memref<3xf32>) {
// CHECK-NEXT:   ^bb0(%2: memref<3xf32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} outs(%2 : memref<3xf32>) {
// CHECK-NEXT:     ^bb0(%3: f32):
// CHECK-NEXT:       %4 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:       linalg.yield %4 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

func.func @product(%a: tensor<4x3xf32>, %b: tensor<5x3xf32>) -> tensor<4x5xf32> {
  %0 = tg.dot_general %a, %b lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [1] : tensor<4x3xf32>, tensor<5x3xf32>
  func.return %0 : tensor<4x5xf32>
}
// CHECK-LABEL: func.func @product(
// CHECK-SAME: %a: memref<4x3xf32> {tg.name = "arg0", tg.role = "input"}, %b: memref<5x3xf32> {tg.name = "arg1", tg.role = "input"}, %0: memref<4x5xf32> {tg.name = "result0", tg.role = "output"}) {
// CHECK-NEXT:   buf.kernel grid = [4, 5] ins(%a, %b : memref<4x3xf32>, memref<5x3xf32>) outs(%0 : memref<4x5xf32>) {
// CHECK-NEXT:   ^bb0(%1: memref<4x3xf32>, %2: memref<5x3xf32>, %3: memref<4x5xf32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%1, %2 : memref<4x3xf32>, memref<5x3xf32>) outs(%3 : memref<4x5xf32>) {
// CHECK-NEXT:     ^bb0(%4: f32, %5: f32, %6: f32):
// CHECK-NEXT:       %7 = arith.mulf %4, %5 : f32
// CHECK-NEXT:       %8 = arith.addf %6, %7 : f32
// CHECK-NEXT:       linalg.yield %8 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

func.func @batched_product(%a: tensor<2x4x3xi32>, %b: tensor<2x3x5xi32>) -> tensor<2x4x5xi32> {
  %0 = tg.dot_general %a, %b lhs_batch = [0] rhs_batch = [0] lhs_contracting = [2] rhs_contracting = [1] : tensor<2x4x3xi32>, tensor<2x3x5xi32>
  func.return %0 : tensor<2x4x5xi32>
}
// CHECK-LABEL: func.func @batched_product(
// CHECK-SAME: %a: memref<2x4x3xi32> {tg.name = "arg0", tg.role = "input"}, %b: memref<2x3x5xi32> {tg.name = "arg1", tg.role = "input"}, %0: memref<2x4x5xi32> {tg.name = "result0", tg.role = "output"}) {
// CHECK-NEXT:   buf.kernel grid = [2, 4, 5] ins(%a, %b : memref<2x4x3xi32>, memref<2x3x5xi32>) outs(%0 : memref<2x4x5xi32>) {
// CHECK-NEXT:   ^bb0(%1: memref<2x4x3xi32>, %2: memref<2x3x5xi32>, %3: memref<2x4x5xi32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d3, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%1, %2 : memref<2x4x3xi32>, memref<2x3x5xi32>) outs(%3 : memref<2x4x5xi32>) {
// CHECK-NEXT:     ^bb0(%4: i32, %5: i32, %6: i32):
// CHECK-NEXT:       %7 = arith.muli %4, %5 : i32
// CHECK-NEXT:       %8 = arith.addi %6, %7 : i32
// CHECK-NEXT:       linalg.yield %8 : i32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

// One unsigned comparison checks both bounds: a position before the start wraps around to a large number.
func.func @pad(%x: tensor<4xf32>, %v: tensor<f32>) -> tensor<10xf32> {
  %0 = tg.pad %x, %v low = [1] high = [2] interior = [1] : tensor<4xf32>, tensor<f32>
  func.return %0 : tensor<10xf32>
}
// CHECK-LABEL: func.func @pad(
// CHECK-SAME: %x: memref<4xf32> {tg.name = "arg0", tg.role = "input"}, %v: memref<f32> {tg.name = "arg1", tg.role = "input"}, %0: memref<10xf32> {tg.name = "result0", tg.role = "output"}) {
// CHECK-NEXT:   buf.kernel grid = [10] ins(%v, %x : memref<f32>, memref<4xf32>) outs(%0 : memref<10xf32>) {
// CHECK-NEXT:   ^bb0(%1: memref<f32>, %2: memref<4xf32>, %3: memref<10xf32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0) -> ()>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%1 : memref<f32>) outs(%3 : memref<10xf32>) {
// CHECK-NEXT:     ^bb0(%4: f32, %5: f32):
// CHECK-NEXT:       %6 = linalg.index 0 : index
// CHECK-NEXT:       %7 = arith.constant 1 : index
// CHECK-NEXT:       %8 = arith.subi %6, %7 : index
// CHECK-NEXT:       %9 = arith.constant 7 : index
// CHECK-NEXT:       %10 = arith.cmpi ult, %8, %9 : index
// CHECK-NEXT:       %11 = arith.constant 2 : index
// CHECK-NEXT:       %12 = arith.remui %8, %11 : index
// CHECK-NEXT:       %13 = arith.constant 0 : index
// CHECK-NEXT:       %14 = arith.cmpi eq, %12, %13 : index
// CHECK-NEXT:       %15 = arith.andi %10, %14 : i1
// CHECK-NEXT:       %16 = arith.constant 2 : index
// CHECK-NEXT:       %17 = arith.divui %8, %16 : index
// CHECK-NEXT:       %18 = scf.if %15 -> (f32) {
// CHECK-NEXT:         %19 = memref.load %2[%17] : memref<4xf32>
// CHECK-NEXT:         scf.yield %19 : f32
// CHECK-NEXT:       } else {
// CHECK-NEXT:         scf.yield %4 : f32
// CHECK-NEXT:       }
// CHECK-NEXT:       linalg.yield %18 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

func.func @iota() -> (tensor<2x3xi32>, tensor<3xf32>) {
  %0 = tg.iota shape = [2, 3] axis = 1 element = i32
  %1 = tg.iota shape = [3] axis = 0 element = f32
  func.return %0, %1 : tensor<2x3xi32>, tensor<3xf32>
}
// CHECK-LABEL: func.func @iota(
// CHECK-SAME: %0: memref<2x3xi32> {tg.name = "result0", tg.role = "output"}, %1: memref<3xf32> {tg.name = "result1", tg.role = "output"}) {
// CHECK-NEXT:   buf.kernel grid = [2, 3] outs(%0 : memref<2x3xi32>) {
// CHECK-NEXT:   ^bb0(%2: memref<2x3xi32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} outs(%2 : memref<2x3xi32>) {
// CHECK-NEXT:     ^bb0(%3: i32):
// CHECK-NEXT:       %4 = linalg.index 1 : index
// CHECK-NEXT:       %5 = arith.index_cast %4 : index to i32
// CHECK-NEXT:       linalg.yield %5 : i32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   buf.kernel grid = [3] outs(%1 : memref<3xf32>) {
// CHECK-NEXT:   ^bb0(%2: memref<3xf32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} outs(%2 : memref<3xf32>) {
// CHECK-NEXT:     ^bb0(%3: f32):
// CHECK-NEXT:       %4 = linalg.index 0 : index
// CHECK-NEXT:       %5 = arith.index_cast %4 : index to i32
// CHECK-NEXT:       %6 = arith.uitofp %5 : i32 to f32
// CHECK-NEXT:       linalg.yield %6 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }
