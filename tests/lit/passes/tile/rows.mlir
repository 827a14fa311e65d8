// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse,schedule,tile' | filecheck %s --check-prefix GPU
// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse,schedule{target=lavapipe},tile' | filecheck %s --check-prefix SOFTWARE
// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse,schedule{target=cpu},tile' | filecheck %s --check-prefix NATIVE

// A workgroup for each row: its lanes share the row, and fold their sums by halves in the memory of the workgroup.
func.func @rows(%x: tensor<3x20xf32>) -> tensor<3x20xf32> {
  %0 = tg.sum %x axes = [1] : tensor<3x20xf32>
  %1 = tg.broadcast %0 shape = [3, 20] dims = [0] : tensor<3xf32>
  %2 = tg.div %x, %1 : tensor<3x20xf32>, tensor<3x20xf32>
  func.return %2 : tensor<3x20xf32>
}
// GPU-LABEL: func.func @rows(
// GPU: buf.forall (%[[ROW:.*]]) in (3) mapping (workgroup_x) {
// GPU: %[[TOTAL:.*]] = memref.alloca() : memref<f32, #buf.space<register>>
// GPU: %[[SHARED:.*]] = memref.alloca() : memref<16xf32, #buf.space<workgroup>>
// GPU: buf.forall (%[[L:.*]]) in (16) mapping (lane) {
// GPU: %[[SUM:.*]] = memref.alloca() : memref<f32, #buf.space<register>>
// GPU: linalg.fill
// GPU: scf.for %[[I:.*]] =
// GPU-NEXT: %[[AT:.*]] = affine.apply affine_map<(d0, d1) -> (((d0 * 16) + d1))> (%[[I]], %[[L]])
// GPU-NEXT: memref.subview %1[%[[ROW]], %[[AT]]] [1, 1] [1, 1]
// GPU: arith.addf
// GPU: "memref.copy"(%[[SUM]],
// GPU: "gpu.barrier"() : () -> ()
// GPU: buf.forall (%{{.*}}) in (8) mapping (lane) {
// GPU: "gpu.barrier"() : () -> ()
// GPU: buf.forall (%{{.*}}) in (4) mapping (lane) {
// GPU: "gpu.barrier"() : () -> ()
// GPU: buf.forall (%{{.*}}) in (2) mapping (lane) {
// GPU: "gpu.barrier"() : () -> ()
// GPU: buf.forall (%{{.*}}) in (1) mapping (lane) {
// GPU: "gpu.barrier"() : () -> ()
// GPU-NEXT: "memref.copy"(%{{.*}}, %[[TOTAL]])
// GPU-NEXT: buf.forall (%{{.*}}) in (16) mapping (lane) {
// GPU: arith.divf
// GPU-NOT: gpu.barrier
// GPU: func.return

// A task runs its rows one after another.
// NATIVE-LABEL: func.func @rows(
// NATIVE: buf.forall (%{{.*}}) in ({{.*}}) mapping (task) {
// NATIVE-NOT: workgroup
// NATIVE: iterator_types = ["reduction"]
// NATIVE: arith.divf

// A lane for each row, with four sums of which each takes every fourth term.
func.func @many_rows(%x: tensor<32x1000xf32>) -> tensor<32xf32> {
  %0 = tg.sum %x axes = [1] : tensor<32x1000xf32>
  func.return %0 : tensor<32xf32>
}
// SOFTWARE-LABEL: func.func @many_rows(
// SOFTWARE: buf.forall (%{{.*}}) in (4) mapping (workgroup_x) {
// SOFTWARE-NEXT: buf.forall (%{{.*}}) in (8) mapping (lane) {
// SOFTWARE: %[[SUMS:.*]] = memref.alloca() : memref<4xf32, #buf.space<register>>
// SOFTWARE: linalg.fill ins(%{{.*}} : f32) outs(%[[SUMS]] : memref<4xf32, #buf.space<register>>)
// SOFTWARE: scf.for
// SOFTWARE: linalg.generic {{.*}} iterator_types = ["parallel"]} ins(%{{.*}} : memref<4xf32, strided<[1], offset: ?>>) outs(%[[SUMS]] : memref<4xf32, #buf.space<register>>) {
// SOFTWARE: linalg.generic {{.*}} iterator_types = ["parallel"]} ins(%{{.*}} : memref<4xf32, strided<[1], offset: ?>>) outs(%[[SUMS]] : memref<4xf32, #buf.space<register>>) {
// SOFTWARE: %[[LOW:.*]] = memref.subview %[[SUMS]][0] [2] [1]
// SOFTWARE-NEXT: %[[HIGH:.*]] = memref.subview %[[SUMS]][2] [2] [1]
// SOFTWARE-NEXT: linalg.generic {{.*}} ins(%[[HIGH]] : {{.*}}) outs(%[[LOW]] : {{.*}}) {
