// RUN: tg-opt %s -p 'bucket-collectives{function=small}' | filecheck %s --check-prefix SMALL
// RUN: tg-opt %s -p 'bucket-collectives{function=small bucket-bytes=60}' | filecheck %s --check-prefix LIMIT
// RUN: tg-opt %s -p 'bucket-collectives{function=row bucket-bytes=600}' | filecheck %s --check-prefix ROW
// RUN: tg-opt %s -p 'bucket-collectives{function=rounds}' | filecheck %s --check-prefix ROUNDS
// RUN: tg-opt %s -p 'bucket-collectives{function=loop}' | filecheck %s --check-prefix LOOP
// RUN: not tg-opt %s -p 'bucket-collectives{function=small bucket-bytes=0}' 2>&1 | filecheck %s --check-prefix EMPTY

// EMPTY: bucket-collectives: bucket-bytes must be at least 1, got 0

// Independent sums are packed into one row and all-reduced together, in the order in which their operands become ready:
// the product by `%s` first, since it fuses into the contraction, then `%1`. A maximum is all-reduced separately.
func.func @small(%x: tensor<4x3xf32>, %y: tensor<4x5xf32>, %s: tensor<3x5xf32>) -> (tensor<3x5xf32>, tensor<f32>, tensor<3xf32>) {
  %0 = tg.dot_general %x, %y lhs_batch = [] rhs_batch = [] lhs_contracting = [0] rhs_contracting = [0] : tensor<4x3xf32>, tensor<4x5xf32>
  %1 = tg.sum %x axes = [0, 1] : tensor<4x3xf32>
  %2 = tg.max %x axes = [0] : tensor<4x3xf32>
  %3 = tg.all_reduce %1 reduction = "sum" size = 2 : tensor<f32>
  %4 = tg.exp %3 : tensor<f32>
  %5 = tg.mul %0, %s : tensor<3x5xf32>, tensor<3x5xf32>
  %6 = tg.all_reduce %5 reduction = "sum" size = 2 : tensor<3x5xf32>
  %7 = tg.all_reduce %2 reduction = "max" size = 2 : tensor<3xf32>
  func.return %6, %4, %7 : tensor<3x5xf32>, tensor<f32>, tensor<3xf32>
}

// SMALL: func.func @small(
// SMALL-NEXT:   %0 = tg.dot_general
// SMALL-NEXT:   %1 = tg.sum
// SMALL-NEXT:   %2 = tg.max
// SMALL-NEXT:   %3 = tg.mul %0, %s
// SMALL-NEXT:   %4 = tg.pack %3, %1 offsets = [0, 64] size = 128 : tensor<3x5xf32>, tensor<f32>
// SMALL-NEXT:   %5 = tg.all_reduce %4 reduction = "sum" size = 2 : tensor<128xf32>
// SMALL-NEXT:   %6 = tg.slice %5 start = [0] stop = [15] step = [1] : tensor<128xf32>
// SMALL-NEXT:   %7 = tg.reshape %6 shape = [3, 5] : tensor<15xf32>
// SMALL-NEXT:   %8 = tg.slice %5 start = [64] stop = [65] step = [1] : tensor<128xf32>
// SMALL-NEXT:   %9 = tg.reshape %8 shape = [] : tensor<1xf32>
// SMALL-NEXT:   %10 = tg.all_reduce %2 reduction = "max" size = 2 : tensor<3xf32>
// SMALL-NEXT:   %11 = tg.exp %9 : tensor<f32>
// SMALL-NEXT:   func.return %7, %11, %10

// LIMIT: func.func @small(
// LIMIT: %3 = tg.mul %0, %s
// LIMIT-NEXT:   %4 = tg.all_reduce %3 reduction = "sum" size = 2 : tensor<3x5xf32>
// LIMIT-NEXT:   %5 = tg.all_reduce %1 reduction = "sum" size = 2 : tensor<f32>
// LIMIT-NEXT:   %6 = tg.all_reduce %2 reduction = "max" size = 2 : tensor<3xf32>

