// The module is executed after every pass; a pass that changes a result is reported.
// RUN: %bin/tg-opt %s --verify-numerics-each -p 'training-pipeline{optimizer="sgd(0.1)" target=lavapipe}' | filecheck %s
// CHECK: wgsl.kernel
// RUN: not tg-opt %s --load %S/Inputs/own_passes.py --verify-numerics-each -p simplify,swap-differences,grad 2>&1 | filecheck %s --check-prefix WRONG
// WRONG: tg-opt: error: swap-differences changes output/result0, which is computed at {{.*}}: 1 of 1 elements, the first at [], is {{.*}} and was {{.*}} is allowed; the module before it is in {{.*}}swap-differences-{{.*}}.mlir, whose first line says how to run it again
func.func @loss(%w: tensor<4xf32> {tg.name = "w", tg.role = "parameter"}, %x: tensor<4xf32> {tg.name = "x", tg.role = "input"}) -> tensor<f32> {
  %0 = tg.sub %w, %x : tensor<4xf32>, tensor<4xf32>
  %1 = tg.exp %0 : tensor<4xf32>
  %2 = tg.sum %1 axes = [0] : tensor<4xf32>
  func.return %2 : tensor<f32>
}
