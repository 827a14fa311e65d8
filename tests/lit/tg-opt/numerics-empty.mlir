// RUN: tg-opt %s --verify-numerics-each -p 'inference-pipeline{target=cpu}' 2>&1 | filecheck %s

// A parameter without elements has nothing to write, so that its update is no result of the planned module.
// CHECK-NOT: is not compared
// CHECK: buf.view {{.*}} {tg.name = "x", tg.role = "parameter"} : memref<8xi8> to memref<0xf32>
func.func @f(%x: tensor<0xf32> {tg.name = "x", tg.role = "parameter"}, %w: tensor<2xf32> {tg.name = "w", tg.role = "parameter"}) -> (tensor<0xf32> {tg.name = "x", tg.role = "update"}, tensor<2xf32> {tg.name = "w", tg.role = "update"}) {
  %0 = tg.exp %x : tensor<0xf32>
  %1 = tg.exp %w : tensor<2xf32>
  func.return %0, %1 : tensor<0xf32>, tensor<2xf32>
}
