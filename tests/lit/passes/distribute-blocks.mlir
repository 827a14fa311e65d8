// RUN: tg-opt %s -p 'distribute{size=2 rank=1 function=merged}' | filecheck %s --check-prefix MERGED
// RUN: tg-opt %s -p 'distribute{size=2 rank=1 function=grouped}' | filecheck %s --check-prefix GROUPED
// RUN: tg-opt %s -p 'distribute{size=2 rank=1 function=forked}' | filecheck %s --check-prefix FORKED
// RUN: tg-opt %s -p 'distribute{size=2 rank=1 function=outputs}' | filecheck %s --check-prefix OUTPUTS
// RUN: tg-opt %s -p 'distribute{size=2 rank=1 function=branches}' | filecheck %s --check-prefix BRANCHES
// RUN: tg-opt %s -p 'distribute{size=2 rank=1 function=scattered}' | filecheck %s --check-prefix SCATTERED

// A sharded axis that is merged into an outer one remains sharded, in blocks: each block is cut. Replicated operands
// are sliced likewise, and values that are needed whole are gathered block by block.
func.func @merged(%x: tensor<8x3x5xf32> {tg.name = "x", tg.role = "input"}, %w: tensor<24xf32> {tg.name = "w", tg.role = "parameter"}) -> (tensor<24xf32>, tensor<3x8xf32>) {
  %0 = tg.transpose %x permutation = [1, 0, 2] : tensor<8x3x5xf32>
  %1 = tg.sum %0 axes = [2] : tensor<3x8x5xf32>
  %2 = tg.reshape %1 shape = [24] : tensor<3x8xf32>
  %3 = tg.mul %2, %w : tensor<24xf32>, tensor<24xf32>
  %4 = tg.reshape %3 shape = [3, 8] : tensor<24xf32>
  func.return %3, %4 : tensor<24xf32>, tensor<3x8xf32>
}

// MERGED: func.func @merged(
// MERGED-NEXT:   %0 = tg.transpose %x permutation = [1, 0, 2] : tensor<4x3x5xf32>
// MERGED-NEXT:   %1 = tg.sum %0 axes = [2] : tensor<3x4x5xf32>
// MERGED-NEXT:   %2 = tg.reshape %1 shape = [12] : tensor<3x4xf32>
// MERGED-NEXT:   %3 = tg.reshape %w shape = [3, 8] : tensor<24xf32>
// MERGED-NEXT:   %4 = tg.slice %3 start = [0, 4] stop = [3, 8] step = [1, 1] : tensor<3x8xf32>
// MERGED-NEXT:   %5 = tg.reshape %4 shape = [12] : tensor<3x4xf32>
// MERGED-NEXT:   %6 = tg.mul %2, %5 : tensor<12xf32>, tensor<12xf32>
// MERGED-NEXT:   %7 = tg.reshape %6 shape = [3, 4] : tensor<12xf32>
// MERGED-NEXT:   %8 = tg.reshape %6 shape = [3, 4] : tensor<12xf32>
// MERGED-NEXT:   %9 = tg.all_gather %8 axis = 1 size = 2 : tensor<3x4xf32>
// MERGED-NEXT:   %10 = tg.reshape %9 shape = [24] : tensor<3x8xf32>
// MERGED-NEXT:   %11 = tg.all_gather %7 axis = 1 size = 2 : tensor<3x4xf32>
// MERGED-NEXT:   func.return %10, %11 : tensor<24xf32>, tensor<3x8xf32>

// The weight gradient of a grouped convolution contracts the batch, which has one block per group in the left operand.
func.func @grouped(%x: tensor<2x12x5xf32> {tg.name = "x", tg.role = "parameter"}, %g: tensor<4x6x5xf32> {tg.name = "g", tg.role = "input"}) -> tensor<2x6x1xf32> {
  %0 = tg.transpose %g permutation = [1, 0, 2] : tensor<4x6x5xf32>
  %1 = tg.conv %x, %0 stride = [1] low = [0] high = [0] lhs_dilation = [1] rhs_dilation = [1] groups = 3 : tensor<2x12x5xf32>, tensor<6x4x5xf32>
  func.return %1 : tensor<2x6x1xf32>
}

// GROUPED: func.func @grouped(
// GROUPED-NEXT:   %0 = tg.transpose %g permutation = [1, 0, 2] : tensor<2x6x5xf32>
// GROUPED-NEXT:   %1 = tg.reshape %x shape = [2, 3, 4, 5] : tensor<2x12x5xf32>
// GROUPED-NEXT:   %2 = tg.slice %1 start = [0, 0, 2, 0] stop = [2, 3, 4, 5] step = [1, 1, 1, 1] : tensor<2x3x4x5xf32>
// GROUPED-NEXT:   %3 = tg.reshape %2 shape = [2, 6, 5] : tensor<2x3x2x5xf32>
// GROUPED-NEXT:   %4 = tg.conv %3, %0 {{.*}} groups = 3 : tensor<2x6x5xf32>, tensor<6x2x5xf32>
// GROUPED-NEXT:   %5 = tg.all_reduce %4 reduction = "sum" size = 2 : tensor<2x6x1xf32>
// GROUPED-NEXT:   func.return %5 : tensor<2x6x1xf32>

