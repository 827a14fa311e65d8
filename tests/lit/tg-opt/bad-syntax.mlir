// RUN: not tg-opt %s 2>&1 | filecheck %s

// CHECK: tg-opt: error: {{.*}}bad-syntax.mlir:8:15
// CHECK-NEXT: %0 = tg.exp %x : tensor<4xi32>
// CHECK: tg.exp: takes floats, not i32
// CHECK-NOT: Traceback
func.func @f(%x: tensor<4xi32>) {
  %0 = tg.exp %x : tensor<4xi32>
  func.return
}
