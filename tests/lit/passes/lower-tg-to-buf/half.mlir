// RUN: tg-opt %s -p 'lower-tg-to-buf' | filecheck %s
// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse' | filecheck %s --check-prefix FUSED

// A sum of f16 accumulates in f32; after fusion, the truncation is part of the same kernel.
// CHECK-LABEL: func.func @half
// CHECK:       memref.alloc() : memref<4xf32>
// CHECK:       arith.extf
// CHECK:       arith.addf %{{[0-9]+}}, %{{[0-9]+}} : f32
// CHECK:       buf.kernel
// CHECK:       arith.truncf %{{[0-9]+}} : f32 to f16
// FUSED-LABEL: func.func @half
// FUSED:       buf.kernel
// FUSED-NOT:   buf.kernel
// FUSED:       memref.alloca() : memref<4xf32>
// FUSED-NOT:   buf.kernel
// FUSED:       func.return
func.func @half(%x: tensor<4x3xf16>) -> tensor<4xf16> {
  %0 = tg.sum %x axes = [1] : tensor<4x3xf16>
  func.return %0 : tensor<4xf16>
}
