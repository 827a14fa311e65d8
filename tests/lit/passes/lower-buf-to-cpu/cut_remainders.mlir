// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu' | filecheck %s
// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu{target="{\"language\": \"llvm\", \"vector_bytes\": 64}"}' | filecheck %s --check-prefix MASKED

// Masks of AVX2 are slow: a row of 10 is a vector of 8, and two elements. With AVX-512 the loop is marked instead.
func.func @points(%x: tensor<100x10xf32>, %b: tensor<10xf32>) -> tensor<100x10xf32> {
  %0 = tg.broadcast %b shape = [100, 10] dims = [1] : tensor<10xf32>
  %1 = tg.add %x, %0 : tensor<100x10xf32>, tensor<100x10xf32>
  func.return %1 : tensor<100x10xf32>
}
// CHECK:      cpu.kernel @loops0
// CHECK:      %[[EIGHT:[0-9]+]] = arith.constant 8 : index
// CHECK:        scf.for %[[AT:[0-9]+]] = %{{[0-9]+}} to %[[EIGHT]] step %{{[0-9]+}} {
// CHECK:          memref.load %1[%[[AT]]]
// CHECK:        } {cpu.parallel}
// CHECK:        memref.load %1[%[[EIGHT]]]
// CHECK:        memref.store
// CHECK:        %[[NINE:[0-9]+]] = arith.constant 9 : index
// CHECK:        memref.load %1[%[[NINE]]]
// CHECK:        memref.store
// MASKED:     cpu.kernel @loops0
// MASKED:     %[[TEN:[0-9]+]] = arith.constant 10 : index
// MASKED:       scf.for %{{[0-9]+}} = %{{[0-9]+}} to %[[TEN]] step
// MASKED:       } {cpu.parallel, cpu.masked}
