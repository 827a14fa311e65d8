// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse,schedule,tile{steps=0}' | filecheck %s --check-prefix GRID
// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse,schedule,tile{steps=1}' | filecheck %s --check-prefix COLLAPSED
// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse,schedule,tile{steps=2}' | filecheck %s --check-prefix TILED
// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse,schedule,tile{steps=2},tile' | filecheck %s --check-prefix MAPPED

// Each step of a recipe leaves a kernel that can be read and run: the grid, one loop of it, its tiles, and who runs them.
func.func @bias(%x: tensor<25x40xf32>, %b: tensor<40xf32>) -> tensor<25x40xf32> {
  %0 = tg.broadcast %b shape = [25, 40] dims = [1] : tensor<40xf32>
  %1 = tg.add %x, %0 : tensor<25x40xf32>, tensor<25x40xf32>
  func.return %1 : tensor<25x40xf32>
}
// GRID: recipe = #buf.recipe<collapse, tile(sizes = [64], to = [workgroup_x]), map(to = [lane])> {
// GRID: buf.forall (%[[I:.*]], %[[J:.*]]) in (25, 40) {
// GRID-NEXT: memref.subview %1[%[[I]], %[[J]]] [1, 1] [1, 1] : memref<25x40xf32> to memref<f32, strided<[], offset: ?>>
// GRID-NEXT: memref.subview %2[%[[J]]] [1] [1] : memref<40xf32>
// GRID-NEXT: memref.subview %3[%[[I]], %[[J]]] [1, 1] [1, 1]
// GRID-NEXT: linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []}

// COLLAPSED: recipe = #buf.recipe<tile(sizes = [64], to = [workgroup_x]), map(to = [lane])> {
// COLLAPSED: buf.forall (%[[P:.*]]) in (1000) {
// COLLAPSED-NEXT: affine.apply affine_map<(d0) -> ((d0 floordiv 40))> (%[[P]])
// COLLAPSED-NEXT: affine.apply affine_map<(d0) -> ((d0 mod 40))> (%[[P]])

// TILED: recipe = #buf.recipe<map(to = [lane])> {
// TILED: buf.forall (%[[G:.*]]) in (16) mapping (workgroup_x) {
// TILED-NEXT: %[[N:.*]] = affine.min affine_map<(d0) -> (64, ((d0 * -64) + 1000))> (%[[G]])
// TILED-NEXT: buf.forall (%[[L:.*]]) in (%[[N]]) {
// TILED-NEXT: affine.apply affine_map<(d0, d1) -> ((((d0 * 64) + d1) floordiv 40))> (%[[G]], %[[L]])

// MAPPED: outs(%0 : memref<25x40xf32>) {
// MAPPED: buf.forall (%[[G:.*]]) in (16) mapping (workgroup_x) {
// MAPPED: buf.forall (%[[L:.*]]) in (%{{.*}}) mapping (lane) {

// A folded dispatch: two dimensions of workgroups.
func.func @folded(%x: tensor<33554432xi32>) -> tensor<33554432xi32> {
  %0 = tg.neg %x : tensor<33554432xi32>
  func.return %0 : tensor<33554432xi32>
}
// MAPPED-LABEL: func.func @folded(
// MAPPED: buf.forall (%[[Y:.*]]) in (3) mapping (workgroup_y) {
// MAPPED-NEXT: %[[M:.*]] = affine.min affine_map<(d0) -> (43691, ((d0 * -43691) + 131072))> (%[[Y]])
// MAPPED-NEXT: buf.forall (%[[X:.*]]) in (%[[M]]) mapping (workgroup_x) {
// MAPPED-NEXT: buf.forall (%[[L:.*]]) in (256) mapping (lane) {
// MAPPED-NEXT: affine.apply affine_map<(d0, d1, d2) -> ((((d0 * 11184896) + (d1 * 256)) + d2))> (%[[Y]], %[[X]], %[[L]])
