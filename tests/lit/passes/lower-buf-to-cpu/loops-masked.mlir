// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu{target="{\"language\": \"llvm\", \"vector_bytes\": 64}"}' | filecheck %s
// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu' | filecheck %s --check-prefix NARROW

// Of 31 iterations, 15 would run one by one behind the first vector, so vectors of AVX-512 are masked, unless their
// elements are no neighbours; 33 leave one. Masks of AVX2 are slow.
func.func @rows(%x: tensor<64x31xf32>, %y: tensor<64x33xf32>, %z: tensor<64x62xf32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) {
  %0 = tg.sum %x axes = [1] : tensor<64x31xf32>
  %1 = tg.sum %y axes = [1] : tensor<64x33xf32>
  %2 = tg.slice %z start = [0, 0] stop = [64, 62] step = [1, 2] : tensor<64x62xf32>
  %3 = tg.sum %2 axes = [1] : tensor<64x31xf32>
  func.return %0, %1, %3 : tensor<64xf32>, tensor<64xf32>, tensor<64xf32>
}
// CHECK:      cpu.kernel @loops0 access = ["read", "read", "read", "read_write", "read_write", "read_write"] {
// CHECK:        %22 = scf.for %23 = %16 to %15 step %13 iter_args(%24 = %14) -> (f32) {
// CHECK:        } {cpu.parallel, cpu.masked}
// CHECK:        %29 = scf.for %30 = %16 to %17 step %13 iter_args(%31 = %14) -> (f32) {
// CHECK:          scf.yield %34 : f32
// CHECK-NEXT:   }
// CHECK:        %36 = scf.for %37 = %16 to %15 step %13 iter_args(%38 = %14) -> (f32) {
// CHECK:          scf.yield %42 : f32
// CHECK-NEXT:   }
// NARROW-NOT: cpu.masked
