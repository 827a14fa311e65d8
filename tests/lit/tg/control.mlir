// RUN: TG_ROUNDTRIP

func.func @f(%w: tensor<2xf32>, %h: tensor<2xf32>, %x: tensor<8x2xf32>, %p: tensor<i1>) -> (tensor<2xf32>, tensor<8x2xf32>) {
  %last, %all = tg.scan (%w) carry (%h) over (%x) length = 8 reverse : (tensor<2xf32>, tensor<2xf32>, tensor<8x2xf32>) -> (tensor<2xf32>, tensor<8x2xf32>) {
  ^bb0(%w0: tensor<2xf32>, %h0: tensor<2xf32>, %x0: tensor<2xf32>):
    %0 = tg.mul %w0, %h0 : tensor<2xf32>, tensor<2xf32>
    %1 = tg.add %0, %x0 : tensor<2xf32>, tensor<2xf32>
    tg.return %1, %0 : tensor<2xf32>, tensor<2xf32>
  }
  %none = tg.scan () carry (%h) over () length = 0 : (tensor<2xf32>) -> (tensor<2xf32>) {
  ^bb0(%h1: tensor<2xf32>):
    tg.return %h1 : tensor<2xf32>
  }
  %2 = tg.cond %p (%last, %none) : (tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>) {
  ^bb0(%a: tensor<2xf32>, %b: tensor<2xf32>):
    %3 = tg.exp %a : tensor<2xf32>
    tg.return %3 : tensor<2xf32>
  } else {
  ^bb0(%a: tensor<2xf32>, %b: tensor<2xf32>):
    tg.return %b : tensor<2xf32>
  }
  func.return %2, %all : tensor<2xf32>, tensor<8x2xf32>
}
// CHECK-LABEL: func.func @f(
// CHECK-NEXT:   %last, %all = tg.scan (%w) carry (%h) over (%x) length = 8 reverse : (tensor<2xf32>, tensor<2xf32>, tensor<8x2xf32>) -> (tensor<2xf32>, tensor<8x2xf32>) {
// CHECK-NEXT:   ^bb0(%w0: tensor<2xf32>, %h0: tensor<2xf32>, %x0: tensor<2xf32>):
// CHECK-NEXT:     %0 = tg.mul %w0, %h0 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:     %1 = tg.add %0, %x0 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:     tg.return %1, %0 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   %none = tg.scan () carry (%h) over () length = 0 : (tensor<2xf32>) -> (tensor<2xf32>) {
// CHECK:        %0 = tg.cond %p (%last, %none) : (tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>) {
// CHECK-NEXT:   ^bb0(%a: tensor<2xf32>, %b: tensor<2xf32>):
// CHECK-NEXT:     %1 = tg.exp %a : tensor<2xf32>
// CHECK-NEXT:     tg.return %1 : tensor<2xf32>
// CHECK-NEXT:   } else {
