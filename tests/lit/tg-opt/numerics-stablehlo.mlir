// StableHLO has no reference: values are compared from the level tg on, and again where a module comes back to it.
// RUN: tg-opt %s --verify-numerics-each | filecheck %s --check-prefix HLO
// HLO: stablehlo.sine
// RUN: tg-opt %s --verify-numerics-each -p stablehlo-to-tg,tg-to-stablehlo,stablehlo-to-tg,simplify | filecheck %s --check-prefix TG
// TG: tg.sin
// RUN: not tg-opt %s --load %S/Inputs/own_passes.py --verify-numerics-each -p stablehlo-to-tg,swap-differences 2>&1 | filecheck %s --check-prefix WRONG
// WRONG: tg-opt: error: swap-differences changes output/result0
func.func @f(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.sine %x : tensor<4xf32>
  %1 = stablehlo.subtract %0, %y : tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
