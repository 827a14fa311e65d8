// What `jax.export` writes for a classifier's loss, with fewer locations.
module @jit_mlp attributes {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: tensor<4x8xf32> loc("w"), %arg1: tensor<8xf32> loc("b"), %arg2: tensor<5x4xf32> loc("x"), %arg3: tensor<5xi32> loc("y")) -> (tensor<f32> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<5.000000e+00> : tensor<f32> loc(#loc1)
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32> loc(#loc1)
    %0 = stablehlo.dot_general %arg2, %arg0, contracting_dims = [1] x [0] : (tensor<5x4xf32>, tensor<4x8xf32>) -> tensor<5x8xf32> loc(#loc2)
    %1 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<8xf32>) -> tensor<1x8xf32> loc(#loc2)
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x8xf32>) -> tensor<5x8xf32> loc(#loc2)
    %3 = stablehlo.add %0, %2 : tensor<5x8xf32> loc(#loc2)
    %4 = call @relu(%3) : (tensor<5x8xf32>) -> tensor<5x8xf32> loc(#loc2)
    %5 = call @log_softmax(%4) : (tensor<5x8xf32>) -> tensor<5x8xf32> loc(#loc2)
    %6 = stablehlo.broadcast_in_dim %arg3, dims = [0] : (tensor<5xi32>) -> tensor<5x1xi32> loc(#loc2)
    %7 = stablehlo.iota dim = 1 : tensor<5x8xi32> loc(#loc2)
    %8 = stablehlo.broadcast_in_dim %6, dims = [0, 1] : (tensor<5x1xi32>) -> tensor<5x8xi32> loc(#loc2)
    %9 = stablehlo.compare EQ, %8, %7, SIGNED : (tensor<5x8xi32>, tensor<5x8xi32>) -> tensor<5x8xi1> loc(#loc2)
    %10 = stablehlo.convert %9 : (tensor<5x8xi1>) -> tensor<5x8xf32> loc(#loc2)
    %11 = stablehlo.multiply %5, %10 : tensor<5x8xf32> loc(#loc2)
    %12 = stablehlo.reduce(%11 init: %cst_0) applies stablehlo.add across dimensions = [0, 1] : (tensor<5x8xf32>, tensor<f32>) -> tensor<f32> loc(#loc2)
    %13 = stablehlo.divide %12, %cst : tensor<f32> loc(#loc2)
    %14 = stablehlo.negate %13 : tensor<f32> loc(#loc2)
    return %14 : tensor<f32> loc(#loc2)
  } loc(#loc)
  func.func private @relu(%arg0: tensor<5x8xf32>) -> tensor<5x8xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<5x8xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<5x8xf32>
    return %1 : tensor<5x8xf32>
  }
  func.func private @log_softmax(%arg0: tensor<5x8xf32>) -> tensor<5x8xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst_0) applies stablehlo.maximum across dimensions = [1] : (tensor<5x8xf32>, tensor<f32>) -> tensor<5xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<5xf32>) -> tensor<5x8xf32>
    %2 = stablehlo.subtract %arg0, %1 : tensor<5x8xf32>
    %3 = stablehlo.exponential %2 : tensor<5x8xf32>
    %4 = stablehlo.reduce(%3 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<5x8xf32>, tensor<f32>) -> tensor<5xf32>
    %5 = stablehlo.log %4 : tensor<5xf32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<5xf32>) -> tensor<5x8xf32>
    %7 = stablehlo.subtract %2, %6 : tensor<5x8xf32>
    return %7 : tensor<5x8xf32>
  }
} loc(#loc)
#loc = loc(unknown)
#loc1 = loc("model.py":3:9 to :17)
#loc2 = loc("jit(mlp)/mul"(callsite("mlp"(#loc1) at "main"("model.py":9:0))))
