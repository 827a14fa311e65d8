// RUN: tg-opt %s -p lower-tg-to-buf | filecheck %s

// Ops that only move elements are folded into the indexing map of the kernel that reads them, here the only one.
func.func @transpose(%x: tensor<4x3xf32>) -> tensor<3x4xf32> {
  %0 = tg.transpose %x permutation = [1, 0] : tensor<4x3xf32>
  %1 = tg.neg %0 : tensor<3x4xf32>
  func.return %1 : tensor<3x4xf32>
}
// CHECK-LABEL: func.func @transpose(
// CHECK-SAME: %x: memref<4x3xf32> {tg.name = "arg0", tg.role = "input"}, %0: memref<3x4xf32> {tg.name = "result0", tg.role = "output"}) {
// CHECK-NEXT:   buf.kernel grid = [3, 4] ins(%x : memref<4x3xf32>) outs(%0 : memref<3x4xf32>) {
// CHECK-NEXT:   ^bb0(%1: memref<4x3xf32>, %2: memref<3x4xf32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%1 : memref<4x3xf32>) outs(%2 : memref<3x4xf32>) {
// CHECK-NEXT:     ^bb0(%3: f32, %4: f32):
// CHECK-NEXT:       %5 = arith.negf %3 : f32
// CHECK-NEXT:       linalg.yield %5 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

func.func @broadcast(%x: tensor<3xf32>) -> tensor<4x3xf32> {
  %0 = tg.broadcast %x shape = [4, 3] dims = [1] : tensor<3xf32>
  %1 = tg.neg %0 : tensor<4x3xf32>
  func.return %1 : tensor<4x3xf32>
}
// CHECK-LABEL: func.func @broadcast(
// CHECK-SAME: %x: memref<3xf32> {tg.name = "arg0", tg.role = "input"}, %0: memref<4x3xf32> {tg.name = "result0", tg.role = "output"}) {
// CHECK-NEXT:   buf.kernel grid = [4, 3] ins(%x : memref<3xf32>) outs(%0 : memref<4x3xf32>) {
// CHECK-NEXT:   ^bb0(%1: memref<3xf32>, %2: memref<4x3xf32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%1 : memref<3xf32>) outs(%2 : memref<4x3xf32>) {
// CHECK-NEXT:     ^bb0(%3: f32, %4: f32):
// CHECK-NEXT:       %5 = arith.negf %3 : f32
// CHECK-NEXT:       linalg.yield %5 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

func.func @slice(%x: tensor<7x3xf32>) -> tensor<2x3xf32> {
  %0 = tg.slice %x start = [1, 0] stop = [6, 3] step = [3, 1] : tensor<7x3xf32>
  %1 = tg.neg %0 : tensor<2x3xf32>
  func.return %1 : tensor<2x3xf32>
}
// CHECK-LABEL: func.func @slice(
// CHECK-SAME: %x: memref<7x3xf32> {tg.name = "arg0", tg.role = "input"}, %0: memref<2x3xf32> {tg.name = "result0", tg.role = "output"}) {
// CHECK-NEXT:   buf.kernel grid = [2, 3] ins(%x : memref<7x3xf32>) outs(%0 : memref<2x3xf32>) {
// CHECK-NEXT:   ^bb0(%1: memref<7x3xf32>, %2: memref<2x3xf32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (((d0 * 3) + 1), d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%1 : memref<7x3xf32>) outs(%2 : memref<2x3xf32>) {
// CHECK-NEXT:     ^bb0(%3: f32, %4: f32):
// CHECK-NEXT:       %5 = arith.negf %3 : f32
// CHECK-NEXT:       linalg.yield %5 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

