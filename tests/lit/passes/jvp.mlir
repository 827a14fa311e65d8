// RUN: tg-opt %s -p 'jvp{function=f},simplify' | filecheck %s
// RUN: tg-opt %s -p 'jvp{function=f wrt=1},simplify' | filecheck %s --check-prefix WRT
// RUN: not tg-opt %s -p 'jvp{function=f wrt=2}' 2>&1 | filecheck %s --check-prefix INTEGER
// RUN: not tg-opt %s -p 'jvp{function=f wrt=7}' 2>&1 | filecheck %s --check-prefix ABSENT
// RUN: not tg-opt %s -p 'jvp{function=f wrt=0,0}' 2>&1 | filecheck %s --check-prefix TWICE
// RUN: not tg-opt %s -p 'jvp{function=clipped}' 2>&1 | filecheck %s --check-prefix LINEAR
// INTEGER: argument 2 of @f is tensor<4xi32>: only floats have derivatives
// ABSENT: @f has no argument 7
// TWICE: wrt must be distinct positions of arguments, got [0, 0]
// LINEAR: forward mode needs a custom derivative that is linear in its cotangent

// Forward mode is reverse mode applied twice: after simplification, no cotangent is left.
func.func @f(%x: tensor<4xf32> {tg.name = "x", tg.role = "input"}, %y: tensor<4xf32> {tg.name = "y", tg.role = "input"}, %n: tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>, tensor<4xf32>) {
  %0 = tg.exp %x : tensor<4xf32>
  %1 = tg.mul %0, %y : tensor<4xf32>, tensor<4xf32>
  func.return %1, %n, %x : tensor<4xf32>, tensor<4xi32>, tensor<4xf32>
}
// CHECK: func.func @f({{.*}}, %0: tensor<4xf32> {tg.name = "tangent.x", tg.role = "input"}, %1: tensor<4xf32> {tg.name = "tangent.y", tg.role = "input"}) -> ({{.*}}, tensor<4xf32> {tg.name = "tangent.result0", tg.role = "output"}, tensor<4xf32> {tg.name = "tangent.result2", tg.role = "output"}) {
// CHECK-NEXT: %2 = tg.exp %x : tensor<4xf32>
// CHECK-NEXT: %3 = tg.mul %2, %y : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT: %4 = tg.mul %0, %2 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT: %5 = tg.mul %1, %2 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT: %6 = tg.mul %4, %y : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT: %7 = tg.add %5, %6 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT: func.return %3, %n, %x, %7, %0 :
// WRT: func.func @f({{.*}}, %0: tensor<4xf32> {tg.name = "tangent.y", tg.role = "input"}) ->
// WRT: %[[E:.*]] = tg.exp
// WRT: %[[Y:.*]] = tg.mul %[[E]], %y
// WRT: %[[T:.*]] = tg.mul %0, %[[E]]
// WRT: %[[ZERO:.*]] = tg.constant value = dense<0.000000e+00>
// WRT: func.return %[[Y]], %n, %x, %[[T]], %[[ZERO]]

func.func @clipped(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tg.call @id(%x) : (tensor<4xf32>) -> (tensor<4xf32>) {
  ^bb0(%a: tensor<4xf32>):
    tg.return %a : tensor<4xf32>
  } wrt [0] forward {
  ^bb0(%a: tensor<4xf32>):
    tg.return %a : tensor<4xf32>
  } backward {
  ^bb0(%g: tensor<4xf32>):
    %one = tg.constant value = dense<1.0> : tensor<4xf32>
    %m = tg.minimum %g, %one : tensor<4xf32>, tensor<4xf32>
    tg.return %m : tensor<4xf32>
  }
  func.return %0 : tensor<4xf32>
}