// A partial sum with several uses is all-reduced once, before them; or after them, if their combined result is smaller.
func.func @forked(%x: tensor<4x6xf32> {tg.name = "x", tg.role = "input"}) -> (tensor<2x3xf32>, tensor<3xf32>, tensor<f32>) {
  %0 = tg.sum %x axes = [0] : tensor<4x6xf32>
  %1 = tg.reshape %0 shape = [2, 3] : tensor<6xf32>
  %2 = tg.exp %1 : tensor<2x3xf32>
  %3 = tg.slice %0 start = [0] stop = [3] step = [1] : tensor<6xf32>
  %4 = tg.exp %3 : tensor<3xf32>
  %5 = tg.sum %x axes = [0] : tensor<4x6xf32>
  %6 = tg.sum %5 axes = [0] : tensor<6xf32>
  %7 = tg.slice %5 start = [0] stop = [1] step = [1] : tensor<6xf32>
  %8 = tg.reshape %7 shape = [] : tensor<1xf32>
  %9 = tg.add %6, %8 : tensor<f32>, tensor<f32>
  func.return %2, %4, %9 : tensor<2x3xf32>, tensor<3xf32>, tensor<f32>
}

// FORKED: func.func @forked(
// FORKED-NEXT:   %0 = tg.sum %x axes = [0] : tensor<2x6xf32>
// FORKED-NEXT:   %1 = tg.all_reduce %0 reduction = "sum" size = 2 : tensor<6xf32>
// FORKED-NEXT:   %2 = tg.reshape %1 shape = [2, 3] : tensor<6xf32>
// FORKED-NEXT:   %3 = tg.exp %2 : tensor<2x3xf32>
// FORKED-NEXT:   %4 = tg.slice %1 start = [0] stop = [3] step = [1] : tensor<6xf32>
// FORKED-NEXT:   %5 = tg.exp %4 : tensor<3xf32>
// FORKED-NEXT:   %6 = tg.sum %x axes = [0] : tensor<2x6xf32>
// FORKED-NEXT:   %7 = tg.sum %6 axes = [0] : tensor<6xf32>
// FORKED-NEXT:   %8 = tg.slice %6 start = [0] stop = [1] step = [1] : tensor<6xf32>
// FORKED-NEXT:   %9 = tg.reshape %8 shape = [] : tensor<1xf32>
// FORKED-NEXT:   %10 = tg.add %7, %9 : tensor<f32>, tensor<f32>
// FORKED-NEXT:   %11 = tg.all_reduce %10 reduction = "sum" size = 2 : tensor<f32>
// FORKED-NEXT:   func.return %3, %5, %11 : tensor<2x3xf32>, tensor<3xf32>, tensor<f32>

// If one branch yields a partial sum or a shard, so does the other; sums are all-reduced once, after the `cond`.
func.func @branches(%p: tensor<i1> {tg.name = "p", tg.role = "input"}, %x: tensor<4x3xf32> {tg.name = "x", tg.role = "input"}, %z: tensor<3xf32> {tg.name = "z", tg.role = "parameter"}) -> (tensor<3xf32>, tensor<f32>) {
  %0 = tg.constant value = dense<0.0> : tensor<4x3xf32>
  %1, %2 = tg.cond %p (%x, %z, %0) : (tensor<4x3xf32>, tensor<3xf32>, tensor<4x3xf32>) -> (tensor<3xf32>, tensor<4x3xf32>) {
  ^bb0(%a: tensor<4x3xf32>, %b: tensor<3xf32>, %c: tensor<4x3xf32>):
    %3 = tg.sum %a axes = [0] : tensor<4x3xf32>
    tg.return %3, %a : tensor<3xf32>, tensor<4x3xf32>
  } else {
  ^bb0(%a: tensor<4x3xf32>, %b: tensor<3xf32>, %c: tensor<4x3xf32>):
    tg.return %b, %c : tensor<3xf32>, tensor<4x3xf32>
  }
  %4 = tg.sum %2 axes = [0, 1] : tensor<4x3xf32>
  func.return %1, %4 : tensor<3xf32>, tensor<f32>
}

