// VARIANT: seed=0 frugal=0 schedules=1 target=lavapipe
// Differed at device.
builtin.module {
  func.func @function(%0: tensor<4xf32> {tg.name = "inputs0", tg.role = "input"}, %1: tensor<f32> {tg.name = "inputs1", tg.role = "input"}) -> (tensor<f32>, tensor<f32>, tensor<4xf32>, tensor<f32>) {
    %2 = tg.abs %0 : tensor<4xf32>
    %3 = tg.prod %2 axes = [0] : tensor<4xf32>
    %4 = tg.add %3, %3 : tensor<f32>, tensor<f32>
    %5 = tg.add %4, %4 : tensor<f32>, tensor<f32>
    %6 = tg.sin %5 : tensor<f32>
    %7 = tg.constant value = dense<1.000000e+00> : tensor<f32>
    %8 = tg.cos %5 : tensor<f32>
    %9 = tg.mul %7, %8 : tensor<f32>, tensor<f32>
    %10 = tg.add %9, %9 : tensor<f32>, tensor<f32>
    %11 = tg.add %10, %10 : tensor<f32>, tensor<f32>
    %12 = tg.slice %2 start = [0] stop = [2] step = [1] : tensor<4xf32>
    %13 = tg.slice %2 start = [2] stop = [4] step = [1] : tensor<4xf32>
    %14 = tg.mul %12, %13 : tensor<2xf32>, tensor<2xf32>
    %15 = tg.slice %14 start = [0] stop = [1] step = [1] : tensor<2xf32>
    %16 = tg.slice %14 start = [1] stop = [2] step = [1] : tensor<2xf32>
    %17 = tg.mul %15, %16 : tensor<1xf32>, tensor<1xf32>
    %18 = tg.reshape %11 shape = [1] : tensor<f32>
    %19 = tg.mul %18, %16 : tensor<1xf32>, tensor<1xf32>
    %20 = tg.mul %18, %15 : tensor<1xf32>, tensor<1xf32>
    %21 = tg.concat %19, %20 axis = 0 : tensor<1xf32>, tensor<1xf32>
    %22 = tg.mul %21, %13 : tensor<2xf32>, tensor<2xf32>
    %23 = tg.mul %21, %12 : tensor<2xf32>, tensor<2xf32>
    %24 = tg.concat %22, %23 axis = 0 : tensor<2xf32>, tensor<2xf32>
    %25 = tg.constant value = dense<0.000000e+00> : tensor<4xf32>
    %26 = tg.compare %0, %25 predicate = "lt" : tensor<4xf32>, tensor<4xf32>
    %27 = tg.neg %24 : tensor<4xf32>
    %28 = tg.select %26, %27, %25 : tensor<4xi1>, tensor<4xf32>, tensor<4xf32>
    %29 = tg.compare %0, %25 predicate = "gt" : tensor<4xf32>, tensor<4xf32>
    %30 = tg.select %29, %24, %28 : tensor<4xi1>, tensor<4xf32>, tensor<4xf32>
    %31 = tg.constant value = dense<0.000000e+00> : tensor<f32>
    func.return %6, %5, %30, %31 : tensor<f32>, tensor<f32>, tensor<4xf32>, tensor<f32>
  }
}
