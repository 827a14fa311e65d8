// RUN: tg-opt %s --split-input-file -p 'lower-tg-to-buf,fuse,buf-to-upstream' | filecheck %s
// RUN: tg-opt %s --split-input-file -p 'lower-tg-to-buf,fuse,plan-memory,schedule,buf-to-upstream' | filecheck %s --check-prefix PLANNED
// RUN: not tg-opt %s --split-input-file -p 'buf-to-upstream' 2>&1 | filecheck %s --check-prefix TENSORS
// RUN: not tg-opt %s --split-input-file -p 'inference-pipeline,buf-to-upstream' 2>&1 | filecheck %s --check-prefix DISPATCHES

// TENSORS: buf-to-upstream expects a module at level buf or buf with a memory plan, this one is at level tg: run `lower-tg-to-buf` first
// DISPATCHES: buf-to-upstream expects a module at level buf or buf with a memory plan, this one is at level wgsl: run it before `lower-buf-to-wgsl`

// A separate stage initializes a reduction; constants become globals; after `plan-memory`, the arguments are arenas.
// CHECK:      "memref.global"() <{sym_name = "mean_constant0", type = memref<3xf32>
// CHECK-NEXT: func.func @mean(%x: memref<4x3xf32>, %0: memref<4xf32>, %1: memref<4x3xf32>) {
// CHECK-NEXT:   %2 = memref.get_global @mean_constant0 : memref<3xf32>
// CHECK-NEXT:   linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} outs(%0 : memref<4xf32>) {
// CHECK:          arith.constant 0.000000e+00 : f32
// CHECK:        linalg.generic {{.*}}, iterator_types = ["parallel", "reduction"]} ins(%x, %2 : memref<4x3xf32>, memref<3xf32>) outs(%0 : memref<4xf32>) {
// CHECK:        linalg.generic {{.*}} outs(%1 : memref<4x3xf32>) {
// CHECK:          "arith.remf"(%{{[0-9]+}}, %{{[0-9]+}}) : (f32, f32) -> f32
// CHECK-NOT: buf.
// CHECK:        func.return
// PLANNED:     func.func @mean(%0: memref<48xi8>, %1: memref<304xi8>) {
// PLANNED-DAG:   %x = memref.view %0[%{{[0-9]+}}][] : memref<48xi8> to memref<4x3xf32>
// PLANNED-DAG:   memref.alloc() {alignment = 64 : i64} : memref<12xi8>
// PLANNED-DAG:   "memref.copy"(%{{[0-9]+}}, %{{[0-9]+}}) : (memref<3xf32>, memref<3xf32>) -> ()
// PLANNED-NOT: buf.
// PLANNED:       memref.dealloc
// PLANNED-NEXT:  func.return
func.func @mean(%x: tensor<4x3xf32>) -> (tensor<4xf32>, tensor<4x3xf32>) {
  %c = tg.constant value = dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %b = tg.broadcast %c shape = [4, 3] dims = [1] : tensor<3xf32>
  %0 = tg.mul %x, %b : tensor<4x3xf32>, tensor<4x3xf32>
  %1 = tg.sum %0 axes = [1] : tensor<4x3xf32>
  %2 = tg.broadcast %1 shape = [4, 3] dims = [0] : tensor<4xf32>
  %3 = tg.remainder %x, %2 : tensor<4x3xf32>, tensor<4x3xf32>
  func.return %1, %3 : tensor<4xf32>, tensor<4x3xf32>
}

// -----

// A local of a kernel becomes a buffer that is allocated before the kernel's stages and freed after them.
// CHECK:      func.func @shared(%x: memref<4x3xf32>, %0: memref<4xf32>) {
// CHECK:        %[[local:[0-9]+]] = memref.alloc() {alignment = 64 : i64} : memref<4xf32>
// CHECK:        outs(%[[local]] : memref<4xf32>)
// CHECK:        memref.dealloc %[[local]] : memref<4xf32>
// CHECK-NEXT:   func.return
func.func @shared(%x: tensor<4x3xf32>) -> tensor<4xf32> {
  %0 = tg.max %x axes = [1] : tensor<4x3xf32>
  %1 = tg.broadcast %0 shape = [4, 3] dims = [0] : tensor<4xf32>
  %2 = tg.sub %x, %1 : tensor<4x3xf32>, tensor<4x3xf32>
  %3 = tg.sum %2 axes = [1] : tensor<4x3xf32>
  func.return %3 : tensor<4xf32>
}
