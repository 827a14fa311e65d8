// RUN: not tg-opt %s --prove 2>&1 | filecheck %s
// RUN: sed 's/%4\[256\]/%4[512]/' %s | tg-opt --prove -o %t 2>&1 | filecheck %s --check-prefix RIGHT

// Memory that a kernel reads, by a buffer that was written, holds what was written there: here %z lies in a part of %y.
// CHECK: memory plan of @overwritten: the kernel at {{.*}}mlir:31 reads operand 0 from memory that no longer holds it: the kernel at {{.*}}mlir:23 wrote there, in bytes 0 to 512 of the arena 'workspace', as another buffer
// RIGHT: memory plan of @overwritten proved
func.func @overwritten() {
  %0 = buf.arena "inputs" role = "input" : memref<512xi8>
  %x = buf.view %0[0] attributes {tg.name = "x", tg.role = "input"} : memref<512xi8> to memref<128xf32>
  %1 = buf.arena "outputs" role = "output" : memref<512xi8>
  %o = buf.view %1[0] attributes {tg.name = "o", tg.role = "output"} : memref<512xi8> to memref<128xf32>
  %4 = buf.arena "workspace" role = "workspace" : memref<1024xi8>
  %y = buf.view %4[0] : memref<1024xi8> to memref<128xf32>
  %z = buf.view %4[256] : memref<1024xi8> to memref<128xf32>
  buf.kernel grid = [128] ins(%x : memref<128xf32>) outs(%y : memref<128xf32>) {
  ^bb0(%a: memref<128xf32>, %b: memref<128xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : memref<128xf32>) outs(%b : memref<128xf32>) {
    ^bb1(%p: f32, %q: f32):
      %r = arith.addf %p, %p : f32
      linalg.yield %r : f32
    }
  }
  buf.kernel grid = [128] ins(%x : memref<128xf32>) outs(%z : memref<128xf32>) {
  ^bb0(%a: memref<128xf32>, %b: memref<128xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : memref<128xf32>) outs(%b : memref<128xf32>) {
    ^bb1(%p: f32, %q: f32):
      %r = arith.mulf %p, %p : f32
      linalg.yield %r : f32
    }
  }
  buf.kernel grid = [128] ins(%y, %z : memref<128xf32>, memref<128xf32>) outs(%o : memref<128xf32>) {
  ^bb0(%a: memref<128xf32>, %c: memref<128xf32>, %b: memref<128xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a, %c : memref<128xf32>, memref<128xf32>) outs(%b : memref<128xf32>) {
    ^bb1(%p: f32, %s: f32, %q: f32):
      %r = arith.addf %p, %s : f32
      linalg.yield %r : f32
    }
  }
  func.return
}
