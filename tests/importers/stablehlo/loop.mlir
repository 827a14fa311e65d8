func.func @ode(%p: tensor<3x3xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
  %n = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0:3 = stablehlo.while(%w = %p, %i = %zero, %state = %y) : tensor<3x3xf32>, tensor<i32>, tensor<3xf32>
  cond {
    %1 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %1 = stablehlo.dot_general %w, %state, contracting_dims = [1] x [0] : (tensor<3x3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %2 = stablehlo.tanh %1 : tensor<3xf32>
    %3 = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %w, %3, %2 : tensor<3x3xf32>, tensor<i32>, tensor<3xf32>
  }
  return %0#2 : tensor<3xf32>
}
