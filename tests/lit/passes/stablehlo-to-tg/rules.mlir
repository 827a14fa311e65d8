// RUN: tg-opt %s -p stablehlo-to-tg | filecheck %s

// What has a derivative of its own stays a call, whose body may have other such calls. Composites that are ops are these.
// CHECK-LABEL: func.func @ruled
// CHECK-NEXT: %{{.*}} = tg.call @tensorgrad.rule.1(%x) : (tensor<2xf32>) -> (tensor<2xf32>) {
// CHECK-NEXT: ^bb0(%{{.*}}: tensor<2xf32>):
// CHECK-NEXT:   %{{.*}} = tg.call @tensorgrad.rule.0(%{{.*}}) : (tensor<2xf32>) -> (tensor<2xf32>) {
// CHECK-NEXT:   ^bb0(%{{.*}}: tensor<2xf32>):
// CHECK-NEXT:     %{{.*}} = tg.sin %{{.*}} : tensor<2xf32>
// CHECK-NEXT:     tg.return %{{.*}} : tensor<2xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   tg.return %{{.*}} : tensor<2xf32>
// CHECK-NEXT: }
// CHECK-NEXT: %{{.*}} = tg.polygamma %{{.*}} order = 0 : tensor<2xf32>
func.func public @ruled(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.composite "tensorgrad.rule.1" %x {decomposition = @outer} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = stablehlo.composite "chlo.digamma" %0 {decomposition = @inner} : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
func.func private @outer(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.composite "tensorgrad.rule.0" %x {decomposition = @inner} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @inner(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.sine %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}
