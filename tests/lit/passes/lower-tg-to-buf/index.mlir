// RUN: tg-opt %s -p lower-tg-to-buf | filecheck %s

// An index that is out of range yields NaN, or 0 for integers, without a load.
func.func @take(%table: tensor<65x8xf32>, %i: tensor<2x3xi32>) -> tensor<2x3x8xf32> {
  %0 = tg.take %table, %i axis = 0 : tensor<65x8xf32>, tensor<2x3xi32>
  func.return %0 : tensor<2x3x8xf32>
}
// CHECK-LABEL: func.func @take(
// CHECK-SAME: %table: memref<65x8xf32> {tg.name = "arg0", tg.role = "input"}, %i: memref<2x3xi32> {tg.name = "arg1", tg.role = "input"}, %0: memref<2x3x8xf32> {tg.name = "result0", tg.role = "output"}) {
// CHECK-NEXT:   buf.kernel grid = [2, 3, 8] ins(%i, %table : memref<2x3xi32>, memref<65x8xf32>) outs(%0 : memref<2x3x8xf32>) {
// CHECK-NEXT:   ^bb0(%1: memref<2x3xi32>, %2: memref<65x8xf32>, %3: memref<2x3x8xf32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%1 : memref<2x3xi32>) outs(%3 : memref<2x3x8xf32>) {
// CHECK-NEXT:     ^bb0(%4: i32, %5: f32):
// CHECK-NEXT:       %6 = arith.constant 65 : i32
// CHECK-NEXT:       %7 = arith.cmpi ult, %4, %6 : i32
// CHECK-NEXT:       %8 = arith.constant 0x7fc00000 : f32
// CHECK-NEXT:       %9 = linalg.index 2 : index
// CHECK-NEXT:       %10 = scf.if %7 -> (f32) {
// CHECK-NEXT:         %11 = arith.index_cast %4 : i32 to index
// CHECK-NEXT:         %12 = memref.load %2[%11, %9] : memref<65x8xf32>
// CHECK-NEXT:         scf.yield %12 : f32
// CHECK-NEXT:       } else {
// CHECK-NEXT:         scf.yield %8 : f32
// CHECK-NEXT:       }
// CHECK-NEXT:       linalg.yield %10 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

// An index from 2^31 on is unsigned. A conversion to an index would extend its sign: it is converted in two parts.
func.func @take_from_many(%x: tensor<2147483649xi8>, %i: tensor<5xui32>) -> tensor<5xi8> {
  %0 = tg.take %x, %i axis = 0 : tensor<2147483649xi8>, tensor<5xui32>
  func.return %0 : tensor<5xi8>
}
// CHECK-LABEL: func.func @take_from_many(
// CHECK:       ^bb0(%[[I:.*]]: i32, %{{.*}}: i8):
// CHECK-NEXT:    %[[EXTENT:.*]] = arith.constant -2147483647 : i32
// CHECK-NEXT:    arith.cmpi ult, %[[I]], %[[EXTENT]] : i32
// CHECK:         %[[HALF:.*]] = arith.shrui %[[I]], %{{.*}} : i32
// CHECK-NEXT:    %[[PAIR:.*]] = arith.index_cast %[[HALF]] : i32 to index
// CHECK:         %[[EVEN:.*]] = arith.muli %[[PAIR]], %{{.*}} : index
// CHECK:         %[[BIT:.*]] = arith.andi %[[I]], %{{.*}} : i32
// CHECK-NEXT:    %[[ODD:.*]] = arith.index_cast %[[BIT]] : i32 to index
// CHECK-NEXT:    %[[AT:.*]] = arith.addi %[[EVEN]], %[[ODD]] : index
// CHECK-NEXT:    memref.load %{{.*}}[%[[AT]]] : memref<2147483649xi8>

// Up to that extent, and with indices of 64 bits, a number that is in range has no sign.
func.func @take_from_fewer(%x: tensor<2147483648xi8>, %i: tensor<5xui32>) -> tensor<5xi8> {
  %0 = tg.take %x, %i axis = 0 : tensor<2147483648xi8>, tensor<5xui32>
  func.return %0 : tensor<5xi8>
}
// CHECK-LABEL: func.func @take_from_fewer(
// CHECK:       ^bb0(%[[I:.*]]: i32, %{{.*}}: i8):
// CHECK:         %[[AT:.*]] = arith.index_cast %[[I]] : i32 to index
// CHECK-NEXT:    memref.load %{{.*}}[%[[AT]]] : memref<2147483648xi8>

