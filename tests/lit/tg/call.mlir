// RUN: TG_ROUNDTRIP

func.func @f(%a: tensor<4xf32>, %n: tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>) {
  %0, %1 = tg.call @g(%a, %n) : (tensor<4xf32>, tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>) {
  ^bb0(%x: tensor<4xf32>, %m: tensor<4xi32>):
    %y = tg.exp %x : tensor<4xf32>
    tg.return %y, %m : tensor<4xf32>, tensor<4xi32>
  } wrt [0] forward {
  ^bb0(%x: tensor<4xf32>, %m: tensor<4xi32>):
    %y, %k = tg.call @g(%x, %m) recursive : (tensor<4xf32>, tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>) {
    ^bb0(%x2: tensor<4xf32>, %m2: tensor<4xi32>):
      %y2 = tg.exp %x2 : tensor<4xf32>
      tg.return %y2, %m2 : tensor<4xf32>, tensor<4xi32>
    }
    tg.return %y, %k, %y : tensor<4xf32>, tensor<4xi32>, tensor<4xf32>
  } backward {
  ^bb0(%y: tensor<4xf32>, %g: tensor<4xf32>):
    %d = tg.mul %y, %g : tensor<4xf32>, tensor<4xf32>
    tg.return %d : tensor<4xf32>
  }
  %2 = tg.call @h(%0) recompute : (tensor<4xf32>) -> (tensor<4xf32>) {
  ^bb0(%x: tensor<4xf32>):
    %y = tg.sin %x : tensor<4xf32>
    tg.return %y : tensor<4xf32>
  }
  func.return %2, %1 : tensor<4xf32>, tensor<4xi32>
}
// CHECK-LABEL: func.func @f(%a: tensor<4xf32>, %n: tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>) {
// CHECK-NEXT:   %0, %1 = tg.call @g(%a, %n) : (tensor<4xf32>, tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>) {
// CHECK-NEXT:   ^bb0(%x: tensor<4xf32>, %m: tensor<4xi32>):
// CHECK-NEXT:     %y = tg.exp %x : tensor<4xf32>
// CHECK-NEXT:     tg.return %y, %m : tensor<4xf32>, tensor<4xi32>
// CHECK-NEXT:   } wrt [0] forward {
// CHECK-NEXT:   ^bb0(%x_1: tensor<4xf32>, %m_1: tensor<4xi32>):
// CHECK-NEXT:     %y_1, %k = tg.call @g(%x_1, %m_1) recursive : (tensor<4xf32>, tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>) {
// CHECK-NEXT:     ^bb0(%x2: tensor<4xf32>, %m2: tensor<4xi32>):
// CHECK-NEXT:       %y2 = tg.exp %x2 : tensor<4xf32>
// CHECK-NEXT:       tg.return %y2, %m2 : tensor<4xf32>, tensor<4xi32>
// CHECK-NEXT:     }
// CHECK-NEXT:     tg.return %y_1, %k, %y_1 : tensor<4xf32>, tensor<4xi32>, tensor<4xf32>
// CHECK-NEXT:   } backward {
// CHECK-NEXT:   ^bb0(%y_2: tensor<4xf32>, %g: tensor<4xf32>):
// CHECK-NEXT:     %d = tg.mul %y_2, %g : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:     tg.return %d : tensor<4xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   %2 = tg.call @h(%0) recompute : (tensor<4xf32>) -> (tensor<4xf32>) {
// CHECK-NEXT:   ^bb0(%x: tensor<4xf32>):
// CHECK-NEXT:     %y = tg.sin %x : tensor<4xf32>
// CHECK-NEXT:     tg.return %y : tensor<4xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %2, %1 : tensor<4xf32>, tensor<4xi32>
// CHECK-NEXT: }

// A composite call names a higher-level operation; its body is the decomposition.
func.func @composite(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tg.call @square(%a) composite {power = 2 : i64} : (tensor<4xf32>) -> (tensor<4xf32>) {
  ^bb0(%x: tensor<4xf32>):
    %y = tg.mul %x, %x : tensor<4xf32>, tensor<4xf32>
    tg.return %y : tensor<4xf32>
  }
  func.return %0 : tensor<4xf32>
}
// CHECK-LABEL: func.func @composite
// CHECK-NEXT: tg.call @square(%a) composite {power = 2 : i64} : (tensor<4xf32>) -> (tensor<4xf32>) {
