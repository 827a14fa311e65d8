// RUN: tg-opt %s --split-input-file -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu' | filecheck %s

// Pointwise: the inner loop is over a block of the last grid axis, here a whole row; one too short for a vector is no loop, as masks of AVX2 are slow.
func.func @points(%x: tensor<100x3xf32>, %b: tensor<3xf32>) -> tensor<100x3xf32> {
  %0 = tg.broadcast %b shape = [100, 3] dims = [1] : tensor<3xf32>
  %1 = tg.add %x, %0 : tensor<100x3xf32>, tensor<100x3xf32>
  func.return %1 : tensor<100x3xf32>
}
// CHECK:      cpu.kernel @loops0 access = ["read", "read", "read_write"] {
// CHECK-NEXT: ^bb0(%0: memref<300xf32>, %1: memref<3xf32>, %2: memref<300xf32>, %3: index, %4: index):
// CHECK-NEXT:   %5 = arith.constant 21845 : index
// CHECK-NEXT:   %6 = arith.muli %3, %5 : index
// CHECK-NEXT:   %7 = arith.muli %4, %5 : index
// CHECK-NEXT:   %8 = arith.constant 100 : index
// CHECK-NEXT:   %9 = arith.minui %7, %8 : index
// CHECK-NEXT:   %10 = arith.constant 1 : index
// CHECK-NEXT:   %11 = arith.constant 0 : index
// CHECK-NEXT:   %12 = arith.constant 3 : index
// CHECK-NEXT:   scf.for %13 = %6 to %9 step %10 {
// CHECK-NEXT:     %14 = arith.muli %13, %12 : index
// CHECK-NEXT:     %15 = arith.addi %14, %11 : index
// CHECK-NEXT:     %16 = memref.load %0[%15] : memref<300xf32>
// CHECK-NEXT:     %17 = memref.load %1[%11] : memref<3xf32>
// CHECK-NEXT:     %18 = arith.addf %16, %17 : f32
// CHECK-NEXT:     memref.store %18, %2[%15] : memref<300xf32>
// CHECK-NEXT:     %19 = arith.addi %14, %10 : index
// CHECK-NEXT:     %20 = memref.load %0[%19] : memref<300xf32>
// CHECK-NEXT:     %21 = memref.load %1[%10] : memref<3xf32>
// CHECK-NEXT:     %22 = arith.addf %20, %21 : f32
// CHECK-NEXT:     memref.store %22, %2[%19] : memref<300xf32>
// CHECK-NEXT:     %23 = arith.constant 2 : index
// CHECK-NEXT:     %24 = arith.addi %14, %23 : index
// CHECK-NEXT:     %25 = memref.load %0[%24] : memref<300xf32>
// CHECK-NEXT:     %26 = memref.load %1[%23] : memref<3xf32>
// CHECK-NEXT:     %27 = arith.addf %25, %26 : f32
// CHECK-NEXT:     memref.store %27, %2[%24] : memref<300xf32>
// CHECK-NEXT:   }
// CHECK: buf.dispatch @loops0 workgroups = [1, 1, 1] attributes {buf.bytes_moved = 2412 : i64, buf.flops = {{[0-9]+}} : i64} (%x, %b, %2) : memref<100x3xf32>, memref<3xf32>, memref<100x3xf32>

// -----

