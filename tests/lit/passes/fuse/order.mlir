// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse' | filecheck %s

// The update comes first in the function, but another kernel reads the old value: the update moves after that kernel.
func.func @update_last(%w: tensor<4xf32> {tg.name = "w", tg.role = "parameter"}, %g: tensor<4xf32>) -> (tensor<4xf32> {tg.name = "w", tg.role = "update"}, tensor<f32> {tg.name = "norm", tg.role = "output"}) {
  %0 = tg.sub %w, %g : tensor<4xf32>, tensor<4xf32>
  %1 = tg.mul %w, %w : tensor<4xf32>, tensor<4xf32>
  %2 = tg.sum %1 axes = [0] : tensor<4xf32>
  func.return %0, %2 : tensor<4xf32>, tensor<f32>
}
// CHECK-LABEL: func.func @update_last(
// CHECK: buf.kernel grid = [] ins(%w : memref<4xf32>) outs(%1 : memref<f32>) {
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>], iterator_types = ["reduction"]} ins(%2 : memref<4xf32>) outs(%3 : memref<f32>) {
// CHECK: %6 = arith.mulf %4, %4 : f32
// CHECK: %7 = arith.addf %5, %6 : f32
// CHECK: linalg.yield %7 : f32
// CHECK: buf.kernel grid = [4] ins(%w, %g : memref<4xf32>, memref<4xf32>) outs(%0 : memref<4xf32>) {
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%2, %3 : memref<4xf32>, memref<4xf32>) outs(%4 : memref<4xf32>) {
// CHECK: %8 = arith.subf %5, %6 : f32
// CHECK: linalg.yield %8 : f32
// CHECK-NOT: buf.kernel
// CHECK: func.return

// Two updates read a product of both old values. If each recomputed it, each would have to run before the other: so it
// is stored, or both updates are one kernel.
func.func @two_updates(%a: tensor<4xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<4x1xf32> {tg.name = "b", tg.role = "parameter"}) -> (tensor<4xf32> {tg.name = "a", tg.role = "update"}, tensor<4x1xf32> {tg.name = "b", tg.role = "update"}) {
  %0 = tg.reshape %b shape = [4] : tensor<4x1xf32>
  %1 = tg.mul %a, %0 : tensor<4xf32>, tensor<4xf32>
  %2 = tg.reshape %1 shape = [4, 1] : tensor<4xf32>
  %3 = tg.sub %a, %1 : tensor<4xf32>, tensor<4xf32>
  %4 = tg.sub %b, %2 : tensor<4x1xf32>, tensor<4x1xf32>
  func.return %3, %4 : tensor<4xf32>, tensor<4x1xf32>
}
// CHECK-LABEL: func.func @two_updates(
// CHECK: buf.kernel grid = [4] ins(%a, %b : memref<4xf32>, memref<4x1xf32>) outs(%0, %1 : memref<4xf32>, memref<4x1xf32>) {
// CHECK-NOT: buf.kernel
// CHECK: func.return
