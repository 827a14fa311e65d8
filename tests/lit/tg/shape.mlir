// RUN: TG_ROUNDTRIP

func.func @moved(%x: tensor<4x3xf32>) -> (tensor<2x6xf32>, tensor<3x4xf32>, tensor<4x3xf32>) {
  %reshaped = tg.reshape %x shape = [2, 6] : tensor<4x3xf32>
  %transposed = tg.transpose %x permutation = [1, 0] : tensor<4x3xf32>
  %reversed = tg.reverse %x axes = [0, 1] : tensor<4x3xf32>
  func.return %reshaped, %transposed, %reversed : tensor<2x6xf32>, tensor<3x4xf32>, tensor<4x3xf32>
}
// CHECK-LABEL: func.func @moved(
// CHECK-SAME: %x: tensor<4x3xf32>) -> (tensor<2x6xf32>, tensor<3x4xf32>, tensor<4x3xf32>) {
// CHECK-NEXT:   %reshaped = tg.reshape %x shape = [2, 6] : tensor<4x3xf32>
// CHECK-NEXT:   %transposed = tg.transpose %x permutation = [1, 0] : tensor<4x3xf32>
// CHECK-NEXT:   %reversed = tg.reverse %x axes = [0, 1] : tensor<4x3xf32>
// CHECK-NEXT:   func.return %reshaped, %transposed, %reversed : tensor<2x6xf32>, tensor<3x4xf32>, tensor<4x3xf32>
// CHECK-NEXT: }

func.func @broadcasts(%s: tensor<f32>, %v: tensor<3xf32>) -> (tensor<2x3xf32>, tensor<4x3xf32>) {
  %scalar = tg.broadcast %s shape = [2, 3] dims = [] : tensor<f32>
  %vector = tg.broadcast %v shape = [4, 3] dims = [1] : tensor<3xf32>
  func.return %scalar, %vector : tensor<2x3xf32>, tensor<4x3xf32>
}
// CHECK-LABEL: func.func @broadcasts(
// CHECK-SAME: %s: tensor<f32>, %v: tensor<3xf32>) -> (tensor<2x3xf32>, tensor<4x3xf32>) {
// CHECK-NEXT:   %scalar = tg.broadcast %s shape = [2, 3] dims = [] : tensor<f32>
// CHECK-NEXT:   %vector = tg.broadcast %v shape = [4, 3] dims = [1] : tensor<3xf32>
// CHECK-NEXT:   func.return %scalar, %vector : tensor<2x3xf32>, tensor<4x3xf32>
// CHECK-NEXT: }

// The extent of a strided slice is rounded up: stride 3 takes the indices 0 and 3 of four.
func.func @windows(%x: tensor<4x3xf32>, %zero: tensor<f32>) -> (tensor<2x1xf32>, tensor<8x5xf32>) {
  %part = tg.slice %x start = [0, 1] stop = [4, 2] step = [3, 1] : tensor<4x3xf32>
  %padded = tg.pad %x, %zero low = [1, 0] high = [0, 2] interior = [1, 0] : tensor<4x3xf32>, tensor<f32>
  func.return %part, %padded : tensor<2x1xf32>, tensor<8x5xf32>
}
// CHECK-LABEL: func.func @windows(
// CHECK-SAME: %x: tensor<4x3xf32>, %zero: tensor<f32>) -> (tensor<2x1xf32>, tensor<8x5xf32>) {
// CHECK-NEXT:   %part = tg.slice %x start = [0, 1] stop = [4, 2] step = [3, 1] : tensor<4x3xf32>
// CHECK-NEXT:   %padded = tg.pad %x, %zero low = [1, 0] high = [0, 2] interior = [1, 0] : tensor<4x3xf32>, tensor<f32>
// CHECK-NEXT:   func.return %part, %padded : tensor<2x1xf32>, tensor<8x5xf32>
// CHECK-NEXT: }

func.func @joined(%x: tensor<4x3xf32>, %y: tensor<4x5xf32>) -> (tensor<4x11xf32>, tensor<8x3xf32>) {
  %columns = tg.concat %x, %y, %x axis = 1 : tensor<4x3xf32>, tensor<4x5xf32>, tensor<4x3xf32>
  %rows = tg.concat %x, %x axis = 0 : tensor<4x3xf32>, tensor<4x3xf32>
  func.return %columns, %rows : tensor<4x11xf32>, tensor<8x3xf32>
}
// CHECK-LABEL: func.func @joined(
// CHECK-SAME: %x: tensor<4x3xf32>, %y: tensor<4x5xf32>) -> (tensor<4x11xf32>, tensor<8x3xf32>) {
// CHECK-NEXT:   %columns = tg.concat %x, %y, %x axis = 1 : tensor<4x3xf32>, tensor<4x5xf32>, tensor<4x3xf32>
// CHECK-NEXT:   %rows = tg.concat %x, %x axis = 0 : tensor<4x3xf32>, tensor<4x3xf32>
// CHECK-NEXT:   func.return %columns, %rows : tensor<4x11xf32>, tensor<8x3xf32>
// CHECK-NEXT: }

func.func @packed(%x: tensor<4x3xf32>, %y: tensor<5xf32>) -> tensor<128xf32> {
  %row = tg.pack %x, %y offsets = [0, 64] size = 128 : tensor<4x3xf32>, tensor<5xf32>
  func.return %row : tensor<128xf32>
}
// CHECK-LABEL: func.func @packed(
// CHECK-NEXT:   %row = tg.pack %x, %y offsets = [0, 64] size = 128 : tensor<4x3xf32>, tensor<5xf32>
// CHECK-NEXT:   func.return %row : tensor<128xf32>
// CHECK-NEXT: }