func.func @take_long(%x: tensor<4x5000000000xi8>, %i: tensor<4x5xi64>) -> tensor<4x5xi8> {
  %0 = tg.take_along_axis %x, %i axis = 1 : tensor<4x5000000000xi8>, tensor<4x5xi64>
  func.return %0 : tensor<4x5xi8>
}
// CHECK-LABEL: func.func @take_long(
// CHECK:       ^bb0(%[[I:.*]]: i64, %{{.*}}: i8):
// CHECK-NEXT:    %[[EXTENT:.*]] = arith.constant 5000000000 : i64
// CHECK-NEXT:    arith.cmpi ult, %[[I]], %[[EXTENT]] : i64
// CHECK:         %[[AT:.*]] = arith.index_cast %[[I]] : i64 to index
// CHECK-NEXT:    memref.load %{{.*}}[%{{.*}}, %[[AT]]] : memref<4x5000000000xi8>

func.func @take_along_axis(%x: tensor<4x10xi32>, %i: tensor<4x2xi32>) -> tensor<4x2xi32> {
  %0 = tg.take_along_axis %x, %i axis = 1 : tensor<4x10xi32>, tensor<4x2xi32>
  func.return %0 : tensor<4x2xi32>
}
// CHECK-LABEL: func.func @take_along_axis(
// CHECK-SAME: %x: memref<4x10xi32> {tg.name = "arg0", tg.role = "input"}, %i: memref<4x2xi32> {tg.name = "arg1", tg.role = "input"}, %0: memref<4x2xi32> {tg.name = "result0", tg.role = "output"}) {
// CHECK-NEXT:   buf.kernel grid = [4, 2] ins(%i, %x : memref<4x2xi32>, memref<4x10xi32>) outs(%0 : memref<4x2xi32>) {
// CHECK-NEXT:   ^bb0(%1: memref<4x2xi32>, %2: memref<4x10xi32>, %3: memref<4x2xi32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%1 : memref<4x2xi32>) outs(%3 : memref<4x2xi32>) {
// CHECK-NEXT:     ^bb0(%4: i32, %5: i32):
// CHECK-NEXT:       %6 = arith.constant 10 : i32
// CHECK-NEXT:       %7 = arith.cmpi ult, %4, %6 : i32
// CHECK-NEXT:       %8 = arith.constant 0 : i32
// CHECK-NEXT:       %9 = linalg.index 0 : index
// CHECK-NEXT:       %10 = scf.if %7 -> (i32) {
// CHECK-NEXT:         %11 = arith.index_cast %4 : i32 to index
// CHECK-NEXT:         %12 = memref.load %2[%9, %11] : memref<4x10xi32>
// CHECK-NEXT:         scf.yield %12 : i32
// CHECK-NEXT:       } else {
// CHECK-NEXT:         scf.yield %8 : i32
// CHECK-NEXT:       }
// CHECK-NEXT:       linalg.yield %10 : i32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

