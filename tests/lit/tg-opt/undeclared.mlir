// An undefined value is reported at its first use.
// RUN: not tg-opt %s 2>&1 | filecheck %s
// CHECK: tg-opt: error: {{.*}}undeclared.mlir:8:15
// CHECK-NEXT: %0 = tg.neg %y : tensor<4xf32>
// CHECK-NEXT: ^^
// CHECK-NEXT: use of undeclared SSA value %y
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tg.neg %y : tensor<4xf32>
  %1 = tg.add %0, %x : tensor<4xf32>, tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