// Row sums: the reduction is the innermost loop, and may be reassociated, so that LLVM can vectorize it.
func.func @rows(%x: tensor<8x64xf32>) -> tensor<8xf32> {
  %0 = tg.sum %x axes = [1] : tensor<8x64xf32>
  func.return %0 : tensor<8xf32>
}
// CHECK:      cpu.kernel @loops0 access = ["read", "read_write"] {
// CHECK-NEXT: ^bb0(%0: memref<512xf32>, %1: memref<8xf32>, %2: index, %3: index):
// CHECK-NEXT:   %4 = arith.constant 1024 : index
// CHECK-NEXT:   %5 = arith.muli %2, %4 : index
// CHECK-NEXT:   %6 = arith.muli %3, %4 : index
// CHECK-NEXT:   %7 = arith.constant 8 : index
// CHECK-NEXT:   %8 = arith.minui %6, %7 : index
// CHECK-NEXT:   %9 = arith.constant 1 : index
// CHECK-NEXT:   %10 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:   %11 = arith.constant 64 : index
// CHECK-NEXT:   %12 = arith.constant 0 : index
// CHECK-NEXT:   scf.for %13 = %5 to %8 step %9 {
// CHECK-NEXT:     %14 = arith.muli %13, %11 : index
// CHECK-NEXT:     %15 = scf.for %16 = %12 to %11 step %9 iter_args(%17 = %10) -> (f32) {
// CHECK-NEXT:       %18 = arith.addi %14, %16 : index
// CHECK-NEXT:       %19 = memref.load %0[%18] : memref<512xf32>
// CHECK-NEXT:       %20 = arith.addf %17, %19 fastmath<reassoc> : f32
// CHECK-NEXT:       scf.yield %20 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     memref.store %15, %1[%13] : memref<8xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
// CHECK: buf.dispatch @loops0 workgroups = [1, 1, 1] attributes {buf.bytes_moved = 2080 : i64, buf.flops = {{[0-9]+}} : i64} (%x, %2) : memref<8x64xf32>, memref<8xf32>

// -----

// Column sums: the parallel loop is innermost, and an array holds an accumulator for each of its points.
func.func @columns(%x: tensor<64x32xf32>) -> tensor<32xf32> {
  %0 = tg.sum %x axes = [0] : tensor<64x32xf32>
  func.return %0 : tensor<32xf32>
}
// CHECK:      cpu.kernel @loops0 access = ["read", "read_write"] {
// CHECK-NEXT: ^bb0(%0: memref<2048xf32>, %1: memref<32xf32>, %2: index, %3: index):
// CHECK-NEXT:   %4 = memref.alloca() : memref<32xf32>
// CHECK-NEXT:   %5 = arith.constant 32 : index
// CHECK-NEXT:   %6 = arith.muli %2, %5 : index
// CHECK-NEXT:   %7 = arith.muli %3, %5 : index
// CHECK-NEXT:   %8 = arith.constant 1 : index
// CHECK-NEXT:   %9 = arith.minui %7, %8 : index
// CHECK-NEXT:   %10 = arith.constant 0 : index
// CHECK-NEXT:   %11 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:   %12 = arith.constant 64 : index
// CHECK-NEXT:   scf.for %13 = %6 to %9 step %8 {
// CHECK-NEXT:     scf.for %14 = %10 to %5 step %8 {
// CHECK-NEXT:       %15 = arith.subi %14, %10 : index
// CHECK-NEXT:       memref.store %11, %4[%15] : memref<32xf32>
// CHECK-NEXT:     } {cpu.parallel}
// CHECK-NEXT:     scf.for %16 = %10 to %12 step %8 {
// CHECK-NEXT:       %17 = arith.muli %16, %5 : index
// CHECK-NEXT:       scf.for %18 = %10 to %5 step %8 {
// CHECK-NEXT:         %19 = arith.subi %18, %10 : index
// CHECK-NEXT:         %20 = arith.addi %18, %17 : index
// CHECK-NEXT:         %21 = memref.load %0[%20] : memref<2048xf32>
// CHECK-NEXT:         %22 = memref.load %4[%19] : memref<32xf32>
// CHECK-NEXT:         %23 = arith.addf %22, %21 fastmath<reassoc> : f32
// CHECK-NEXT:         memref.store %23, %4[%19] : memref<32xf32>
// CHECK-NEXT:       } {cpu.parallel}
// CHECK-NEXT:     }
// CHECK-NEXT:     scf.for %24 = %10 to %5 step %8 {
// CHECK-NEXT:       %25 = arith.subi %24, %10 : index
// CHECK-NEXT:       %26 = memref.load %4[%25] : memref<32xf32>
// CHECK-NEXT:       memref.store %26, %1[%24] : memref<32xf32>
// CHECK-NEXT:     } {cpu.parallel}
// CHECK-NEXT:   }
// CHECK-NEXT: }
// CHECK: buf.dispatch @loops0 workgroups = [1, 1, 1] attributes {buf.bytes_moved = 8320 : i64, buf.flops = {{[0-9]+}} : i64} (%x, %2) : memref<64x32xf32>, memref<32xf32>

