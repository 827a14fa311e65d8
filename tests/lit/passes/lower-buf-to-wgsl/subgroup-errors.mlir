// RUN: not tg-opt %s -p 'lower-buf-to-wgsl' 2>&1 | filecheck %s
// RUN: not tg-opt %s -p 'lower-buf-to-wgsl{target=lavapipe}' 2>&1 | filecheck %s --check-prefix OTHER

// Lanes broadcast rows within a subgroup, so a workgroup has to be one.
// CHECK: is scheduled for subgroups of 4 lanes (broadcast = 1); webgpu-default has none
// OTHER: is scheduled for subgroups of 4 lanes (broadcast = 1); lavapipe has those of 8
func.func @f() {
  %0 = buf.arena "inputs" role = "input" : memref<4096xi8>
  %a = buf.view %0[0] attributes {tg.name = "a", tg.role = "input"} : memref<4096xi8> to memref<16x11xf32>
  %b = buf.view %0[1024] attributes {tg.name = "b", tg.role = "input"} : memref<4096xi8> to memref<11x12xf32>
  %1 = buf.arena "outputs" role = "output" : memref<768xi8>
  %c = buf.view %1[0] attributes {tg.name = "c", tg.role = "output"} : memref<768xi8> to memref<16x12xf32>
  buf.kernel grid = [16, 12] ins(%a, %b : memref<16x11xf32>, memref<11x12xf32>) outs(%c : memref<16x12xf32>) schedule = #buf.schedule<contraction, groups = [3, 4, 1], row = [0], column = [1], rows = 4, columns = 1, lanes = 4, depth = 1, broadcast = 1> {
  ^bb0(%p0: memref<16x11xf32>, %p1: memref<11x12xf32>, %p2: memref<16x12xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%p0, %p1 : memref<16x11xf32>, memref<11x12xf32>) outs(%p2 : memref<16x12xf32>) {
    ^bb2(%x: f32, %y: f32, %sum: f32):
      %p = arith.mulf %x, %y : f32
      %s = arith.addf %sum, %p : f32
      linalg.yield %s : f32
    }
  }
  func.return
}
