// RUN: tg-opt %s -p lower-tg-to-buf | filecheck %s

// Results become trailing arguments, with their own names and roles; an intermediate value gets an allocated buffer.
func.func @step(%w: tensor<4xf32> {tg.name = "w", tg.role = "parameter"}, %x: tensor<4xf32>) -> (tensor<4xf32> {tg.name = "w", tg.role = "update"}, tensor<4xf32>) {
  %0 = tg.mul %w, %x : tensor<4xf32>, tensor<4xf32>
  %1 = tg.add %0, %w : tensor<4xf32>, tensor<4xf32>
  %2 = tg.neg %0 : tensor<4xf32>
  func.return %1, %2 : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @step(
// CHECK-SAME: %w: memref<4xf32> {tg.name = "w", tg.role = "parameter"}, %x: memref<4xf32> {tg.name = "arg1", tg.role = "input"}, %0: memref<4xf32> {tg.name = "w", tg.role = "update"}, %1: memref<4xf32> {tg.name = "result1", tg.role = "output"}) {
// CHECK-NEXT:   %2 = memref.alloc() : memref<4xf32>
// CHECK-NEXT:   buf.kernel grid = [4] ins(%w, %x : memref<4xf32>, memref<4xf32>) outs(%2 : memref<4xf32>) {
// CHECK-NEXT:   ^bb0(%3: memref<4xf32>, %4: memref<4xf32>, %5: memref<4xf32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%3, %4 : memref<4xf32>, memref<4xf32>) outs(%5 : memref<4xf32>) {
// CHECK-NEXT:     ^bb0(%6: f32, %7: f32, %8: f32):
// CHECK-NEXT:       %9 = arith.mulf %6, %7 : f32
// CHECK-NEXT:       linalg.yield %9 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   buf.kernel grid = [4] ins(%2, %w : memref<4xf32>, memref<4xf32>) outs(%0 : memref<4xf32>) {
// CHECK-NEXT:   ^bb0(%3: memref<4xf32>, %4: memref<4xf32>, %5: memref<4xf32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%3, %4 : memref<4xf32>, memref<4xf32>) outs(%5 : memref<4xf32>) {
// CHECK-NEXT:     ^bb0(%6: f32, %7: f32, %8: f32):
// CHECK-NEXT:       %9 = arith.addf %6, %7 : f32
// CHECK-NEXT:       linalg.yield %9 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   buf.kernel grid = [4] ins(%2 : memref<4xf32>) outs(%1 : memref<4xf32>) {
// CHECK-NEXT:   ^bb0(%3: memref<4xf32>, %4: memref<4xf32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%3 : memref<4xf32>) outs(%4 : memref<4xf32>) {
// CHECK-NEXT:     ^bb0(%5: f32, %6: f32):
// CHECK-NEXT:       %7 = arith.negf %5 : f32
// CHECK-NEXT:       linalg.yield %7 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

// A splat constant is materialized in the body; any other becomes an argument.
func.func @constants(%x: tensor<3xf32>) -> tensor<3xf32> {
  %same = tg.constant value = dense<2.000000e+00> : tensor<3xf32>
  %different = tg.constant value = dense<[1.000000e+00, 2.000000e+00, 3.000000e+00]> : tensor<3xf32>
  %unused = tg.constant value = dense<[1, 2]> : tensor<2xi32>
  %0 = tg.mul %x, %same : tensor<3xf32>, tensor<3xf32>
  %1 = tg.add %0, %different : tensor<3xf32>, tensor<3xf32>
  func.return %1 : tensor<3xf32>
}
// CHECK-LABEL: func.func @constants(
// CHECK-SAME: %x: memref<3xf32> {tg.name = "arg0", tg.role = "input"}, %0: memref<3xf32> {tg.name = "constant0", tg.role = "constant", tg.value = dense<[1.000000e+00, 2.000000e+00, 3.000000e+00]> : tensor<3xf32>}, %1: memref<3xf32> {tg.name = "result0", tg.role = "output"}) {
// CHECK-NEXT:   %2 = memref.alloc() : memref<3xf32>
// CHECK-NEXT:   buf.kernel grid = [3] ins(%x : memref<3xf32>) outs(%2 : memref<3xf32>) {
// CHECK-NEXT:   ^bb0(%3: memref<3xf32>, %4: memref<3xf32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%3 : memref<3xf32>) outs(%4 : memref<3xf32>) {
// CHECK-NEXT:     ^bb0(%5: f32, %6: f32):
// CHECK-NEXT:       %7 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:       %8 = arith.mulf %5, %7 : f32
// CHECK-NEXT:       linalg.yield %8 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   buf.kernel grid = [3] ins(%2, %0 : memref<3xf32>, memref<3xf32>) outs(%1 : memref<3xf32>) {
// CHECK-NEXT:   ^bb0(%3: memref<3xf32>, %4: memref<3xf32>, %5: memref<3xf32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%3, %4 : memref<3xf32>, memref<3xf32>) outs(%5 : memref<3xf32>) {
// CHECK-NEXT:     ^bb0(%6: f32, %7: f32, %8: f32):
// CHECK-NEXT:       %9 = arith.addf %6, %7 : f32
// CHECK-NEXT:       linalg.yield %9 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

// An empty tensor needs no kernel; the kernel of a single element has no loops.
func.func @small(%e: tensor<0x3xf32>, %s: tensor<1x1xf32>) -> (tensor<0x3xf32>, tensor<1x1xf32>) {
  %0 = tg.neg %e : tensor<0x3xf32>
  %1 = tg.neg %s : tensor<1x1xf32>
  func.return %0, %1 : tensor<0x3xf32>, tensor<1x1xf32>
}
// CHECK-LABEL: func.func @small(
// CHECK-SAME: %e: memref<0x3xf32> {tg.name = "arg0", tg.role = "input"}, %s: memref<1x1xf32> {tg.name = "arg1", tg.role = "input"}, %0: memref<0x3xf32> {tg.name = "result0", tg.role = "output"}, %1: memref<1x1xf32> {tg.name = "result1", tg.role = "output"}) {
// CHECK-NEXT:   buf.kernel grid = [] ins(%s : memref<1x1xf32>) outs(%1 : memref<1x1xf32>) {
// CHECK-NEXT:   ^bb0(%2: memref<1x1xf32>, %3: memref<1x1xf32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<() -> (0, 0)>, affine_map<() -> (0, 0)>], iterator_types = []} ins(%2 : memref<1x1xf32>) outs(%3 : memref<1x1xf32>) {
// CHECK-NEXT:     ^bb0(%4: f32, %5: f32):
// CHECK-NEXT:       %6 = arith.negf %4 : f32
// CHECK-NEXT:       linalg.yield %6 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

// In buffers, booleans are i1, and unsigned integers are signless.
func.func @elements(%b: tensor<4xi1>, %u: tensor<4xui32>) -> (tensor<4xi1>, tensor<4xui32>) {
  %0 = tg.not %b : tensor<4xi1>
  %1 = tg.relu %u : tensor<4xui32>
  func.return %0, %1 : tensor<4xi1>, tensor<4xui32>
}
// CHECK-LABEL: func.func @elements(
// CHECK-SAME: %b: memref<4xi1> {tg.name = "arg0", tg.role = "input"}, %u: memref<4xi32> {tg.name = "arg1", tg.role = "input", tg.dtype = "u32"}, %0: memref<4xi1> {tg.name = "result0", tg.role = "output"}, %1: memref<4xi32> {tg.name = "result1", tg.role = "output", tg.dtype = "u32"}) {
// CHECK-NEXT:   buf.kernel grid = [4] ins(%b : memref<4xi1>) outs(%0 : memref<4xi1>) {
// CHECK-NEXT:   ^bb0(%2: memref<4xi1>, %3: memref<4xi1>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%2 : memref<4xi1>) outs(%3 : memref<4xi1>) {
// CHECK-NEXT:     ^bb0(%4: i1, %5: i1):
// CHECK-NEXT:       %6 = arith.constant true
// CHECK-NEXT:       %7 = arith.xori %4, %6 : i1
// CHECK-NEXT:       linalg.yield %7 : i1
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   buf.kernel grid = [4] ins(%u : memref<4xi32>) outs(%1 : memref<4xi32>) {
// CHECK-NEXT:   ^bb0(%2: memref<4xi32>, %3: memref<4xi32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%2 : memref<4xi32>) outs(%3 : memref<4xi32>) {
// CHECK-NEXT:     ^bb0(%4: i32, %5: i32):
// CHECK-NEXT:       %6 = arith.constant 0 : i32
// CHECK-NEXT:       linalg.yield %4 : i32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }
