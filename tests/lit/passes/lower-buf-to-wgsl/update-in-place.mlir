// RUN: tg-opt %s -p 'schedule{target=webgpu-default},plan-memory{target=webgpu-default},lower-buf-to-wgsl{target=webgpu-default}' | filecheck %s
//
// A value that all lanes read is updated in place: a barrier separates their loads from the store.

func.func @decay(%x: memref<4x900xf32> {tg.name = "x", tg.role = "input"},
                 %s: memref<4xf32> {tg.name = "s", tg.role = "parameter"},
                 %new: memref<4xf32> {tg.name = "s", tg.role = "update"}) {
  buf.kernel grid = [4] ins(%x, %s : memref<4x900xf32>, memref<4xf32>) outs(%new : memref<4xf32>) {
  ^bb0(%a: memref<4x900xf32>, %b: memref<4xf32>, %c: memref<4xf32>):
    %sum = memref.alloca() : memref<4xf32>
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>],
                    iterator_types = ["parallel", "reduction"]} ins(%a : memref<4x900xf32>) outs(%sum : memref<4xf32>) {
    ^bb1(%v: f32, %acc: f32):
      %r = arith.addf %acc, %v : f32
      linalg.yield %r : f32
    }
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
                    iterator_types = ["parallel"]} ins(%sum, %b : memref<4xf32>, memref<4xf32>) outs(%c : memref<4xf32>) {
    ^bb2(%t: f32, %old: f32, %unused: f32):
      %d = arith.subf %t, %old : f32
      linalg.yield %d : f32
    }
  }
  func.return
}

// CHECK: [[OLD:%[0-9]+]] = memref.load %{{.*}} : memref<4xf32>
// CHECK-NEXT: arith.subf
// CHECK-NEXT: wgsl.barrier {storage = true}
// CHECK-NEXT: scf.if
// CHECK-NEXT: memref.store
