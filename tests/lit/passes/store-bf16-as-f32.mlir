// RUN: tg-opt %s -p 'widen-bf16,lower-tg-to-buf,store-bf16-as-f32,fuse' | filecheck %s
// RUN: tg-opt %s -p 'widen-bf16{target=cpu},lower-tg-to-buf{target=cpu},store-bf16-as-f32{target=cpu},fuse{target=cpu}' | filecheck %s --check-prefix NATIVE
// RUN: not tg-opt %s -p 'widen-bf16,lower-tg-to-buf,fuse,schedule,plan-memory,lower-buf-to-wgsl' 2>&1 | filecheck %s --check-prefix ERROR

// ERROR: 'x' has elements of bf16, which webgpu-default does not have; {{.*}}; cast it to f32

// Buffers are f32, which slots record; constants are converted; what is rounded is extended at once.
func.func @doubled(%x: tensor<3xbf16> {tg.name = "x", tg.role = "input"}) -> (tensor<3xbf16> {tg.name = "y", tg.role = "output"}) {
  %0 = tg.constant value = dense<[1.0, 2.0, 3.0]> : tensor<3xbf16>
  %1 = tg.add %x, %0 : tensor<3xbf16>, tensor<3xbf16>
  func.return %1 : tensor<3xbf16>
}
// CHECK-LABEL: func.func @doubled(
// CHECK-SAME: %x: memref<3xf32> {tg.name = "x", tg.role = "input", tg.dtype = "bf16"}
// CHECK-SAME: memref<3xf32> {tg.name = "constant0", tg.role = "constant", tg.value = dense<[1.000000e+00, 2.000000e+00, 3.000000e+00]> : tensor<3xf32>}
// CHECK-SAME: memref<3xf32> {tg.name = "y", tg.role = "output", tg.dtype = "bf16"}
// CHECK:      ^bb0(%[[X:.*]]: f32, %[[C:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT:   %[[SUM:.*]] = arith.addf %[[X]], %[[C]] : f32
// CHECK-NEXT:   %[[LOW:.*]] = arith.truncf %[[SUM]] : f32 to bf16
// CHECK-NEXT:   %[[HIGH:.*]] = arith.extf %[[LOW]] : bf16 to f32
// CHECK-NEXT:   linalg.yield %[[HIGH]] : f32

// NATIVE-LABEL: func.func @doubled(
// NATIVE-SAME: %x: memref<3xbf16> {tg.name = "x", tg.role = "input"}
// NATIVE:      arith.extf %{{.*}} : bf16 to f32
// NATIVE:      arith.truncf %{{.*}} : f32 to bf16
