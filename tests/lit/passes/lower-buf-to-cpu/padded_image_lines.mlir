// RUN: tg-opt %s --split-input-file -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu' | filecheck %s
// RUN: tg-opt %s --split-input-file -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu}' | filecheck %s --check-prefix SCHEDULE

// Lines of 5 are no vectors: each of the three elements of a window in a line has a copy of 7 lines of 5, in a plane of
// 48. So 24 of the 25 columns are three vectors, whatever lines they are in. The last is copied out of the planes, and is
// multiplied with vectors along the reduction.
func.func @split(%x: tensor<1x8x5x5xf32>, %w: tensor<8x8x3x3xf32>) -> tensor<1x8x5x5xf32> {
  %0 = tg.conv %x, %w stride = [1, 1] low = [1, 1] high = [1, 1] lhs_dilation = [1, 1] rhs_dilation = [1, 1] groups = 1 : tensor<1x8x5x5xf32>, tensor<8x8x3x3xf32>
  func.return %0 : tensor<1x8x5x5xf32>
}
// SCHEDULE: rows = 4, columns = 24, lanes = 8, depth = 72, direct_rows = 1, pitch = 5, split = 1, tail_along = 1>
// CHECK-LABEL: cpu.kernel @packed0
// CHECK:      %[[TAIL:[0-9]+]] = memref.alloca() : memref<72xf32>
// CHECK:      %[[PLANES:[0-9]+]] = memref.alloca() : memref<1176xf32>
// CHECK:      scf.if
// CHECK-NEXT:   %[[ZERO:[0-9]+]] = vector.broadcast %{{[0-9]+}} : f32 to vector<1xf32>
// CHECK-NEXT:   vector.store %[[ZERO]], %[[PLANES]][%[[LEFT:[0-9]+]]] : memref<1176xf32>, vector<1xf32>
// CHECK:        vector.store %{{[0-9]+}}, %[[PLANES]][%[[MIDDLE:[0-9]+]]] : memref<1176xf32>, vector<4xf32>
// CHECK:        vector.store %{{[0-9]+}}, %[[PLANES]][%[[RIGHT:[0-9]+]]] : memref<1176xf32>, vector<4xf32>
// CHECK:        vector.store %[[ZERO]], %[[PLANES]][%{{[0-9]+}}] : memref<1176xf32>, vector<1xf32>
// CHECK:      scf.for %[[STEP:[0-9]+]] =
// CHECK-NEXT:   %[[OFFSET:[0-9]+]] = memref.load %{{[0-9]+}}[%[[STEP]]] : memref<72xi32>
// CHECK-NEXT:   %[[INDEX:[0-9]+]] = arith.index_cast %[[OFFSET]] : i32 to index
// CHECK-NEXT:   %[[LAST:[0-9]+]] = arith.addi %[[INDEX]], %{{[0-9]+}} : index
// CHECK-NEXT:   %[[ELEMENT:[0-9]+]] = memref.load %[[PLANES]][%[[LAST]]] : memref<1176xf32>
// CHECK-NEXT:   memref.store %[[ELEMENT]], %[[TAIL]][%[[STEP]]] : memref<72xf32>
// CHECK:      scf.for {{.*}} iter_args({{.*}} -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>) {
// CHECK:        vector.load %[[PLANES]]
// CHECK:      scf.for {{.*}} iter_args({{.*}} -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>) {
// CHECK:        vector.load %1
// CHECK:        %[[COLUMN:[0-9]+]] = vector.load %[[TAIL]]
// CHECK:        vector.fma %{{[0-9]+}}, %[[COLUMN]]
// CHECK:      vector.store %{{[0-9]+}}, %2[%{{[0-9]+}}] : memref<200xf32>, vector<1xf32>

// -----

// Lines of 8 are vectors: those of a register block are in different lines, 10 elements apart in the padded copy.
func.func @lines(%x: tensor<1x8x4x8xf32>, %w: tensor<8x8x3x3xf32>) -> tensor<1x8x4x8xf32> {
  %0 = tg.conv %x, %w stride = [1, 1] low = [1, 1] high = [1, 1] lhs_dilation = [1, 1] rhs_dilation = [1, 1] groups = 1 : tensor<1x8x4x8xf32>, tensor<8x8x3x3xf32>
  func.return %0 : tensor<1x8x4x8xf32>
}
// SCHEDULE: rows = 4, columns = 24, lanes = 8, depth = 72, direct_rows = 1, pitch = 10>
// CHECK-LABEL: cpu.kernel @packed0
// CHECK:      scf.for {{.*}} iter_args(
// CHECK:        %[[FROM:[0-9]+]] = arith.index_cast %{{[0-9]+}} : i32 to index
// CHECK:        %[[PLACE:[0-9]+]] = arith.addi %[[FROM]], %{{[0-9]+}} : index
// CHECK-NEXT:   vector.load %{{[0-9]+}}[%[[PLACE]]] : memref<{{[0-9]+}}xf32>, vector<8xf32>
// CHECK-NEXT:   %[[BELOW:[0-9]+]] = arith.addi %[[FROM]], %{{[0-9]+}} : index
// CHECK-NEXT:   vector.load %{{[0-9]+}}[%[[BELOW]]] : memref<{{[0-9]+}}xf32>, vector<8xf32>
