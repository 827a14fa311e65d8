// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu}' | filecheck %s

// Blocks of six rows compute two rows of padding. Those of four, of which 49 are all rows, have so few sums that each waits
// for the one before.
// CHECK-LABEL: func.func @padding
// CHECK: rows = 6, columns = 16, lanes = 8, depth = 768, direct_rows = 1>
func.func @padding(%x: tensor<196x2304xf32>, %w: tensor<2304x256xf32>) -> tensor<196x256xf32> {
  %0 = tg.dot_general %x, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<196x2304xf32>, tensor<2304x256xf32>
  func.return %0 : tensor<196x256xf32>
}

// The elements of a column are 2 KB apart, so they would share two sets of a cache: columns are packed.
// CHECK-LABEL: func.func @apart
// CHECK: rows = 6, columns = 16, lanes = 8, depth = 128, direct_rows = 1>
func.func @apart(%x: tensor<256x128xf32>, %w: tensor<128x512xf32>) -> tensor<256x512xf32> {
  %0 = tg.dot_general %x, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<256x128xf32>, tensor<128x512xf32>
  func.return %0 : tensor<256x512xf32>
}

// 24 KB stay in the first-level cache, and are read in place.
// CHECK-LABEL: func.func @near
// CHECK: direct_rows = 1, direct_columns = 1>
func.func @near(%x: tensor<256x64xf32>, %w: tensor<64x96xf32>) -> tensor<256x96xf32> {
  %0 = tg.dot_general %x, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<256x64xf32>, tensor<64x96xf32>
  func.return %0 : tensor<256x96xf32>
}

// 32 rows are eight blocks of four with three vectors of columns, and six of six with two vectors would be 36.
// CHECK-LABEL: func.func @windows
// CHECK: rows = 4, columns = 24, lanes = 8, depth = 288, direct_rows = 1, pitch = 66>
func.func @windows(%x: tensor<1x32x64x64xf32>, %w: tensor<32x32x3x3xf32>) -> tensor<1x32x64x64xf32> {
  %0 = tg.conv %x, %w stride = [1, 1] low = [1, 1] high = [1, 1] lhs_dilation = [1, 1] rhs_dilation = [1, 1] groups = 1 : tensor<1x32x64x64xf32>, tensor<32x32x3x3xf32>
  func.return %0 : tensor<1x32x64x64xf32>
}

// Eleven channels of what 24 windows meet, in a part of the lines for each of three elements, stay in the first-level cache. All
// rows pass them before the next 24.
// CHECK-LABEL: func.func @near_windows
// CHECK: rows = 4, columns = 24, lanes = 8, depth = 99, direct_rows = 1, pitch = 28, split = 1, by_columns = 1>
func.func @near_windows(%x: tensor<1x128x28x28xf32>, %w: tensor<128x128x3x3xf32>) -> tensor<1x128x28x28xf32> {
  %0 = tg.conv %x, %w stride = [1, 1] low = [1, 1] high = [1, 1] lhs_dilation = [1, 1] rhs_dilation = [1, 1] groups = 1 : tensor<1x128x28x28xf32>, tensor<128x128x3x3xf32>
  func.return %0 : tensor<1x128x28x28xf32>
}
