// RUN: tg-opt %s --split-input-file -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu' | filecheck %s
// RUN: tg-opt %s --split-input-file -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu}' | filecheck %s --check-prefix SCHEDULE

// Two rows times the transpose of a matrix: a vector of sums for each of a row's eight columns, along the 19 iterations. The
// last vector ends with the last iteration, and what the one before has counted becomes zero in both factors.
func.func @transposed(%x: tensor<2x19xf32>, %w: tensor<8x19xf32>) -> tensor<2x8xf32> {
  %0 = tg.dot_general %x, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [1] : tensor<2x19xf32>, tensor<8x19xf32>
  func.return %0 : tensor<2x8xf32>
}
// SCHEDULE: schedule = #buf.schedule<packed, {{.*}} rows = 1, columns = 8, lanes = 8, depth = 19, direct_rows = 1, direct_columns = 1, along_steps = 8>
// CHECK-LABEL: cpu.kernel @packed0
// CHECK:      %[[ZERO:[0-9]+]] = vector.broadcast %{{[0-9]+}} : f32 to vector<8xf32>
// CHECK:      %[[A:[0-9]+]], %[[B:[0-9]+]], {{.*}} = scf.for {{.*}} iter_args(
// CHECK:        %[[ROW:[0-9]+]] = vector.load {{.*}} vector<8xf32>
// CHECK:        %[[W:[0-9]+]] = vector.load {{.*}} vector<8xf32>
// CHECK:        vector.fma %[[ROW]], %[[W]], %{{[0-9]+}}
// CHECK:        scf.yield
// CHECK:      vector.shuffle %{{[0-9]+}}, %[[ZERO]] [8, 9, 10, 11, 12, 5, 6, 7]
// The halves of two vectors are added and put into one, until each lane is a column's sum.
// CHECK:      vector.shuffle %[[C:[0-9]+]], %[[D:[0-9]+]] [0, 1, 2, 3, 8, 9, 10, 11]
// CHECK-NEXT: vector.shuffle %[[C]], %[[D]] [4, 5, 6, 7, 12, 13, 14, 15]
// CHECK-NEXT: arith.addf {{.*}} : vector<8xf32>
// CHECK:      vector.shuffle %{{[0-9]+}}, %{{[0-9]+}} [0, 1, 4, 5, 8, 9, 12, 13]
// CHECK:      vector.shuffle %{{[0-9]+}}, %{{[0-9]+}} [0, 2, 4, 6, 8, 10, 12, 14]
// CHECK-NEXT: vector.shuffle %{{[0-9]+}}, %{{[0-9]+}} [1, 3, 5, 7, 9, 11, 13, 15]
// CHECK-NEXT: arith.addf {{.*}} : vector<8xf32>

// -----

// Columns of which each iteration's are contiguous: few rows leave registers for more of them.
func.func @plain(%x: tensor<2x512xf32>, %w: tensor<512x1024xf32>) -> tensor<2x1024xf32> {
  %0 = tg.dot_general %x, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<2x512xf32>, tensor<512x1024xf32>
  func.return %0 : tensor<2x1024xf32>
}
// SCHEDULE: rows = 2, columns = 48, lanes = 8, depth = 512, direct_rows = 1, direct_columns = 1>

// -----

// More rows than registers hold: packed columns, since vectors are parts of cache lines.
func.func @rows(%x: tensor<8x512xf32>, %w: tensor<512x1024xf32>) -> tensor<8x1024xf32> {
  %0 = tg.dot_general %x, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<8x512xf32>, tensor<512x1024xf32>
  func.return %0 : tensor<8x1024xf32>
}
// SCHEDULE: rows = 4, columns = 16, lanes = 8, depth = 512, direct_rows = 1>