// -----

// Long rows are tiled into blocks of 16384 points; a task computes up to four.
func.func @blocks(%x: tensor<40000xf32>) -> tensor<40000xf32> {
  %0 = tg.neg %x : tensor<40000xf32>
  func.return %0 : tensor<40000xf32>
}
// CHECK:      cpu.kernel @loops0 access = ["read", "read_write"] {
// CHECK-NEXT: ^bb0(%0: memref<40000xf32>, %1: memref<40000xf32>, %2: index, %3: index):
// CHECK-NEXT:   %4 = arith.constant 4 : index
// CHECK-NEXT:   %5 = arith.muli %2, %4 : index
// CHECK-NEXT:   %6 = arith.muli %3, %4 : index
// CHECK-NEXT:   %7 = arith.constant 3 : index
// CHECK-NEXT:   %8 = arith.minui %6, %7 : index
// CHECK-NEXT:   %9 = arith.constant 1 : index
// CHECK-NEXT:   %10 = arith.constant 40000 : index
// CHECK-NEXT:   %11 = arith.constant 16384 : index
// CHECK-NEXT:   scf.for %12 = %5 to %8 step %9 {
// CHECK-NEXT:     %13 = arith.remui %12, %7 : index
// CHECK-NEXT:     %14 = arith.muli %13, %11 : index
// CHECK-NEXT:     %15 = arith.addi %14, %11 : index
// CHECK-NEXT:     %16 = arith.minui %15, %10 : index
// CHECK-NEXT:     scf.for %17 = %14 to %16 step %9 {
// CHECK-NEXT:       %18 = memref.load %0[%17] : memref<40000xf32>
// CHECK-NEXT:       %19 = arith.negf %18 : f32
// CHECK-NEXT:       memref.store %19, %1[%17] : memref<40000xf32>
// CHECK-NEXT:     } {cpu.parallel}
// CHECK-NEXT:   }
// CHECK-NEXT: }
// CHECK: buf.dispatch @loops0 workgroups = [1, 1, 1] attributes {buf.bytes_moved = 320000 : i64, buf.flops = {{[0-9]+}} : i64} (%x, %2) : memref<40000xf32>, memref<40000xf32>

// -----