func.func @reverse(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tg.reverse %x axes = [0] : tensor<4xf32>
  %1 = tg.neg %0 : tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
// CHECK-LABEL: func.func @reverse(
// CHECK-SAME: %x: memref<4xf32> {tg.name = "arg0", tg.role = "input"}, %0: memref<4xf32> {tg.name = "result0", tg.role = "output"}) {
// CHECK-NEXT:   buf.kernel grid = [4] ins(%x : memref<4xf32>) outs(%0 : memref<4xf32>) {
// CHECK-NEXT:   ^bb0(%1: memref<4xf32>, %2: memref<4xf32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0) -> (((d0 * -1) + 3))>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%1 : memref<4xf32>) outs(%2 : memref<4xf32>) {
// CHECK-NEXT:     ^bb0(%3: f32, %4: f32):
// CHECK-NEXT:       %5 = arith.negf %3 : f32
// CHECK-NEXT:       linalg.yield %5 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

// No operand is indexed by the induction variable alone, so a shape-only local gives the loop's extent.
func.func @reversed_sum(%x: tensor<4xf32>) -> tensor<f32> {
  %0 = tg.reverse %x axes = [0] : tensor<4xf32>
  %1 = tg.sum %0 axes = [0] : tensor<4xf32>
  func.return %1 : tensor<f32>
}
// CHECK-LABEL: func.func @reversed_sum(
// CHECK-SAME: %x: memref<4xf32> {tg.name = "arg0", tg.role = "input"}, %0: memref<f32> {tg.name = "result0", tg.role = "output"}) {
// CHECK-NEXT:   buf.kernel grid = [] ins(%x : memref<4xf32>) outs(%0 : memref<f32>) {
// CHECK-NEXT:   ^bb0(%1: memref<4xf32>, %2: memref<f32>):
// CHECK-NEXT:     %3 = memref.alloca() {buf.shape_only} : memref<4xi1>
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0) -> (((d0 * -1) + 3))>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>], iterator_types = ["reduction"]} ins(%1, %3 : memref<4xf32>, memref<4xi1>) outs(%2 : memref<f32>) {
// CHECK-NEXT:     ^bb0(%4: f32, %5: i1, %6: f32):
// CHECK-NEXT:       %7 = arith.addf %6, %4 : f32
// CHECK-NEXT:       linalg.yield %7 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

func.func @reshape(%x: tensor<4x3xf32>) -> tensor<2x6xf32> {
  %0 = tg.reshape %x shape = [2, 6] : tensor<4x3xf32>
  %1 = tg.neg %0 : tensor<2x6xf32>
  func.return %1 : tensor<2x6xf32>
}
// CHECK-LABEL: func.func @reshape(
// CHECK-SAME: %x: memref<4x3xf32> {tg.name = "arg0", tg.role = "input"}, %0: memref<2x6xf32> {tg.name = "result0", tg.role = "output"}) {
// CHECK-NEXT:   buf.kernel grid = [2, 6] ins(%x : memref<4x3xf32>) outs(%0 : memref<2x6xf32>) {
// CHECK-NEXT:   ^bb0(%1: memref<4x3xf32>, %2: memref<2x6xf32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (((d0 * 2) + (d1 floordiv 3)), (d1 mod 3))>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%1 : memref<4x3xf32>) outs(%2 : memref<2x6xf32>) {
// CHECK-NEXT:     ^bb0(%3: f32, %4: f32):
// CHECK-NEXT:       %5 = arith.negf %3 : f32
// CHECK-NEXT:       linalg.yield %5 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

// Indexing maps compose.
func.func @composed(%x: tensor<4x3xf32>) -> tensor<3x2xf32> {
  %0 = tg.transpose %x permutation = [1, 0] : tensor<4x3xf32>
  %1 = tg.slice %0 start = [0, 1] stop = [3, 4] step = [1, 2] : tensor<3x4xf32>
  %2 = tg.stop_gradient %1 : tensor<3x2xf32>
  %3 = tg.neg %2 : tensor<3x2xf32>
  func.return %3 : tensor<3x2xf32>
}
// CHECK-LABEL: func.func @composed(
// CHECK-SAME: %x: memref<4x3xf32> {tg.name = "arg0", tg.role = "input"}, %0: memref<3x2xf32> {tg.name = "result0", tg.role = "output"}) {
// CHECK-NEXT:   buf.kernel grid = [3, 2] ins(%x : memref<4x3xf32>) outs(%0 : memref<3x2xf32>) {
// CHECK-NEXT:   ^bb0(%1: memref<4x3xf32>, %2: memref<3x2xf32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (((d1 * 2) + 1), d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%1 : memref<4x3xf32>) outs(%2 : memref<3x2xf32>) {
// CHECK-NEXT:     ^bb0(%3: f32, %4: f32):
// CHECK-NEXT:       %5 = arith.negf %3 : f32
// CHECK-NEXT:       linalg.yield %5 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

// Results are written to the caller's buffers, so a view or an argument is copied there.
func.func @returned(%x: tensor<4x3xf32>) -> (tensor<3x4xf32>, tensor<4x3xf32>) {
  %0 = tg.transpose %x permutation = [1, 0] : tensor<4x3xf32>
  func.return %0, %x : tensor<3x4xf32>, tensor<4x3xf32>
}
// CHECK-LABEL: func.func @returned(
// CHECK-SAME: %x: memref<4x3xf32> {tg.name = "arg0", tg.role = "input"}, %0: memref<3x4xf32> {tg.name = "result0", tg.role = "output"}, %x_1: memref<4x3xf32> {tg.name = "result1", tg.role = "output"}) {
// CHECK-NEXT:   buf.kernel grid = [3, 4] ins(%x : memref<4x3xf32>) outs(%0 : memref<3x4xf32>) {
// CHECK-NEXT:   ^bb0(%1: memref<4x3xf32>, %2: memref<3x4xf32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%1 : memref<4x3xf32>) outs(%2 : memref<3x4xf32>) {
// CHECK-NEXT:     ^bb0(%3: f32, %4: f32):
// CHECK-NEXT:       linalg.yield %3 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   buf.kernel grid = [4, 3] ins(%x : memref<4x3xf32>) outs(%x_1 : memref<4x3xf32>) {
// CHECK-NEXT:   ^bb0(%1: memref<4x3xf32>, %2: memref<4x3xf32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%1 : memref<4x3xf32>) outs(%2 : memref<4x3xf32>) {
// CHECK-NEXT:     ^bb0(%3: f32, %4: f32):
// CHECK-NEXT:       linalg.yield %3 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }
