// VARIANT: seed=2 frugal=0 schedules=0 target=lavapipe
// Differed at native code: LLVM 22.1.0 counted booleans of a wrong vector register (llvm/llvm-project#191304).
builtin.module {
  func.func @function(%0: tensor<1xf32> {tg.name = "inputs0", tg.role = "input"}, %1: tensor<f32> {tg.name = "inputs1", tg.role = "input"}) -> (tensor<f32>, tensor<1xf32>, tensor<4xf32>, tensor<4xf32>, tensor<1xf32>, tensor<f32>) {
    %2 = tg.constant value = dense<2.500000e-01> : tensor<f32>
    %3 = tg.pad %0, %2 low = [2] high = [1] interior = [0] : tensor<1xf32>, tensor<f32>
    %4 = tg.reshape %0 shape = [] : tensor<1xf32>
    %5 = tg.broadcast %4 shape = [4] dims = [] : tensor<f32>
    %6 = tg.add %3, %5 : tensor<4xf32>, tensor<4xf32>
    %7 = tg.sum %6 axes = [0] : tensor<4xf32>
    %8 = tg.reshape %7 shape = [1] : tensor<f32>
    %9 = tg.constant value = dense<0.000000e+00> : tensor<4xf32>
    %10 = tg.compare %3, %9 predicate = "gt" : tensor<4xf32>, tensor<4xf32>
    %11 = tg.cast %10 to = i32 : tensor<4xi1>
    %12 = tg.sum %11 axes = [0] : tensor<4xi32>
    %13 = tg.reshape %12 shape = [1] : tensor<i32>
    %14 = tg.max %3 axes = [0] : tensor<4xf32>
    %15 = tg.reshape %14 shape = [1] : tensor<f32>
    %16 = tg.reshape %15 shape = [] : tensor<1xf32>
    %17 = tg.broadcast %16 shape = [4] dims = [] : tensor<f32>
    %18 = tg.compare %3, %17 predicate = "eq" : tensor<4xf32>, tensor<4xf32>
    %19 = tg.compare %3, %3 predicate = "ne" : tensor<4xf32>, tensor<4xf32>
    %20 = tg.or %18, %19 : tensor<4xi1>, tensor<4xi1>
    %21 = tg.iota shape = [4] axis = 0 element = i32
    %22 = tg.constant value = dense<4> : tensor<4xi32>
    %23 = tg.select %20, %21, %22 : tensor<4xi1>, tensor<4xi32>, tensor<4xi32>
    %24 = tg.min %23 axes = [0] : tensor<4xi32>
    %25 = tg.reshape %24 shape = [1] : tensor<i32>
    %26 = tg.add %13, %25 : tensor<1xi32>, tensor<1xi32>
    %27 = tg.cast %26 to = f32 : tensor<1xi32>
    %28 = tg.reshape %27 shape = [] : tensor<1xf32>
    %29 = tg.broadcast %28 shape = [4] dims = [] : tensor<f32>
    %30 = tg.mul %29, %3 : tensor<4xf32>, tensor<4xf32>
    %31 = tg.broadcast %1 shape = [4] dims = [] : tensor<f32>
    %32 = tg.add %31, %3 : tensor<4xf32>, tensor<4xf32>
    %33 = tg.sin %8 : tensor<1xf32>
    %34 = tg.sum %33 axes = [0] : tensor<1xf32>
    %35 = tg.tanh %30 : tensor<4xf32>
    %36 = tg.mul %35, %30 : tensor<4xf32>, tensor<4xf32>
    %37 = tg.sum %36 axes = [0] : tensor<4xf32>
    %38 = tg.add %34, %37 : tensor<f32>, tensor<f32>
    %39 = tg.tanh %32 : tensor<4xf32>
    %40 = tg.mul %39, %32 : tensor<4xf32>, tensor<4xf32>
    %41 = tg.sum %40 axes = [0] : tensor<4xf32>
    %42 = tg.add %38, %41 : tensor<f32>, tensor<f32>
    %43 = tg.constant value = dense<1.000000e+00> : tensor<f32>
    %44 = tg.broadcast %43 shape = [4] dims = [] : tensor<f32>
    %45 = tg.mul %44, %32 : tensor<4xf32>, tensor<4xf32>
    %46 = tg.mul %44, %39 : tensor<4xf32>, tensor<4xf32>
    %47 = tg.constant value = dense<1.000000e+00> : tensor<4xf32>
    %48 = tg.mul %39, %39 : tensor<4xf32>, tensor<4xf32>
    %49 = tg.sub %47, %48 : tensor<4xf32>, tensor<4xf32>
    %50 = tg.mul %45, %49 : tensor<4xf32>, tensor<4xf32>
    %51 = tg.add %46, %50 : tensor<4xf32>, tensor<4xf32>
    %52 = tg.broadcast %43 shape = [4] dims = [] : tensor<f32>
    %53 = tg.mul %52, %30 : tensor<4xf32>, tensor<4xf32>
    %54 = tg.mul %52, %35 : tensor<4xf32>, tensor<4xf32>
    %55 = tg.constant value = dense<1.000000e+00> : tensor<4xf32>
    %56 = tg.mul %35, %35 : tensor<4xf32>, tensor<4xf32>
    %57 = tg.sub %55, %56 : tensor<4xf32>, tensor<4xf32>
    %58 = tg.mul %53, %57 : tensor<4xf32>, tensor<4xf32>
    %59 = tg.add %54, %58 : tensor<4xf32>, tensor<4xf32>
    %60 = tg.broadcast %43 shape = [1] dims = [] : tensor<f32>
    %61 = tg.cos %8 : tensor<1xf32>
    %62 = tg.mul %60, %61 : tensor<1xf32>, tensor<1xf32>
    %63 = tg.sum %51 axes = [0] : tensor<4xf32>
    %64 = tg.mul %59, %3 : tensor<4xf32>, tensor<4xf32>
    %65 = tg.mul %59, %29 : tensor<4xf32>, tensor<4xf32>
    %66 = tg.add %51, %65 : tensor<4xf32>, tensor<4xf32>
    %67 = tg.reshape %62 shape = [] : tensor<1xf32>
    %68 = tg.broadcast %67 shape = [4] dims = [] : tensor<f32>
    %69 = tg.add %66, %68 : tensor<4xf32>, tensor<4xf32>
    %70 = tg.sum %68 axes = [0] : tensor<4xf32>
    %71 = tg.reshape %70 shape = [1] : tensor<f32>
    %72 = tg.slice %69 start = [2] stop = [3] step = [1] : tensor<4xf32>
    %73 = tg.sum %69 axes = [0] : tensor<4xf32>
    %74 = tg.sum %72 axes = [0] : tensor<1xf32>
    %75 = tg.sub %73, %74 : tensor<f32>, tensor<f32>
    %76 = tg.add %71, %72 : tensor<1xf32>, tensor<1xf32>
    func.return %42, %8, %30, %32, %76, %63 : tensor<f32>, tensor<1xf32>, tensor<4xf32>, tensor<4xf32>, tensor<1xf32>, tensor<f32>
  }
}
