// RUN: tg-opt %s -p 'inference-pipeline{target="{\"max_storage_buffer_binding_size\": 300}"}' | filecheck %s
// RUN: tg-opt %s -p 'inference-pipeline{target="{\"max_storage_buffer_binding_size\": 300, \"max_storage_buffers_per_shader_stage\": 2}"}' | filecheck %s --check-prefix TWO
// RUN: not tg-opt %s -p 'inference-pipeline{target="{\"max_storage_buffer_binding_size\": 300, \"max_storage_buffers_per_shader_stage\": 1}"}' 2>&1 | filecheck %s --check-prefix FEW

// Each buffer exceeds the binding size limit of 300 bytes and takes two bindings. The second starts at byte 256, the
// largest aligned offset within the limit.
func.func @flip(%x: tensor<100xf32>) -> tensor<100xf32> {
  %0 = tg.reverse %x axes = [0] : tensor<100xf32>
  func.return %0 : tensor<100xf32>
}
// CHECK: access = ["read", "read", "read_write", "read_write"] {
// CHECK-NEXT: ^bb0(%0: memref<64xf32>, %1: memref<36xf32>, %2: memref<64xf32>, %3: memref<36xf32>):
// CHECK: %11 = arith.constant 64 : index
// CHECK-NEXT: %12 = arith.cmpi ult, %10, %11 : index
// CHECK-NEXT: %13 = scf.if %12 -> (f32) {
// CHECK-NEXT:   %14 = memref.load %0[%10] : memref<64xf32>
// CHECK-NEXT:   scf.yield %14 : f32
// CHECK-NEXT: } else {
// CHECK-NEXT:   %15 = arith.subi %10, %11 : index
// CHECK-NEXT:   %16 = memref.load %1[%15] : memref<36xf32>
// CHECK-NEXT:   scf.yield %16 : f32
// CHECK-NEXT: }
// CHECK: scf.if %18 {
// CHECK-NEXT:   memref.store %13, %2[%4] : memref<64xf32>
// CHECK-NEXT: } else {
// CHECK-NEXT:   %19 = arith.subi %4, %17 : index
// CHECK-NEXT:   memref.store %13, %3[%19] : memref<36xf32>
// CHECK-NEXT: }
// CHECK: %1 = buf.view %0[256] : memref<400xi8> to memref<36xf32>
// CHECK: %2 = buf.view %0[0] : memref<400xi8> to memref<64xf32>
// CHECK: buf.dispatch @thread0 {{.*}} (%2, %1, %5, %4) : memref<64xf32>, memref<36xf32>, memref<64xf32>, memref<36xf32>
// With two bindings per dispatch, the grid is divided into parts, which bind one window of each buffer.
// TWO-COUNT-3: access = ["read", "read_write"] {
// TWO: buf.dispatch @thread0 {{.*}} : memref<36xf32>, memref<36xf32>
// TWO-NEXT: buf.dispatch @thread1 {{.*}} : memref<64xf32>, memref<75xf32>
// TWO-NEXT: buf.dispatch @thread2 {{.*}} : memref<25xf32>, memref<36xf32>
// A single binding is too few to read one buffer and write another.
// FEW: tg-opt: error: lower-buf-to-wgsl: the kernel made at
// FEW-SAME: needs 3 bindings, custom has 1; 'arg0' alone takes 2, for its 400 bytes
