// RUN: TG_ROUNDTRIP

func.func @collectives(%x: tensor<8x3xf32>) {
  %0 = tg.all_reduce %x reduction = "max" size = 4 : tensor<8x3xf32>
  %1 = tg.reduce_scatter %x axis = 0 size = 4 : tensor<8x3xf32>
  %2 = tg.all_gather %1 axis = 1 size = 4 : tensor<2x3xf32>
  %3 = tg.collective_broadcast %2 root = 3 size = 4 : tensor<2x12xf32>
  func.return
}
// CHECK-LABEL: func.func @collectives(
// CHECK-NEXT:   %0 = tg.all_reduce %x reduction = "max" size = 4 : tensor<8x3xf32>
// CHECK-NEXT:   %1 = tg.reduce_scatter %x axis = 0 size = 4 : tensor<8x3xf32>
// CHECK-NEXT:   %2 = tg.all_gather %1 axis = 1 size = 4 : tensor<2x3xf32>
// CHECK-NEXT:   %3 = tg.collective_broadcast %2 root = 3 size = 4 : tensor<2x12xf32>
// CHECK-NEXT:   func.return
