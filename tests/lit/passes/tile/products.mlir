// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse,schedule,tile{steps=0}' | filecheck %s --check-prefix RECIPE
// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse,schedule,tile' | filecheck %s --check-prefix GPU
// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse,schedule{target=lavapipe},tile' | filecheck %s --check-prefix SOFTWARE
// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse,schedule{target=cpu},tile' | filecheck %s --check-prefix NATIVE

// A product with an activation in front of it and one behind it.
func.func @layer(%x: tensor<128x64xf32>, %w: tensor<64x96xf32>) -> tensor<128x96xf32> {
  %a = tg.tanh %x : tensor<128x64xf32>
  %y = tg.dot_general %a, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<128x64xf32>, tensor<64x96xf32>
  %z = tg.exp %y : tensor<128x96xf32>
  func.return %z : tensor<128x96xf32>
}
// RECIPE-LABEL: func.func @layer(
// RECIPE: recipe = #buf.recipe<sides(row = [0], column = [1]), tile(sizes = [1, 8, 16], to = [workgroup_z, workgroup_y, workgroup_x]), interchange(terms = 16), stage(lanes = 128, padding = 4), tile(sizes = [1, 1], to = [lane, lane]), synchronize> {

// A workgroup copies parts of both operands, the activation of one, to its memory; its lanes keep their sums.
// GPU-LABEL: func.func @layer(
// GPU: buf.forall (%{{.*}}, %[[Y:.*]], %[[X:.*]]) in (1, 16, 6) mapping (workgroup_z, workgroup_y, workgroup_x) {
// GPU-NEXT: %[[SUMS:.*]] = memref.alloca() : memref<8x16xf32, #buf.space<register>>
// GPU-NEXT: %[[W:.*]] = memref.alloca() : memref<16x20xf32, #buf.space<workgroup>>
// GPU-NEXT: %[[A:.*]] = memref.alloca() : memref<16x12xf32, #buf.space<workgroup>>
// GPU-NEXT: buf.forall (%{{.*}}, %{{.*}}) in (8, 16) mapping (lane, lane) {
// GPU: linalg.fill
// GPU: scf.for %[[PART:.*]] =
// GPU-NEXT: "gpu.barrier"() : () -> ()
// GPU-NEXT: buf.forall (%[[L:.*]]) in (128) mapping (lane) {
// GPU-NEXT: buf.forall (%[[TURN:.*]]) in (2) mapping (sequential) {
// GPU: memref.subview %[[W]]
// GPU: %[[TERM:.*]] = affine.apply affine_map<(d0, d1, d2) -> ((((d0 * 16) + (d2 * 8)) + (d1 floordiv 16)))> (%[[PART]], %[[L]], %[[TURN]])
// GPU: memref.subview %0[%[[TERM]], %{{.*}}] [1, 1] [1, 1] : memref<64x96xf32>
// GPU-NEXT: "memref.copy"
// GPU: buf.forall (%[[L:.*]]) in (128) mapping (lane) {
// GPU: memref.subview %[[A]]
// GPU: math.tanh
// GPU: "gpu.barrier"() : () -> ()
// GPU-NEXT: buf.forall (%[[I:.*]], %[[J:.*]]) in (8, 16) mapping (lane, lane) {
// GPU-NEXT: memref.subview %[[SUMS]][%[[I]], %[[J]]]
// GPU: scf.for %[[K:.*]] =
// GPU-NEXT: memref.subview %[[W]][%[[K]], %[[J]]]
// GPU-NEXT: memref.subview %[[A]][%[[K]], %[[I]]]
// GPU: arith.mulf
// GPU-NOT: gpu.barrier
// GPU: math.exp

// A lane has 16 rows of six columns, which are 8 apart, in registers, and adds four terms at a time.
// SOFTWARE-LABEL: func.func @layer(
// SOFTWARE: buf.forall (%{{.*}}, %{{.*}}) in (1, 8) mapping (lane, lane) {
// SOFTWARE-NEXT: %[[SUMS:.*]] = memref.alloca() : memref<16x6xf32, #buf.space<register>>
// SOFTWARE-NEXT: %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// SOFTWARE-NEXT: linalg.fill {mapping = [#buf.processor<unroll>, #buf.processor<unroll>]} ins(%[[ZERO]] : f32) outs(%[[SUMS]] : memref<16x6xf32, #buf.space<register>>)
// SOFTWARE: scf.for %[[K:.*]] =
// SOFTWARE: linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d2, (d1 * 8))>, affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%{{.*}}, %{{.*}} : memref<4x41xf32, strided<[96, 1], offset: ?>>, memref<16x4xf32, strided<[64, 1], offset: ?>>) outs(%[[SUMS]]
// SOFTWARE: math.tanh

// A task packs the activations of six rows, and adds the product of these with vectors of columns in place.
// NATIVE-LABEL: func.func @layer(
// NATIVE: buf.forall (%{{.*}}) in (3) mapping (task) {
// NATIVE-NEXT: %[[ROWS:.*]] = memref.alloca() : memref<64x6xf32, #buf.space<scratch>>
// NATIVE: buf.forall (%{{.*}}, %{{.*}}) in (%{{.*}}, 1) mapping (sequential, sequential) {
// NATIVE: buf.forall (%[[I:.*]], %[[K:.*]]) in (%{{.*}}, 64) mapping (sequential, sequential) {
// NATIVE-NEXT: memref.subview %[[ROWS]][%[[K]], %[[I]]]
// NATIVE: math.tanh
// NATIVE: %[[SUMS:.*]] = memref.alloca() : memref<6x16xf32, #buf.space<register>>
// NATIVE: scf.for %[[K:.*]] =
// NATIVE: memref.subview %0[%[[K]], %{{.*}}] [1, 16] [1, 1] : memref<64x96xf32> to memref<16xf32, strided<[1], offset: ?>>
// NATIVE-NEXT: memref.subview %[[ROWS]][%[[K]], 0] [1, 6] [1, 1]
// NATIVE-NEXT: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
// NATIVE-SAME: outs(%[[SUMS]] : memref<6x16xf32, #buf.space<register>>) attrs = {mapping = [#buf.processor<unroll>, #buf.processor<vector>]} {
// NATIVE: math.exp
