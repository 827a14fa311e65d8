// RUN: not tg-opt %s -p 'lower-tg-to-buf,buf-to-upstream' 2>&1 | filecheck %s

// Loops over kernels have no upstream equivalent: the pass rejects them by name, before anything has changed.
// CHECK: buf-to-upstream: buf.run cannot be translated: loops and branches exist only at buf
func.func @sums(%h: tensor<2xf32>, %x: tensor<8x2xf32>) -> tensor<2xf32> {
  %last = tg.scan () carry (%h) over (%x) length = 8 : (tensor<2xf32>, tensor<8x2xf32>) -> (tensor<2xf32>) {
  ^bb0(%h0: tensor<2xf32>, %x0: tensor<2xf32>):
    %0 = tg.add %h0, %x0 : tensor<2xf32>, tensor<2xf32>
    tg.return %0 : tensor<2xf32>
  }
  func.return %last : tensor<2xf32>
}