// The maximum of floats is that of integers in the same order, which LLVM vectorizes in every loop.
func.func @largest(%x: tensor<8x64xf32>) -> tensor<8xf32> {
  %0 = tg.max %x axes = [1] : tensor<8x64xf32>
  func.return %0 : tensor<8xf32>
}
// CHECK:      cpu.kernel @loops0 access = ["read", "read_write"] {
// CHECK-NEXT: ^bb0(%0: memref<512xf32>, %1: memref<8xf32>, %2: index, %3: index):
// CHECK-NEXT:   %4 = arith.constant 1024 : index
// CHECK-NEXT:   %5 = arith.muli %2, %4 : index
// CHECK-NEXT:   %6 = arith.muli %3, %4 : index
// CHECK-NEXT:   %7 = arith.constant 8 : index
// CHECK-NEXT:   %8 = arith.minui %6, %7 : index
// CHECK-NEXT:   %9 = arith.constant 1 : index
// CHECK-NEXT:   %10 = arith.constant 0xff800000 : f32
// CHECK-NEXT:   %11 = arith.bitcast %10 : f32 to i32
// CHECK-NEXT:   %12 = arith.constant 31 : i32
// CHECK-NEXT:   %13 = arith.shrsi %11, %12 : i32
// CHECK-NEXT:   %14 = arith.constant 2147483647 : i32
// CHECK-NEXT:   %15 = arith.andi %13, %14 : i32
// CHECK-NEXT:   %16 = arith.xori %11, %15 : i32
// CHECK-NEXT:   %17 = arith.cmpf uno, %10, %10 : f32
// CHECK-NEXT:   %18 = arith.select %17, %14, %16 : i32
// CHECK-NEXT:   %19 = arith.constant 64 : index
// CHECK-NEXT:   %20 = arith.constant 0 : index
// CHECK-NEXT:   scf.for %21 = %5 to %8 step %9 {
// CHECK-NEXT:     %22 = arith.muli %21, %19 : index
// CHECK-NEXT:     %23 = scf.for %24 = %20 to %19 step %9 iter_args(%25 = %18) -> (i32) {
// CHECK-NEXT:       %26 = arith.addi %22, %24 : index
// CHECK-NEXT:       %27 = memref.load %0[%26] : memref<512xf32>
// CHECK-NEXT:       %28 = arith.bitcast %27 : f32 to i32
// CHECK-NEXT:       %29 = arith.shrsi %28, %12 : i32
// CHECK-NEXT:       %30 = arith.andi %29, %14 : i32
// CHECK-NEXT:       %31 = arith.xori %28, %30 : i32
// CHECK-NEXT:       %32 = arith.cmpf uno, %27, %27 : f32
// CHECK-NEXT:       %33 = arith.select %32, %14, %31 : i32
// CHECK-NEXT:       %34 = arith.maxsi %25, %33 : i32
// CHECK-NEXT:       scf.yield %34 : i32
// CHECK-NEXT:     }
// CHECK-NEXT:     %35 = arith.shrsi %23, %12 : i32
// CHECK-NEXT:     %36 = arith.andi %35, %14 : i32
// CHECK-NEXT:     %37 = arith.xori %23, %36 : i32
// CHECK-NEXT:     %38 = arith.bitcast %37 : i32 to f32
// CHECK-NEXT:     memref.store %38, %1[%21] : memref<8xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
// CHECK: buf.dispatch @loops0 workgroups = [1, 1, 1] attributes {buf.bytes_moved = 2080 : i64, buf.flops = {{[0-9]+}} : i64} (%x, %2) : memref<8x64xf32>, memref<8xf32>

// -----

// A reduction of few terms is unrolled, and folded in registers; the rows of the result are one loop.
func.func @pool(%x: tensor<4x12xf32>) -> tensor<4x6xf32> {
  %0 = tg.reshape %x shape = [4, 6, 2] : tensor<4x12xf32>
  %1 = tg.max %0 axes = [2] : tensor<4x6x2xf32>
  func.return %1 : tensor<4x6xf32>
}
// CHECK:      cpu.kernel @loops0 access = ["read", "read_write"] {
// CHECK-NEXT: ^bb0(%0: memref<48xf32>, %1: memref<24xf32>, %2: index, %3: index):
// CHECK-NEXT:   %4 = arith.constant 1365 : index
// CHECK-NEXT:   %5 = arith.muli %2, %4 : index
// CHECK-NEXT:   %6 = arith.muli %3, %4 : index
// CHECK-NEXT:   %7 = arith.constant 1 : index
// CHECK-NEXT:   %8 = arith.minui %6, %7 : index
// CHECK-NEXT:   %9 = arith.constant 0 : index
// CHECK-NEXT:   %10 = arith.constant 24 : index
// CHECK-NEXT:   %11 = arith.constant 0xff800000 : f32
// CHECK-NEXT:   %12 = arith.constant 2 : index
// CHECK-NEXT:   scf.for %13 = %5 to %8 step %7 {
// CHECK-NEXT:     scf.for %14 = %9 to %10 step %7 {
// CHECK-NEXT:       %15 = arith.muli %14, %12 : index
// CHECK-NEXT:       %16 = memref.load %0[%15] : memref<48xf32>
// CHECK-NEXT:       %17 = arith.maximumf %11, %16 : f32
// CHECK-NEXT:       %18 = arith.addi %15, %7 : index
// CHECK-NEXT:       %19 = memref.load %0[%18] : memref<48xf32>
// CHECK-NEXT:       %20 = arith.maximumf %17, %19 : f32
// CHECK-NEXT:       memref.store %20, %1[%14] : memref<24xf32>
// CHECK-NEXT:     } {cpu.parallel}
// CHECK-NEXT:   }
// CHECK-NEXT: }
// CHECK: buf.dispatch @loops0 workgroups = [1, 1, 1] attributes {buf.bytes_moved = 288 : i64, buf.flops = {{[0-9]+}} : i64} (%x, %2) : memref<4x12xf32>, memref<4x6xf32>

