// RUN: tg-opt %s --split-input-file -p 'lower-tg-to-buf,fuse,plan-memory,schedule,lower-buf-to-wgsl' | filecheck %s

// 64 chunks of 16 terms: a block has 16 chunks. Both loops over chunks carry the sums of the two columns of a thread.
func.func @product(%a: tensor<128x1024xf32>, %b: tensor<1024x256xf32>) -> tensor<128x256xf32> {
  %0 = tg.dot_general %a, %b lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<128x1024xf32>, tensor<1024x256xf32>
  func.return %0 : tensor<128x256xf32>
}
// CHECK:      wgsl.kernel @contraction0
// CHECK-DAG:    %[[CHUNKS:.*]] = arith.constant 64 : index
// CHECK-DAG:    %[[WIDTH:.*]] = arith.constant 16 : index
// CHECK-DAG:    %[[ONE:.*]] = arith.constant 1 : index
// CHECK-DAG:    %[[NONE:.*]] = arith.constant 0.000000e+00 : f32
// CHECK:        %{{.*}}, %{{.*}} = scf.for %[[BLOCK:.*]] = %{{.*}} to %[[CHUNKS]] step %[[WIDTH]] iter_args(%[[X:.*]] = %[[NONE]], %[[Y:.*]] = %[[NONE]]) -> (f32, f32) {
// CHECK-NEXT:     %[[END:.*]] = arith.addi %[[BLOCK]], %[[WIDTH]] : index
// CHECK-NEXT:     %[[PX:.*]], %[[PY:.*]] = scf.for %{{.*}} = %[[BLOCK]] to %[[END]] step %[[ONE]] iter_args(%[[HX:.*]] = %[[NONE]], %[[HY:.*]] = %[[NONE]]) -> (f32, f32) {
// CHECK:            wgsl.barrier
// CHECK:            %{{.*}}, %{{.*}} = scf.for %{{.*}} iter_args(%{{.*}} = %[[HX]], %{{.*}} = %[[HY]]) -> (f32, f32) {
// CHECK:            wgsl.barrier
// CHECK:          } {buf.most_trips = 16 : i64}
// CHECK-NEXT:     %[[SX:.*]] = arith.addf %[[X]], %[[PX]] : f32
// CHECK-NEXT:     %[[SY:.*]] = arith.addf %[[Y]], %[[PY]] : f32
// CHECK-NEXT:     scf.yield %[[SX]], %[[SY]] : f32, f32
// CHECK-NEXT:   } {buf.most_trips = 4 : i64}

// -----

// A sum of 40,009 terms: 157 blocks are more than are added one after another, so there are blocks of 13 blocks.
func.func @columns(%x: tensor<40009x1600xf32>) -> tensor<1600xf32> {
  %0 = tg.sum %x axes = [0] : tensor<40009x1600xf32>
  func.return %0 : tensor<1600xf32>
}
// CHECK:      wgsl.kernel @thread0
// CHECK-DAG:    %[[TERMS:.*]] = arith.constant 40009 : index
// CHECK-DAG:    %[[OUTER:.*]] = arith.constant 3328 : index
// CHECK-DAG:    %[[INNER:.*]] = arith.constant 256 : index
// CHECK:        scf.for %[[FIRST:.*]] = %{{.*}} to %[[TERMS]] step %[[OUTER]] iter_args
// CHECK-NEXT:     %[[LEFT:.*]] = arith.subi %[[TERMS]], %[[FIRST]] : index
// CHECK-NEXT:     %[[COUNT:.*]] = arith.minui %[[LEFT]], %[[OUTER]] : index
// CHECK-NEXT:     %[[STOP:.*]] = arith.addi %[[FIRST]], %[[COUNT]] : index
// CHECK-NEXT:     scf.for %[[SECOND:.*]] = %[[FIRST]] to %[[STOP]] step %[[INNER]] iter_args
// CHECK:            scf.for %{{.*}} = %[[SECOND]] to %{{.*}} step %{{.*}} iter_args
// CHECK:            } {buf.most_trips = 256 : i64}
// CHECK:          } {buf.most_trips = 13 : i64}
// CHECK:        } {buf.most_trips = 13 : i64}
