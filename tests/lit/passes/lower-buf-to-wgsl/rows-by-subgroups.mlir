// RUN: tg-opt %s -p 'inference-pipeline{target="{\"subgroups\": true, \"subgroup_size\": 32}"}' | filecheck %s

// A row of 1024 in 256 lanes of a vector each: it is loaded once, its exponentials are computed once, and each of its
// reductions has one barrier. The maximum of a vector takes three comparisons. All subgroups read the same 256 values,
// eight for each lane, and exchange the results.
func.func @softmax(%x: tensor<100x1024xf32>) -> tensor<100x1024xf32> {
  %max = tg.max %x axes = [1] : tensor<100x1024xf32>
  %0 = tg.broadcast %max shape = [100, 1024] dims = [0] : tensor<100xf32>
  %1 = tg.sub %x, %0 : tensor<100x1024xf32>, tensor<100x1024xf32>
  %2 = tg.exp %1 : tensor<100x1024xf32>
  %sum = tg.sum %2 axes = [1] : tensor<100x1024xf32>
  %3 = tg.broadcast %sum shape = [100, 1024] dims = [0] : tensor<100xf32>
  %4 = tg.div %2, %3 : tensor<100x1024xf32>, tensor<100x1024xf32>
  func.return %4 : tensor<100x1024xf32>
}
// CHECK-LABEL: wgsl.kernel @group0 workgroup_size = [256, 1, 1]
// CHECK-NOT: scf.for
// CHECK: memref.load %0[%{{.*}}] : memref<{{.*}}vector<4xf32>>
// CHECK-NOT: memref.load %0
// CHECK-COUNT-3: arith.maximumf
// CHECK-NOT: arith.maximumf
// CHECK: memref.store
// CHECK: wgsl.barrier
// CHECK: wgsl.subgroup_lane
// CHECK-COUNT-8: memref.load
// CHECK-COUNT-7: arith.maximumf
// CHECK: wgsl.subgroup_shuffle_xor %{{.*}}, 16 : f32
// CHECK: wgsl.subgroup_shuffle_xor %{{.*}}, 8 : f32
// CHECK: wgsl.subgroup_shuffle_xor %{{.*}}, 4 : f32
// CHECK: wgsl.subgroup_shuffle_xor %{{.*}}, 2 : f32
// CHECK: wgsl.subgroup_shuffle_xor %{{.*}}, 1 : f32
// CHECK-NOT: memref.load %0
// CHECK: memref.store
// CHECK: wgsl.barrier
// CHECK-COUNT-8: memref.load
// CHECK-COUNT-5: wgsl.subgroup_shuffle_xor
// CHECK-NOT: wgsl.barrier
// CHECK-NOT: scf.for
// CHECK: wgsl.join
// CHECK: buf.dispatch
