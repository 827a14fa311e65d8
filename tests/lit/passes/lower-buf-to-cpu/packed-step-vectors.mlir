// RUN: tg-opt %s --split-input-file -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu' | filecheck %s
// RUN: tg-opt %s --split-input-file -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu}' | filecheck %s --check-prefix SCHEDULE

// Derivatives of a depthwise convolution's weights: for each of two weights a vector of sums, over lines of ten. The last
// vector of a line has two elements; what is behind them in memory, perhaps no number, becomes zero in both factors.
func.func @weights(%x: tensor<1x4x10xf32>, %g: tensor<2x2x10xf32>) -> tensor<1x2x2xf32> {
  %0 = tg.conv %x, %g stride = [1] low = [1] high = [0] lhs_dilation = [1] rhs_dilation = [1] groups = 2 : tensor<1x4x10xf32>, tensor<2x2x10xf32>
  func.return %0 : tensor<1x2x2xf32>
}
// SCHEDULE: schedule = #buf.schedule<packed, {{.*}} pitch = 11, gap = 9, along_steps = 2>
// CHECK-LABEL: cpu.kernel @packed0
// CHECK:      %[[ZERO:[0-9]+]] = vector.broadcast %{{[0-9]+}} : f32 to vector<8xf32>
// CHECK:      %[[A:[0-9]+]], %[[B:[0-9]+]] = scf.for {{.*}} iter_args(%[[A0:[0-9]+]] = %[[ZERO]], %[[B0:[0-9]+]] = %[[ZERO]])
// CHECK:        %[[ROW:[0-9]+]] = vector.load {{.*}} : memref<28xf32>, vector<8xf32>
// CHECK-NEXT:   %[[X0:[0-9]+]] = vector.load %[[IMAGE:[0-9]+]][{{.*}} : memref<40xf32>, vector<8xf32>
// CHECK:        %[[X1:[0-9]+]] = vector.load %[[IMAGE]][
// CHECK-NEXT:   %[[A1:[0-9]+]] = vector.fma %[[ROW]], %[[X0]], %[[A0]]
// CHECK-NEXT:   %[[B1:[0-9]+]] = vector.fma %[[ROW]], %[[X1]], %[[B0]]
// CHECK:        %[[TAIL:[0-9]+]] = vector.shuffle %{{[0-9]+}}, %[[ZERO]] [0, 1, 10, 11, 12, 13, 14, 15]
// CHECK:        %[[Y0:[0-9]+]] = vector.shuffle %{{[0-9]+}}, %[[ZERO]] [0, 1, 10, 11, 12, 13, 14, 15]
// CHECK:        %[[Y1:[0-9]+]] = vector.shuffle %{{[0-9]+}}, %[[ZERO]] [0, 1, 10, 11, 12, 13, 14, 15]
// CHECK-NEXT:   vector.fma %[[TAIL]], %[[Y0]], %[[A1]]
// CHECK-NEXT:   vector.fma %[[TAIL]], %[[Y1]], %[[B1]]
// CHECK:      vector.shuffle %[[A]], %[[A]] [0, 1, 2, 3]
// CHECK-NEXT: vector.shuffle %[[A]], %[[A]] [4, 5, 6, 7]
// CHECK-NEXT: arith.addf {{.*}} : vector<4xf32>
// CHECK:      arith.addf {{.*}} : vector<2xf32>
// CHECK:      arith.addf {{.*}} : vector<1xf32>
// CHECK-NEXT: vector.store %{{[0-9]+}}, %[[SUMS:[0-9]+]][%{{[0-9]+}}] : memref<12xf32>, vector<1xf32>
// CHECK-NEXT: vector.shuffle %[[B]], %[[B]] [0, 1, 2, 3]
// CHECK:      vector.load %[[SUMS]][%{{[0-9]+}}] : memref<12xf32>, vector<4xf32>

// -----

// A stride of the convolution: neighbouring iterations are two apart in the image, behind which are two vectors.
func.func @strided(%x: tensor<1x4x16xf32>, %g: tensor<2x2x8xf32>) -> tensor<1x2x2xf32> {
  %0 = tg.conv %x, %g stride = [1] low = [0] high = [0] lhs_dilation = [1] rhs_dilation = [2] groups = 2 : tensor<1x4x16xf32>, tensor<2x2x8xf32>
  func.return %0 : tensor<1x2x2xf32>
}
// SCHEDULE: along_steps = 2>
// CHECK-LABEL: cpu.kernel @packed0
// CHECK:      scf.for {{.*}} iter_args(%[[A0:[0-9]+]] =
// CHECK:        %[[ROW:[0-9]+]] = vector.load
// CHECK:        vector.load {{.*}} : memref<48xf32>, vector<8xf32>
// CHECK:        %[[X:[0-9]+]] = vector.shuffle %{{[0-9]+}}, %{{[0-9]+}} [0, 2, 4, 6, 8, 10, 12, 14]
// CHECK:        vector.fma %[[ROW]], %[[X]], %[[A0]]

// -----

// A forward convolution has more columns than fit a line of its reduction.
func.func @images(%x: tensor<2x2x10xf32>, %w: tensor<2x1x2xf32>) -> tensor<2x2x10xf32> {
  %0 = tg.conv %x, %w stride = [1] low = [1] high = [0] lhs_dilation = [1] rhs_dilation = [1] groups = 2 : tensor<2x2x10xf32>, tensor<2x1x2xf32>
  func.return %0 : tensor<2x2x10xf32>
}
// SCHEDULE: pitch = 11, gap = 1>
