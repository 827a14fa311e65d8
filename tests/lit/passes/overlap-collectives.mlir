// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse,overlap-collectives' | filecheck %s
// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse,overlap-collectives{message-bytes=40}' | filecheck %s --check-prefix SMALL
// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse,overlap-collectives,schedule{target=cpu},plan-memory{target=cpu}' | filecheck %s --check-prefix PLANNED


// The first two all-reduces form one message. It starts after the second contraction and is awaited before its first
// use, so it overlaps with the third contraction. The third all-reduce has nothing to overlap with and stays one op.
func.func @f(%x: tensor<4x2xf32>, %y: tensor<4x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>) {
  %0 = tg.dot_general %x, %x lhs_batch = [] rhs_batch = [] lhs_contracting = [0] rhs_contracting = [0] : tensor<4x2xf32>, tensor<4x2xf32>
  %1 = tg.all_reduce %0 reduction = "sum" size = 2 : tensor<2x2xf32>
  %2 = tg.dot_general %x, %y lhs_batch = [] rhs_batch = [] lhs_contracting = [0] rhs_contracting = [0] : tensor<4x2xf32>, tensor<4x2xf32>
  %3 = tg.all_reduce %2 reduction = "sum" size = 2 : tensor<2x2xf32>
  %4 = tg.dot_general %y, %y lhs_batch = [] rhs_batch = [] lhs_contracting = [0] rhs_contracting = [0] : tensor<4x2xf32>, tensor<4x2xf32>
  %5 = tg.all_reduce %4 reduction = "max" size = 2 : tensor<2x2xf32>
  %6 = tg.exp %1 : tensor<2x2xf32>
  %7 = tg.exp %3 : tensor<2x2xf32>
  %8 = tg.exp %5 : tensor<2x2xf32>
  func.return %6, %7, %8 : tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>
}

// CHECK: func.func @f(
// CHECK: buf.kernel grid = [2, 2] ins(%x : memref<4x2xf32>) outs(%4 : memref<2x2xf32>)
// CHECK: buf.kernel grid = [2, 2] ins(%x, %y : memref<4x2xf32>, memref<4x2xf32>) outs(%6 : memref<2x2xf32>)
// CHECK: buf.kernel grid = [] ins(%4, %6 : memref<2x2xf32>, memref<2x2xf32>) outs(%3 : memref<i32>)
// CHECK: buf.collective "all_reduce" ins({{.*}}) outs({{.*}} : memref<i32>) {{.*}} phase = "start"
// CHECK: buf.kernel grid = [2, 2] ins(%y : memref<4x2xf32>) outs(%8 : memref<2x2xf32>)
// CHECK: buf.kernel grid = [] ins(%8 : memref<2x2xf32>) outs(%9 : memref<2x2xf32>)
// CHECK: buf.collective "all_reduce" ins({{.*}}) outs({{.*}}) {reduction = "max", root = 0 : i64, size = 2 : i64}
// CHECK: buf.kernel grid = [] ins(%4, %6, %3 : memref<2x2xf32>, memref<2x2xf32>, memref<i32>) outs(%5, %7 : memref<2x2xf32>, memref<2x2xf32>)
// CHECK: buf.collective "all_reduce" ins({{.*}} memref<i32>) outs({{.*}}) {{.*}} phase = "wait"
// CHECK: buf.kernel grid = [2, 2] ins(%5, %7, %9 :

// Each all-reduce is a message of its own if together they exceed `message-bytes`.
// SMALL: phase = "start"
// SMALL: linalg.generic
// SMALL: phase = "start"
// SMALL: linalg.generic
// SMALL: reduction = "max", root = 0 : i64, size = 2 : i64}
// SMALL: phase = "wait"
// SMALL: phase = "wait"

// The exchanged buffers are live from start to wait: kernels that run in between write to other offsets of the arena.
func.func @g(%x: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  %0 = tg.exp %x : tensor<64x64xf32>
  %1 = tg.all_reduce %0 reduction = "sum" size = 2 : tensor<64x64xf32>
  %2 = tg.dot_general %x, %x lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<64x64xf32>, tensor<64x64xf32>
  %3 = tg.dot_general %2, %2 lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<64x64xf32>, tensor<64x64xf32>
  %4 = tg.dot_general %3, %3 lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<64x64xf32>, tensor<64x64xf32>
  %5 = tg.dot_general %4, %1 lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<64x64xf32>, tensor<64x64xf32>
  %6 = tg.dot_general %5, %5 lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<64x64xf32>, tensor<64x64xf32>
  func.return %6, %5 : tensor<64x64xf32>, tensor<64x64xf32>
}

// PLANNED: func.func @g(
// PLANNED: %4 = buf.arena "workspace" role = "workspace" : memref<65540xi8>
// PLANNED-NEXT:   %5 = buf.view %4[65536] : memref<65540xi8> to memref<i32>
// PLANNED-NEXT:   %6 = buf.view %4[0] : memref<65540xi8> to memref<64x64xf32>
// PLANNED-NEXT:   %7 = buf.view %4[16384] : memref<65540xi8> to memref<64x64xf32>
// PLANNED-NEXT:   %8 = buf.view %4[32768] : memref<65540xi8> to memref<64x64xf32>
// PLANNED-NEXT:   %9 = buf.view %4[49152] : memref<65540xi8> to memref<64x64xf32>
// PLANNED-NEXT:   %10 = buf.view %4[32768] : memref<65540xi8> to memref<64x64xf32>
// PLANNED: buf.kernel grid = [] ins(%6 : memref<64x64xf32>) outs(%5 : memref<i32>)
// PLANNED: buf.kernel grid = [64, 64] ins(%x : memref<64x64xf32>) outs(%8 : memref<64x64xf32>)
// PLANNED: buf.kernel grid = [64, 64] ins(%8 : memref<64x64xf32>) outs(%9 : memref<64x64xf32>)
// PLANNED: buf.kernel grid = [64, 64] ins(%9 : memref<64x64xf32>) outs(%10 : memref<64x64xf32>)
// PLANNED: buf.kernel grid = [] ins(%6, %5 : memref<64x64xf32>, memref<i32>) outs(%7 : memref<64x64xf32>)
// PLANNED: buf.kernel grid = [64, 64] ins(%10, %7 :