// -----

// An expensive value that two stages need is stored by the first: a softmax computes each exponential once.
func.func @kept(%x: tensor<8x64xf32>) -> tensor<8x64xf32> {
  %0 = tg.exp %x : tensor<8x64xf32>
  %1 = tg.sum %0 axes = [1] : tensor<8x64xf32>
  %2 = tg.broadcast %1 shape = [8, 64] dims = [0] : tensor<8xf32>
  %3 = tg.div %0, %2 : tensor<8x64xf32>, tensor<8x64xf32>
  func.return %3 : tensor<8x64xf32>
}
// CHECK:      cpu.kernel @loops0 access = ["read", "read_write"] {
// CHECK:        %[[ROW:[0-9]+]] = memref.alloca() : memref<64xf32>
// CHECK:        %[[SUM:[0-9]+]] = scf.for %[[I:[0-9]+]] = {{.*}} -> (f32) {
// CHECK:          %[[POWER:[0-9]+]] = math.exp
// CHECK-NEXT:     memref.store %[[POWER]], %[[ROW]][%[[I]]] : memref<64xf32>
// CHECK-NEXT:     arith.addf {{.*}}, %[[POWER]] fastmath<reassoc> : f32
// CHECK-NOT:    math.exp
// CHECK:        %[[AGAIN:[0-9]+]] = memref.load %[[ROW]][%[[J:[0-9]+]]] : memref<64xf32>
// CHECK-NEXT:   arith.divf %[[AGAIN]], %[[SUM]] : f32

// -----

// A cheap value is recomputed: storing and reloading it would cost as much.
func.func @again(%x: tensor<8x64xf32>) -> tensor<8x64xf32> {
  %0 = tg.mul %x, %x : tensor<8x64xf32>, tensor<8x64xf32>
  %1 = tg.sum %0 axes = [1] : tensor<8x64xf32>
  %2 = tg.broadcast %1 shape = [8, 64] dims = [0] : tensor<8xf32>
  %3 = tg.div %0, %2 : tensor<8x64xf32>, tensor<8x64xf32>
  func.return %3 : tensor<8x64xf32>
}
// CHECK:      cpu.kernel @loops0 access = ["read", "read_write"] {
// CHECK-NOT:    memref.alloca
// CHECK:        arith.mulf
// CHECK:        arith.mulf
// CHECK-NEXT:   arith.divf

// -----

// An element at a constant index is loaded before the loop, and what is computed from it too.
func.func @one_element(%table: tensor<1xf32>) -> tensor<8xf32> {
  %0 = tg.constant value = dense<0> : tensor<8xi32>
  %1 = tg.take %table, %0 axis = 0 : tensor<1xf32>, tensor<8xi32>
  %2 = tg.sqrt %1 : tensor<8xf32>
  func.return %2 : tensor<8xf32>
}
// CHECK:      cpu.kernel @loops0 access = ["read", "read_write"] {
// CHECK:        %11 = memref.load %0[%9] : memref<1xf32>
// CHECK-NEXT:   %12 = math.sqrt %11 : f32
// CHECK-NEXT:   scf.for %13 = %5 to %8 step %7 {
// CHECK-NEXT:     scf.for %14 = %9 to %10 step %7 {
// CHECK-NEXT:       memref.store %12, %1[%14] : memref<8xf32>
