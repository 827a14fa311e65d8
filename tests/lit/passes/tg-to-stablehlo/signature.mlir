// RUN: tg-opt %s -t stablehlo | filecheck %s
// RUN: tg-opt %s -t stablehlo | tg-opt -p stablehlo-to-tg | filecheck %s --check-prefix BACK

// The only function is called main. Names and roles stay, and are read again.

// CHECK: func.func @main(%w: tensor<2xf32> {tg.name = "w", tg.role = "parameter"}) -> (tensor<2xf32> {tg.name = "w", tg.role = "update"}) {
// BACK: func.func @main(%w: tensor<2xf32> {tg.name = "w", tg.role = "parameter"}) -> (tensor<2xf32> {tg.name = "w", tg.role = "update"}) {
func.func @step(%w: tensor<2xf32> {tg.name = "w", tg.role = "parameter"}) -> (tensor<2xf32> {tg.name = "w", tg.role = "update"}) {
  %0 = tg.add %w, %w : tensor<2xf32>, tensor<2xf32>
  return %0 : tensor<2xf32>
}
