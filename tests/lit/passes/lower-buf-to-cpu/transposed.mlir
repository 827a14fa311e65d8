// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu}' | filecheck %s
// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu' --verify-numerics-each --prove | filecheck %s --check-prefix CPU

// What is transposed is read in blocks of as many lines as the L1 holds, one after another along the lines.
func.func @transposed(%x: tensor<64x40xf32> {tg.name = "x", tg.role = "input"}) -> (tensor<40x64xf32> {tg.name = "y", tg.role = "output"}) {
  %0 = tg.transpose %x permutation = [1, 0] : tensor<64x40xf32>
  %1 = tg.exp %0 : tensor<40x64xf32>
  func.return %1 : tensor<40x64xf32>
}
// CHECK: schedule = #buf.schedule<loops, groups = [1, 1, 1], block = 16, blocks = 4096, turned = 1>

// The block is a quotient of the number by the rows, the row what remains.
// CPU: arith.remui %{{.*}}, %{{.*}} : index
// CPU: arith.divui %{{.*}}, %{{.*}} : index