// A row larger than a bucket is split into runs of its tensors, which are all-reduced separately and packed again. A
// run also ends where a use slices the row, here at element 192.
func.func @row(%a: tensor<64xf32>, %b: tensor<64xf32>, %c: tensor<64xf32>, %d: tensor<3xf32>) -> (tensor<f32>, tensor<192xf32>, tensor<64xf32>) {
  %0 = tg.pack %a, %b, %c, %d offsets = [0, 64, 128, 192] size = 256 : tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<3xf32>
  %1 = tg.all_reduce %0 reduction = "sum" size = 2 : tensor<256xf32>
  %2 = tg.mul %1, %1 : tensor<256xf32>, tensor<256xf32>
  %3 = tg.sum %2 axes = [0] : tensor<256xf32>
  %4 = tg.slice %1 start = [0] stop = [192] step = [1] : tensor<256xf32>
  %5 = tg.slice %1 start = [192] stop = [256] step = [1] : tensor<256xf32>
  func.return %3, %4, %5 : tensor<f32>, tensor<192xf32>, tensor<64xf32>
}

// ROW: func.func @row(
// ROW-NEXT:   %0 = tg.pack %a, %b offsets = [0, 64] size = 128 : tensor<64xf32>, tensor<64xf32>
// ROW-NEXT:   %1 = tg.all_reduce %0 reduction = "sum" size = 2 : tensor<128xf32>
// ROW-NEXT:   %2 = tg.all_reduce %c reduction = "sum" size = 2 : tensor<64xf32>
// ROW-NEXT:   %3 = tg.all_reduce %d reduction = "sum" size = 2 : tensor<3xf32>
// ROW-NEXT:   %4 = tg.pack %1, %2, %3 offsets = [0, 128, 192] size = 256 : tensor<128xf32>, tensor<64xf32>, tensor<3xf32>
// ROW-NEXT:   %5 = tg.mul %4, %4
// ROW-NEXT:   %6 = tg.sum %5
// ROW-NEXT:   %7 = tg.slice %4 start = [0] stop = [192]
// ROW-NEXT:   %8 = tg.slice %4 start = [192] stop = [256]

// A collective that depends on another is in a later round. A row of `tg.pack` is flattened into that of its bucket.
func.func @rounds(%a: tensor<64xf32>, %b: tensor<2xf32>) -> (tensor<2xf32>, tensor<128xf32>) {
  %0 = tg.all_reduce %b reduction = "sum" size = 2 : tensor<2xf32>
  %1 = tg.mul %0, %b : tensor<2xf32>, tensor<2xf32>
  %2 = tg.all_reduce %1 reduction = "sum" size = 2 : tensor<2xf32>
  %3 = tg.pack %a, %1 offsets = [0, 64] size = 128 : tensor<64xf32>, tensor<2xf32>
  %4 = tg.all_reduce %3 reduction = "sum" size = 2 : tensor<128xf32>
  func.return %2, %4 : tensor<2xf32>, tensor<128xf32>
}

// ROUNDS: func.func @rounds(
// ROUNDS-NEXT:   %0 = tg.all_reduce %b reduction = "sum" size = 2 : tensor<2xf32>
// ROUNDS-NEXT:   %1 = tg.mul %0, %b
// ROUNDS-NEXT:   %2 = tg.pack %1, %a, %1 offsets = [0, 64, 128] size = 192 : tensor<2xf32>, tensor<64xf32>, tensor<2xf32>
// ROUNDS-NEXT:   %3 = tg.all_reduce %2 reduction = "sum" size = 2 : tensor<192xf32>
// ROUNDS-NEXT:   %4 = tg.slice %3 start = [0] stop = [2] step = [1] : tensor<192xf32>
// ROUNDS-NEXT:   %5 = tg.slice %3 start = [64] stop = [192] step = [1] : tensor<192xf32>
// ROUNDS-NEXT:   func.return %4, %5

// A function with a loop is left unchanged.
func.func @loop(%a: tensor<64xf32>, %b: tensor<2xf32>) -> (tensor<64xf32>, tensor<2xf32>) {
  %0 = tg.all_reduce %a reduction = "sum" size = 2 : tensor<64xf32>
  %1 = tg.all_reduce %b reduction = "sum" size = 2 : tensor<2xf32>
  %2 = tg.scan () carry (%0) over () length = 3 : (tensor<64xf32>) -> (tensor<64xf32>) {
  ^bb0(%c: tensor<64xf32>):
    %3 = tg.sin %c : tensor<64xf32>
    tg.return %3 : tensor<64xf32>
  }
  func.return %2, %1 : tensor<64xf32>, tensor<2xf32>
}

// LOOP: func.func @loop(
// LOOP-NEXT:   %0 = tg.all_reduce %a reduction = "sum" size = 2 : tensor<64xf32>
// LOOP-NEXT:   %1 = tg.all_reduce %b reduction = "sum" size = 2 : tensor<2xf32>
// LOOP-NEXT:   %2 = tg.scan
