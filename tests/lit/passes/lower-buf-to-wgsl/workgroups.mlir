// RUN: tg-opt %s -p plan-memory,lower-buf-to-wgsl --prove 2>&1 | filecheck %s

// The threads of a dispatch are numbered workgroup by workgroup, along all three dimensions.
func.func @f(%x: memref<64xf32>, %o: memref<64xf32>) {
  buf.kernel grid = [64] ins(%x : memref<64xf32>) outs(%o : memref<64xf32>) schedule = #buf.schedule<thread, workgroup = [4, 2, 2], groups = [1, 2, 2]> {
  ^bb0(%0: memref<64xf32>, %1: memref<64xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%0 : memref<64xf32>) outs(%1 : memref<64xf32>) {
    ^bb2(%a: f32, %b: f32):
      %s = arith.addf %a, %a : f32
      linalg.yield %s : f32
    }
  }
  func.return
}
// CHECK: thread0  wgsl     1x2x2  proved  proved  proved    proved
// CHECK: wgsl.kernel @thread0 workgroup_size = [4, 2, 2]
// CHECK:   %[[X:.*]] = wgsl.workgroup_id dim = 0
// CHECK:   arith.muli %[[X]], %{{.*}} : index
// CHECK:   %[[Y:.*]] = wgsl.workgroup_id dim = 1
// CHECK:   %[[Z:.*]] = wgsl.workgroup_id dim = 2
// CHECK:   %[[LANE:.*]] = wgsl.local_index
// CHECK:   %[[POINT:.*]] = arith.addi %{{.*}}, %[[LANE]] : index
// CHECK:   memref.load %0[%[[POINT]]] : memref<64xf32>