// BRANCHES: func.func @branches(
// BRANCHES-NEXT:   %0 = tg.constant value = dense<0.000000e+00> : tensor<4x3xf32>
// BRANCHES-NEXT:   %1, %2 = tg.cond %p (%x, %z, %0) : (tensor<2x3xf32>, tensor<3xf32>, tensor<4x3xf32>) -> (tensor<3xf32>, tensor<2x3xf32>) {
// BRANCHES-NEXT:   ^bb0(
// BRANCHES-NEXT:     %3 = tg.sum %a axes = [0] : tensor<2x3xf32>
// BRANCHES-NEXT:     tg.return %3, %a : tensor<3xf32>, tensor<2x3xf32>
// BRANCHES-NEXT:   } else {
// BRANCHES-NEXT:   ^bb0(
// BRANCHES-NEXT:     %4 = tg.constant value = dense<5.000000e-01> : tensor<3xf32>
// BRANCHES-NEXT:     %5 = tg.mul %b_1, %4 : tensor<3xf32>, tensor<3xf32>
// BRANCHES-NEXT:     %6 = tg.slice %c_1 start = [2, 0] stop = [4, 3] step = [1, 1] : tensor<4x3xf32>
// BRANCHES-NEXT:     tg.return %5, %6 : tensor<3xf32>, tensor<2x3xf32>
// BRANCHES-NEXT:   }
// BRANCHES-NEXT:   %3 = tg.sum %2 axes = [0, 1] : tensor<2x3xf32>
// BRANCHES-NEXT:   %4 = tg.all_reduce %1 reduction = "sum" size = 2 : tensor<3xf32>
// BRANCHES-NEXT:   %5 = tg.all_reduce %3 reduction = "sum" size = 2 : tensor<f32>

// Sharded outputs in a block for each group: each process computes its share of each group's outputs.
func.func @outputs(%x: tensor<5x6x7xf32> {tg.name = "x", tg.role = "parameter"}, %g: tensor<4x2x3x4xf32> {tg.name = "g", tg.role = "input"}) -> tensor<5x8x4xf32> {
  %0 = tg.transpose %g permutation = [1, 0, 2, 3] : tensor<4x2x3x4xf32>
  %1 = tg.reshape %0 shape = [8, 3, 4] : tensor<2x4x3x4xf32>
  %2 = tg.conv %x, %1 stride = [1] low = [0] high = [0] lhs_dilation = [1] rhs_dilation = [1] groups = 2 : tensor<5x6x7xf32>, tensor<8x3x4xf32>
  func.return %2 : tensor<5x8x4xf32>
}

// OUTPUTS: func.func @outputs(
// OUTPUTS-NEXT:   %0 = tg.transpose %g permutation = [1, 0, 2, 3] : tensor<2x2x3x4xf32>
// OUTPUTS-NEXT:   %1 = tg.reshape %0 shape = [4, 3, 4] : tensor<2x2x3x4xf32>
// OUTPUTS-NEXT:   %2 = tg.conv %x, %1 {{.*}} groups = 2 : tensor<5x6x7xf32>, tensor<4x3x4xf32>
// OUTPUTS-NEXT:   %3 = tg.reshape %2 shape = [5, 2, 2, 4] : tensor<5x4x4xf32>
// OUTPUTS-NEXT:   %4 = tg.all_gather %3 axis = 2 size = 2 : tensor<5x2x2x4xf32>
// OUTPUTS-NEXT:   %5 = tg.reshape %4 shape = [5, 8, 4] : tensor<5x2x4x4xf32>
// OUTPUTS-NEXT:   func.return %5 : tensor<5x8x4xf32>

// Sums over sharded updates are partial ones; other reductions are not, so their updates are gathered. Rows of updates
// stay sharded in both.
func.func @scattered(%x: tensor<8x6xf32> {tg.name = "x", tg.role = "input"}, %i: tensor<8xi32> {tg.name = "i", tg.role = "input"}, %j: tensor<6xi32> {tg.name = "j", tg.role = "parameter"}) -> (tensor<5x6xf32>, tensor<5x6xf32>, tensor<8x5xf32>) {
  %0 = tg.scatter_add %x, %i axis = 0 extent = 5 : tensor<8x6xf32>, tensor<8xi32>
  %1 = tg.scatter_reduce %x, %i axis = 0 extent = 5 reduction = "max" : tensor<8x6xf32>, tensor<8xi32>
  %2 = tg.scatter_reduce %x, %j axis = 1 extent = 5 reduction = "max" : tensor<8x6xf32>, tensor<6xi32>
  func.return %0, %1, %2 : tensor<5x6xf32>, tensor<5x6xf32>, tensor<8x5xf32>
}

// SCATTERED-LABEL: func.func @scattered(
// SCATTERED:         tg.scatter_add %x, %i axis = 0 extent = 5 : tensor<4x6xf32>, tensor<4xi32>
// SCATTERED:         %[[X:.*]] = tg.all_gather %x axis = 0 size = 2 : tensor<4x6xf32>
// SCATTERED:         %[[I:.*]] = tg.all_gather %i axis = 0 size = 2 : tensor<4xi32>
// SCATTERED:         tg.scatter_reduce %[[X]], %[[I]] axis = 0 extent = 5 reduction = "max" : tensor<8x6xf32>, tensor<8xi32>
// SCATTERED:         tg.scatter_reduce %x, %j axis = 1 extent = 5 reduction = "max" : tensor<4x6xf32>, tensor<6xi32>
// SCATTERED:         tg.all_reduce
