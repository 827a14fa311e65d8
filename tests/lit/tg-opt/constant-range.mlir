// A constant that its type can't hold is reported at its elements, not at the op after it.
// RUN: not tg-opt %s 2>&1 | filecheck %s
// CHECK: constant-range.mlir:6:
// CHECK: Integer value 300 is out of range for type i8
func.func @f() -> tensor<i8> {
  %0 = tg.constant value = dense<300> : tensor<i8>
  func.return %0 : tensor<i8>
}
