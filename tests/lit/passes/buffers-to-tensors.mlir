// RUN: tg-opt %s --split-input-file -p 'lower-tg-to-buf,fuse,buf-to-upstream,buffers-to-tensors' | filecheck %s
// RUN: not tg-opt %s --split-input-file -p 'lower-tg-to-buf,fuse,buffers-to-tensors' 2>&1 | filecheck %s --check-prefix KERNELS
// RUN: not tg-opt %s --split-input-file -p 'lower-tg-to-buf,fuse,plan-memory,buf-to-upstream,buffers-to-tensors' 2>&1 | filecheck %s --check-prefix PLANNED

// KERNELS: buffers-to-tensors: buf.kernel is a kernel; run buf-to-upstream first
// PLANNED: buffers-to-tensors: memref.view is a range of another buffer, and tensors have none: leave plan-memory and pack-updates out

// The argument for the result becomes a result; the sum starts from a filled tensor, and a constant is no global.
// CHECK:       func.func @sum(%x: tensor<4x3xf32>) -> tensor<4xf32> {
// CHECK-NEXT:    %[[weights:[0-9]+]] = arith.constant dense<[1.000000e+00, 2.000000e+00, 3.000000e+00]> : tensor<3xf32>
// CHECK-NEXT:    %[[empty:[0-9]+]] = tensor.empty() : tensor<4xf32>
// CHECK-NEXT:    %[[zeros:[0-9]+]] = linalg.generic {{.*}} outs(%[[empty]] : tensor<4xf32>) {
// CHECK:         } -> tensor<4xf32>
// CHECK:         %[[sum:[0-9]+]] = linalg.generic {{.*}} ins(%x, %[[weights]] : tensor<4x3xf32>, tensor<3xf32>) outs(%[[zeros]] : tensor<4xf32>) {
// CHECK:         } -> tensor<4xf32>
// CHECK:         func.return %[[sum]] : tensor<4xf32>
func.func @sum(%x: tensor<4x3xf32>) -> tensor<4xf32> {
  %c = tg.constant value = dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %b = tg.broadcast %c shape = [4, 3] dims = [1] : tensor<3xf32>
  %0 = tg.mul %x, %b : tensor<4x3xf32>, tensor<4x3xf32>
  %1 = tg.sum %0 axes = [1] : tensor<4x3xf32>
  func.return %1 : tensor<4xf32>
}

// -----

// A load at a computed index extracts from the tensor that the buffer holds.
// CHECK:       func.func @rows(%x: tensor<4xf32>, %i: tensor<3xi32>) -> (tensor<3xf32>, tensor<4xf32>) {
// CHECK:         %[[exp:[0-9]+]] = linalg.generic {{.*}} ins(%x : tensor<4xf32>)
// CHECK:         tensor.extract %[[exp]][%{{[0-9]+}}] : tensor<4xf32>
// CHECK:         func.return %{{[0-9]+}}, %[[exp]] : tensor<3xf32>, tensor<4xf32>
func.func @rows(%x: tensor<4xf32>, %i: tensor<3xi32>) -> (tensor<3xf32>, tensor<4xf32>) {
  %0 = tg.exp %x : tensor<4xf32>
  %1 = tg.take %0, %i axis = 0 : tensor<4xf32>, tensor<3xi32>
  func.return %1, %0 : tensor<3xf32>, tensor<4xf32>
}
