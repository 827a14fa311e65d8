// RUN: not %bin/tg-opt %s 2>&1 | filecheck %s

// The verifier's message, followed by the invalid op and its line.
// CHECK: tg-opt: error: result is tensor<5xf32>, expected tensor<4xf32>
// CHECK-NEXT: %0 = "tg.exp"(%x) : (tensor<4xf32>) -> tensor<5xf32>
// CHECK-NEXT: at {{.*}}bad-op.mlir:9
// CHECK-NOT: func.func
func.func @f(%x: tensor<4xf32>) {
  %0 = "tg.exp"(%x) : (tensor<4xf32>) -> tensor<5xf32>
  func.return
}
