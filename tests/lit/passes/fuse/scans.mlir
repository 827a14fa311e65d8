// RUN: tg-opt %s --split-input-file -p 'lower-tg-to-buf,fuse{target=cpu}' | filecheck %s
// RUN: tg-opt %s --split-input-file -p 'lower-tg-to-buf,fuse' | filecheck %s --check-prefix SHADERS

// Native code computes the guards of running maxima where it reads them, and what it folds: each term once.
func.func @extremes(%x: tensor<64x32xf32>, %y: tensor<2048x32xf32>) -> (tensor<64x32xf32>, tensor<2048x32xf32>) {
  %0 = tg.exp %y : tensor<2048x32xf32>
  %1 = tg.iota shape = [32, 32] axis = 0 element = i32
  %2 = tg.iota shape = [32, 32] axis = 1 element = i32
  %3 = tg.compare %1, %2 predicate = "ge" : tensor<32x32xi32>, tensor<32x32xi32>
  %4 = tg.broadcast %3 shape = [64, 32, 32] dims = [1, 2] : tensor<32x32xi1>
  %5 = tg.broadcast %x shape = [64, 32, 32] dims = [0, 2] : tensor<64x32xf32>
  %6 = tg.constant value = dense<0xff800000> : tensor<64x32x32xf32>
  %7 = tg.select %4, %5, %6 : tensor<64x32x32xi1>, tensor<64x32x32xf32>, tensor<64x32x32xf32>
  %8 = tg.max %7 axes = [2] : tensor<64x32x32xf32>
  %9 = tg.broadcast %3 shape = [2048, 32, 32] dims = [1, 2] : tensor<32x32xi1>
  %10 = tg.broadcast %0 shape = [2048, 32, 32] dims = [0, 2] : tensor<2048x32xf32>
  %11 = tg.constant value = dense<0xff800000> : tensor<2048x32x32xf32>
  %12 = tg.select %9, %10, %11 : tensor<2048x32x32xi1>, tensor<2048x32x32xf32>, tensor<2048x32x32xf32>
  %13 = tg.max %12 axes = [2] : tensor<2048x32x32xf32>
  func.return %8, %13 : tensor<64x32xf32>, tensor<2048x32xf32>
}
// CHECK-LABEL: func.func @extremes
// CHECK:         buf.kernel grid = [64, 32]
// CHECK:           arith.cmpi sge
// CHECK:           arith.maximumf
// CHECK:         buf.kernel grid = [2048, 32]
// CHECK:           math.exp
// CHECK:           arith.cmpi sge
// CHECK:           arith.maximumf
// CHECK-NOT:     buf.kernel
// CHECK:         func.return

// -----

// Work on the rows of a scan doesn't run between two of its points.
func.func @rows(%x: tensor<64xf32>, %y: tensor<32x4096xf32>) -> (tensor<32xf32>, tensor<32x4096xf32>) {
  %0 = tg.iota shape = [32, 64] axis = 0 element = i32
  %1 = tg.iota shape = [32, 64] axis = 1 element = i32
  %2 = tg.compare %0, %1 predicate = "ge" : tensor<32x64xi32>, tensor<32x64xi32>
  %3 = tg.broadcast %x shape = [32, 64] dims = [1] : tensor<64xf32>
  %4 = tg.constant value = dense<0.000000e+00> : tensor<32x64xf32>
  %5 = tg.select %2, %3, %4 : tensor<32x64xi1>, tensor<32x64xf32>, tensor<32x64xf32>
  %6 = tg.sum %5 axes = [1] : tensor<32x64xf32>
  %7 = tg.broadcast %6 shape = [32, 4096] dims = [0] : tensor<32xf32>
  %8 = tg.div %y, %7 : tensor<32x4096xf32>, tensor<32x4096xf32>
  func.return %6, %8 : tensor<32xf32>, tensor<32x4096xf32>
}
// CHECK-LABEL: func.func @rows
// CHECK:         buf.kernel grid = [32] ins
// CHECK:         buf.kernel grid = [32, 4096]
// SHADERS-LABEL: func.func @rows
// SHADERS:         buf.kernel grid = [32] ins
// SHADERS-NOT:     buf.kernel
// SHADERS:         func.return