// Each element has a single writer, which sums the updates whose index selects it: no atomics are needed.
func.func @scatter_add(%x: tensor<6x8xf32>, %i: tensor<6xi32>) -> tensor<65x8xf32> {
  %0 = tg.scatter_add %x, %i axis = 0 extent = 65 : tensor<6x8xf32>, tensor<6xi32>
  func.return %0 : tensor<65x8xf32>
}
// CHECK-LABEL: func.func @scatter_add(
// CHECK-SAME: %x: memref<6x8xf32> {tg.name = "arg0", tg.role = "input"}, %i: memref<6xi32> {tg.name = "arg1", tg.role = "input"}, %0: memref<65x8xf32> {tg.name = "result0", tg.role = "output"}) {
// CHECK-NEXT:   buf.kernel grid = [65, 8] ins(%i, %x : memref<6xi32>, memref<6x8xf32>) outs(%0 : memref<65x8xf32>) {
// CHECK-NEXT:   ^bb0(%1: memref<6xi32>, %2: memref<6x8xf32>, %3: memref<65x8xf32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%1 : memref<6xi32>) outs(%3 : memref<65x8xf32>) {
// CHECK-NEXT:     ^bb0(%4: i32, %5: f32):
// CHECK-NEXT:       %6 = linalg.index 0 : index
// CHECK-NEXT:       %7 = arith.index_cast %6 : index to i32
// CHECK-NEXT:       %8 = arith.cmpi eq, %4, %7 : i32
// CHECK-NEXT:       %9 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:       %10 = linalg.index 2 : index
// CHECK-NEXT:       %11 = linalg.index 1 : index
// CHECK-NEXT:       %12 = scf.if %8 -> (f32) {
// CHECK-NEXT:         %13 = memref.load %2[%10, %11] : memref<6x8xf32>
// CHECK-NEXT:         scf.yield %13 : f32
// CHECK-NEXT:       } else {
// CHECK-NEXT:         scf.yield %9 : f32
// CHECK-NEXT:       }
// CHECK-NEXT:       %14 = arith.addf %5, %12 : f32
// CHECK-NEXT:       linalg.yield %14 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

// A row with few indices is searched, however long it is: the gradient of a cross-entropy has one.
func.func @scatter_add_one_of_many(%x: tensor<4x1xf32>, %i: tensor<4x1xi32>) -> tensor<4x50000xf32> {
  %0 = tg.scatter_add_along_axis %x, %i axis = 1 extent = 50000 : tensor<4x1xf32>, tensor<4x1xi32>
  func.return %0 : tensor<4x50000xf32>
}
// CHECK-LABEL: func.func @scatter_add_one_of_many(
// CHECK-NEXT:   buf.kernel grid = [4, 50000] ins(%i, %x : memref<4x1xi32>, memref<4x1xf32>)
// CHECK-NOT:    buf.kernel
// CHECK:        func.return

func.func @scatter_add_along_axis(%x: tensor<4x2xf32>, %i: tensor<4x2xi32>) -> tensor<4x10xf32> {
  %0 = tg.scatter_add_along_axis %x, %i axis = 1 extent = 10 : tensor<4x2xf32>, tensor<4x2xi32>
  func.return %0 : tensor<4x10xf32>
}
// CHECK-LABEL: func.func @scatter_add_along_axis(
// CHECK-SAME: %x: memref<4x2xf32> {tg.name = "arg0", tg.role = "input"}, %i: memref<4x2xi32> {tg.name = "arg1", tg.role = "input"}, %0: memref<4x10xf32> {tg.name = "result0", tg.role = "output"}) {
// CHECK-NEXT:   buf.kernel grid = [4, 10] ins(%i, %x : memref<4x2xi32>, memref<4x2xf32>) outs(%0 : memref<4x10xf32>) {
// CHECK-NEXT:   ^bb0(%1: memref<4x2xi32>, %2: memref<4x2xf32>, %3: memref<4x10xf32>):
// CHECK-NEXT:     linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%1 : memref<4x2xi32>) outs(%3 : memref<4x10xf32>) {
// CHECK-NEXT:     ^bb0(%4: i32, %5: f32):
// CHECK-NEXT:       %6 = linalg.index 1 : index
// CHECK-NEXT:       %7 = arith.index_cast %6 : index to i32
// CHECK-NEXT:       %8 = arith.cmpi eq, %4, %7 : i32
// CHECK-NEXT:       %9 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:       %10 = linalg.index 0 : index
// CHECK-NEXT:       %11 = linalg.index 2 : index
// CHECK-NEXT:       %12 = scf.if %8 -> (f32) {
// CHECK-NEXT:         %13 = memref.load %2[%10, %11] : memref<4x2xf32>
// CHECK-NEXT:         scf.yield %13 : f32
// CHECK-NEXT:       } else {
// CHECK-NEXT:         scf.yield %9 : f32
// CHECK-NEXT:       }
// CHECK-NEXT:       %14 = arith.addf %5, %12 : f32
// CHECK-NEXT:       linalg.yield %14 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }
