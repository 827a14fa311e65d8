// RUN: tg-opt %s -p 'lower-tg-to-buf,plan-memory{target=cpu}' | filecheck %s
// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu' --verify-numerics-each | filecheck %s --check-prefix CPU

// Scalars are as far apart as the widest of them; those of one type are one binding, which a kernel reads by position.
func.func @scaled(
  %x: tensor<3xf64> {tg.name = "x", tg.role = "input"},
  %s: tensor<f64> {tg.name = "s", tg.role = "scalar", tg.formula = "momentum"},
  %t: tensor<f32> {tg.name = "t", tg.role = "scalar", tg.formula = "step"},
  %u: tensor<f64> {tg.name = "u", tg.role = "scalar", tg.formula = "learning_rate"}
) -> (tensor<3xf64> {tg.name = "y", tg.role = "output"}) {
  %0 = tg.broadcast %u shape = [3] dims = [] : tensor<f64>
  %1 = tg.broadcast %s shape = [3] dims = [] : tensor<f64>
  %2 = tg.mul %x, %0 : tensor<3xf64>, tensor<3xf64>
  %3 = tg.add %2, %1 : tensor<3xf64>, tensor<3xf64>
  func.return %3 : tensor<3xf64>
}
// CHECK: %s = buf.view %0[0]
// CHECK: %t = buf.view %0[8]
// CHECK: %u = buf.view %0[16]

// CPU: memref.load %0[{{.*}}] : memref<3xf64>
// CPU: buf.view %0[8] : memref<88xi8> to memref<1xf32>
// CPU: %2 = buf.view %0[0] : memref<88xi8> to memref<3xf64>
