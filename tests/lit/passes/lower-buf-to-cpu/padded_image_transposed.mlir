// RUN: tg-opt %s --split-input-file -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu' | filecheck %s
// RUN: tg-opt %s --split-input-file -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu}' | filecheck %s --check-prefix SCHEDULE

// Derivatives of a convolution's weights: each line of the image, with all channels, is transposed in squares of 4, since
// there are 4 channels; zeros are stored before its 8 positions, and behind them, or all over if it is outside. A vector
// of columns then has neighbouring channels.
func.func @weights(%x: tensor<4x2x3x8xf32>, %g: tensor<4x2x3x8xf32>) -> tensor<4x4x3x3xf32> {
  %0 = tg.conv %x, %g stride = [1, 1] low = [1, 1] high = [1, 1] lhs_dilation = [1, 1] rhs_dilation = [1, 1] groups = 1 : tensor<4x2x3x8xf32>, tensor<4x2x3x8xf32>
  func.return %0 : tensor<4x4x3x3xf32>
}
// SCHEDULE: row = [1], column = [3, 0], {{.*}} pitch = 4>
// CHECK-LABEL: cpu.kernel @packed0
// CHECK:      %[[ZEROS:[0-9]+]] = vector.broadcast %{{[0-9]+}} : f32 to vector<4xf32>
// CHECK:      scf.if
// CHECK-NEXT:   vector.store %[[ZEROS]], %[[COPY:[0-9]+]][%{{[0-9]+}}] : memref<304xf32>, vector<4xf32>
// CHECK:        %[[A:[0-9]+]] = vector.load %0[%{{[0-9]+}}] : memref<192xf32>, vector<4xf32>
// CHECK:        %[[B:[0-9]+]] = vector.load %0[%{{[0-9]+}}] : memref<192xf32>, vector<4xf32>
// CHECK:        %[[C:[0-9]+]] = vector.load %0[%{{[0-9]+}}] : memref<192xf32>, vector<4xf32>
// CHECK:        %[[D:[0-9]+]] = vector.load %0[%{{[0-9]+}}] : memref<192xf32>, vector<4xf32>
// CHECK-NEXT:   %[[AB:[0-9]+]] = vector.shuffle %[[A]], %[[B]] [0, 4, 2, 6]
// CHECK-NEXT:   vector.shuffle %[[A]], %[[B]] [1, 5, 3, 7]
// CHECK-NEXT:   %[[CD:[0-9]+]] = vector.shuffle %[[C]], %[[D]] [0, 4, 2, 6]
// CHECK-NEXT:   vector.shuffle %[[C]], %[[D]] [1, 5, 3, 7]
// CHECK-NEXT:   %[[FIRST:[0-9]+]] = vector.shuffle %[[AB]], %[[CD]] [0, 1, 4, 5]
// CHECK:        vector.store %[[FIRST]], %[[COPY]]
// CHECK:        vector.store %[[ZEROS]], %[[COPY]]
// CHECK:      } else {
// CHECK:        scf.for
// CHECK:          vector.store %{{[0-9]+}}, %[[COPY]]
// CHECK:      scf.for {{.*}} iter_args(
// CHECK:        vector.load %[[COPY]][%{{[0-9]+}}] : memref<304xf32>, vector<8xf32>
// CHECK:        vector.load %[[COPY]][%{{[0-9]+}}] : memref<304xf32>, vector<4xf32>

// -----

// With as many channels as in two register blocks, each block has a panel: 11 lines of 16 channels, 176 elements. Of a
// column, the remainder by 32 is its channel, 16 to a panel.
func.func @panels(%x: tensor<32x2x2x9xf32>, %g: tensor<4x2x2x9xf32>) -> tensor<32x4x1x3xf32> {
  %0 = tg.conv %x, %g stride = [1, 1] low = [0, 1] high = [0, 1] lhs_dilation = [1, 1] rhs_dilation = [1, 1] groups = 1 : tensor<32x2x2x9xf32>, tensor<4x2x2x9xf32>
  func.return %0 : tensor<32x4x1x3xf32>
}
// SCHEDULE: row = [1], column = [2, 0], {{.*}} columns = 16, {{.*}} pitch = 32>
// CHECK-LABEL: cpu.kernel @packed0
// CHECK-DAG:  %[[CHANNELS:[0-9]+]] = arith.constant 32 : index
// CHECK-DAG:  %[[PANEL:[0-9]+]] = arith.constant 16 : index
// CHECK-DAG:  %[[LINES:[0-9]+]] = arith.constant 11 : index
// CHECK:      scf.for %[[AT:[0-9]+]] = %{{[0-9]+}} to %[[CHANNELS]] step %[[PANEL]] {
// CHECK:        arith.muli %[[AT]], %[[LINES]] : index
// CHECK:      %[[LINE:[0-9]+]] = arith.divui %[[COLUMN:[0-9]+]], %[[CHANNELS]] : index
// CHECK-NEXT: %[[CHANNEL:[0-9]+]] = arith.remui %[[COLUMN]], %[[CHANNELS]] : index
// CHECK-NEXT: %[[NUMBER:[0-9]+]] = arith.divui %[[CHANNEL]], %[[PANEL]] : index
// CHECK-NEXT: %[[ABOVE:[0-9]+]] = arith.muli %[[NUMBER]], %[[LINES]] : index
// CHECK-NEXT: arith.addi %[[ABOVE]], %[[LINE]] : index

// -----

// The second loop of the window has positions outside of the image, which are no channels.
func.func @outside(%x: tensor<1x6x3x31xf32>, %g: tensor<6x2x1x27xf32>) -> tensor<1x6x4x5xf32> {
  %0 = tg.conv %x, %g stride = [2, 1] low = [2, 0] high = [2, 0] lhs_dilation = [1, 1] rhs_dilation = [1, 1] groups = 3 : tensor<1x6x3x31xf32>, tensor<6x2x1x27xf32>
  func.return %0 : tensor<1x6x4x5xf32>
}
// SCHEDULE-LABEL: func.func @outside
// SCHEDULE-NOT: column = [3, 2]
// SCHEDULE: func.return

// -----

// Each tile copies all channels of its lines, so it has the columns of all of them, and few tiles share the rows.
func.func @many_channels(%x: tensor<256x4x56x56xf32>, %g: tensor<128x4x56x56xf32>) -> tensor<256x128x3x3xf32> {
  %0 = tg.conv %x, %g stride = [1, 1] low = [1, 1] high = [1, 1] lhs_dilation = [1, 1] rhs_dilation = [1, 1] groups = 1 : tensor<256x4x56x56xf32>, tensor<128x4x56x56xf32>
  func.return %0 : tensor<256x128x3x3xf32>
}
// SCHEDULE-LABEL: func.func @many_channels
// SCHEDULE: column = [3, 0], tile_rows = 66, tile_columns = 768, {{.*}} pitch = 256>
