// RUN: not tg-opt %s --verify-numerics-each -p simplify 2>&1 | filecheck %s
// CHECK: tg-opt: error: there is not enough memory for this: Unable to allocate
func.func @f(%x: tensor<1000000000000000xf32>) -> tensor<1000000000000000xf32> {
  %0 = tg.neg %x : tensor<1000000000000000xf32>
  func.return %0 : tensor<1000000000000000xf32>
}
