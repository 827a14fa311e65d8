// RUN: tg-opt %s -p 'trace-optimizer{optimizer=sgd function=step},grad{function=step},append-updates{function=step},simplify,distribute{size=4 rank=1 function=step},simplify' | filecheck %s
// RUN: tg-opt %s -p 'distribute{size=2 rank=1 replicated=scale}' | filecheck %s --check-prefix WHOLE

// A batch of 8 examples is sharded over 4 processes, 2 each, and sums over the batch are all-reduced. An input that is
// replicated (WHOLE) is sliced where it is combined with sharded values.
func.func @step(%w: tensor<3x2xf32> {tg.name = "w", tg.role = "parameter"}, %b: tensor<2xf32> {tg.name = "b", tg.role = "parameter"}, %x: tensor<8x3xf32> {tg.name = "x", tg.role = "input"}, %scale: tensor<8x2xf32> {tg.name = "scale", tg.role = "input"}) -> (tensor<f32> {tg.name = "loss", tg.role = "output"}) {
  %0 = tg.dot_general %x, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<8x3xf32>, tensor<3x2xf32>
  %1 = tg.broadcast %b shape = [8, 2] dims = [1] : tensor<2xf32>
  %2 = tg.add %0, %1 : tensor<8x2xf32>, tensor<8x2xf32>
  %3 = tg.mul %2, %scale : tensor<8x2xf32>, tensor<8x2xf32>
  %4 = tg.mul %3, %3 : tensor<8x2xf32>, tensor<8x2xf32>
  %5 = tg.sum %4 axes = [0, 1] : tensor<8x2xf32>
  func.return %5 : tensor<f32>
}

// CHECK: func.func @step(%w: tensor<3x2xf32> {tg.name = "w", tg.role = "parameter"}, %b: tensor<2xf32> {tg.name = "b", tg.role = "parameter"}, %x: tensor<2x3xf32> {tg.name = "x", tg.role = "input"}, %scale: tensor<2x2xf32> {tg.name = "scale", tg.role = "input"}, %0: tensor<f32> {tg.name = "learning_rate", tg.role = "scalar", tg.formula = "learning_rate"}) -> (tensor<f32> {tg.name = "loss", tg.role = "output"}, tensor<3x2xf32> {tg.name = "w", tg.role = "update"}, tensor<2xf32> {tg.name = "b", tg.role = "update"}) {
// CHECK-NEXT:   %1 = tg.dot_general %x, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<2x3xf32>, tensor<3x2xf32>
// CHECK-NEXT:   %2 = tg.broadcast %b shape = [2, 2] dims = [1] : tensor<2xf32>
// CHECK-NEXT:   %3 = tg.add %1, %2 : tensor<2x2xf32>, tensor<2x2xf32>
// CHECK-NEXT:   %4 = tg.mul %3, %scale : tensor<2x2xf32>, tensor<2x2xf32>
// CHECK-NEXT:   %5 = tg.mul %4, %4 : tensor<2x2xf32>, tensor<2x2xf32>
// CHECK-NEXT:   %6 = tg.sum %5 axes = [0, 1] : tensor<2x2xf32>
// CHECK-NEXT:   %7 = tg.add %4, %4 : tensor<2x2xf32>, tensor<2x2xf32>
// CHECK-NEXT:   %8 = tg.mul %7, %scale : tensor<2x2xf32>, tensor<2x2xf32>
// CHECK-NEXT:   %9 = tg.sum %8 axes = [0] : tensor<2x2xf32>
// CHECK-NEXT:   %10 = tg.dot_general %x, %8 lhs_batch = [] rhs_batch = [] lhs_contracting = [0] rhs_contracting = [0] : tensor<2x3xf32>, tensor<2x2xf32>
// CHECK-NEXT:   %11 = tg.broadcast %0 shape = [3, 2] dims = [] : tensor<f32>
// CHECK-NEXT:   %12 = tg.mul %10, %11 : tensor<3x2xf32>, tensor<3x2xf32>
// CHECK-NEXT:   %13 = tg.all_reduce %12 reduction = "sum" size = 4 : tensor<3x2xf32>
// CHECK-NEXT:   %14 = tg.sub %w, %13 : tensor<3x2xf32>, tensor<3x2xf32>
// CHECK-NEXT:   %15 = tg.broadcast %0 shape = [2] dims = [] : tensor<f32>
// CHECK-NEXT:   %16 = tg.mul %9, %15 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %17 = tg.all_reduce %16 reduction = "sum" size = 4 : tensor<2xf32>
// CHECK-NEXT:   %18 = tg.sub %b, %17 : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:   %19 = tg.all_reduce %6 reduction = "sum" size = 4 : tensor<f32>
// CHECK-NEXT:   func.return %19, %14, %18 : tensor<f32>, tensor<3x2xf32>, tensor<2xf32>
// CHECK-NEXT: }

// WHOLE: func.func @step(%w: tensor<3x2xf32> {tg.name = "w", tg.role = "parameter"}, %b: tensor<2xf32> {tg.name = "b", tg.role = "parameter"}, %x: tensor<4x3xf32> {tg.name = "x", tg.role = "input"}, %scale: tensor<8x2xf32> {tg.name = "scale", tg.role = "input"}) -> (tensor<f32> {tg.name = "loss", tg.role = "output"}) {
// WHOLE-NEXT:   %0 = tg.dot_general %x, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<4x3xf32>, tensor<3x2xf32>
// WHOLE-NEXT:   %1 = tg.broadcast %b shape = [8, 2] dims = [1] : tensor<2xf32>
// WHOLE-NEXT:   %2 = tg.broadcast %b shape = [4, 2] dims = [1] : tensor<2xf32>
// WHOLE-NEXT:   %3 = tg.add %0, %2 : tensor<4x2xf32>, tensor<4x2xf32>
// WHOLE-NEXT:   %4 = tg.slice %scale start = [4, 0] stop = [8, 2] step = [1, 1] : tensor<8x2xf32>
// WHOLE-NEXT:   %5 = tg.mul %3, %4 : tensor<4x2xf32>, tensor<4x2xf32>
// WHOLE-NEXT:   %6 = tg.mul %5, %5 : tensor<4x2xf32>, tensor<4x2xf32>
// WHOLE-NEXT:   %7 = tg.sum %6 axes = [0, 1] : tensor<4x2xf32>
// WHOLE-NEXT:   %8 = tg.all_reduce %7 reduction = "sum" size = 2 : tensor<f32>
// WHOLE-NEXT:   func.return %8 : tensor<f32>
// WHOLE-NEXT: }
