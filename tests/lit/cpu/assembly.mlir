// RUN: tg-opt %s -p 'inference-pipeline{target=cpu}' -t asm | filecheck %s

// The assembly has the function's label, whatever the instruction set.
// CHECK: loops0:
func.func @negated(%x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = tg.neg %x : tensor<64xf32>
  func.return %0 : tensor<64xf32>
}
