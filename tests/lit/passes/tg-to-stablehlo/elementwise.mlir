// RUN: tg-opt %s -p tg-to-stablehlo | filecheck %s

// CHECK-LABEL: func.func @elementwise
func.func @elementwise(%x: tensor<2xf32>, %k: tensor<2xi32>, %u: tensor<2xui32>) -> (tensor<2xf32>, tensor<2xi32>, tensor<2xui32>) {
  // CHECK: %{{.*}} = stablehlo.exponential %x : tensor<2xf32>
  // CHECK-NEXT: %{{.*}} = chlo.erf %{{.*}} : tensor<2xf32> -> tensor<2xf32>
  // CHECK-NEXT: %{{.*}} = stablehlo.composite "tensorgrad.relu" %{{.*}} {decomposition = @relu.0} : (tensor<2xf32>) -> tensor<2xf32>
  // CHECK-NEXT: %{{.*}} = stablehlo.abs %{{.*}} : tensor<2xf32>
  // CHECK-NEXT: %{{.*}} = stablehlo.negate %{{.*}} : tensor<2xf32>
  // CHECK-NEXT: %{{.*}} = stablehlo.exponential %{{.*}} : tensor<2xf32>
  // CHECK-NEXT: %{{.*}} = stablehlo.log_plus_one %{{.*}} : tensor<2xf32>
  // CHECK-NEXT: %{{.*}} = stablehlo.constant dense<0.000000e+00> : tensor<2xf32>
  // CHECK-NEXT: %{{.*}} = stablehlo.maximum %{{.*}}, %{{.*}} : tensor<2xf32>
  // CHECK-NEXT: %{{.*}} = stablehlo.add %{{.*}}, %{{.*}} : tensor<2xf32>
  // CHECK-NEXT: %{{.*}} = stablehlo.compare LE, %x, %{{.*}} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
  // CHECK-NEXT: %{{.*}} = stablehlo.select %{{.*}}, %x, %{{.*}} : tensor<2xi1>, tensor<2xf32>
  // CHECK-NEXT: %{{.*}} = stablehlo.composite "tensorgrad.stop_gradient" %{{.*}} {decomposition = @stop_gradient.1} : (tensor<2xf32>) -> tensor<2xf32>
  // CHECK-NEXT: %{{.*}} = stablehlo.shift_right_logical %u, %u : tensor<2xui32>
  // CHECK-NEXT: %{{.*}} = stablehlo.shift_right_arithmetic %k, %k : tensor<2xi32>
  // CHECK-NEXT: func.return %{{.*}}, %{{.*}}, %{{.*}} : tensor<2xf32>, tensor<2xi32>, tensor<2xui32>
  %0 = tg.exp %x : tensor<2xf32>
  %1 = tg.erf %0 : tensor<2xf32>
  %2 = tg.relu %1 : tensor<2xf32>
  %3 = tg.softplus %2 : tensor<2xf32>
  %4 = tg.compare %x, %3 predicate = "le" : tensor<2xf32>, tensor<2xf32>
  %5 = tg.select %4, %x, %3 : tensor<2xi1>, tensor<2xf32>, tensor<2xf32>
  %6 = tg.stop_gradient %5 : tensor<2xf32>
  %7 = tg.abs %u : tensor<2xui32>
  %8 = tg.shift_right %7, %u : tensor<2xui32>, tensor<2xui32>
  %9 = tg.shift_right %k, %k : tensor<2xi32>, tensor<2xi32>
  return %6, %9, %8 : tensor<2xf32>, tensor<2xi32>, tensor<2xui32>
}
// Division by 0 gives 0, and quotients are rounded down.
// CHECK-LABEL: func.func @floor
func.func @floor(%x: tensor<2xi32>, %y: tensor<2xi32>) -> tensor<2xi32> {
  // CHECK: %{{.*}} = stablehlo.constant dense<0> : tensor<2xi32>
  // CHECK-NEXT: %{{.*}} = stablehlo.compare EQ, %y, %{{.*}} : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
  // CHECK-NEXT: %{{.*}} = stablehlo.constant dense<1> : tensor<2xi32>
  // CHECK-NEXT: %{{.*}} = stablehlo.select %{{.*}}, %{{.*}}, %y : tensor<2xi1>, tensor<2xi32>
  // CHECK-NEXT: %{{.*}} = stablehlo.divide %x, %{{.*}} : tensor<2xi32>
  // CHECK-NEXT: %{{.*}} = stablehlo.remainder %x, %{{.*}} : tensor<2xi32>
  // CHECK-NEXT: %{{.*}} = stablehlo.constant dense<0> : tensor<2xi32>
  // CHECK-NEXT: %{{.*}} = stablehlo.compare LT, %{{.*}}, %{{.*}} : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
  // CHECK-NEXT: %{{.*}} = stablehlo.constant dense<0> : tensor<2xi32>
  // CHECK-NEXT: %{{.*}} = stablehlo.compare LT, %{{.*}}, %{{.*}} : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
  // CHECK-NEXT: %{{.*}} = stablehlo.xor %{{.*}}, %{{.*}} : tensor<2xi1>
  // CHECK-NEXT: %{{.*}} = stablehlo.constant dense<0> : tensor<2xi32>
  // CHECK-NEXT: %{{.*}} = stablehlo.compare NE, %{{.*}}, %{{.*}} : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
  // CHECK-NEXT: %{{.*}} = stablehlo.and %{{.*}}, %{{.*}} : tensor<2xi1>
  // CHECK-NEXT: %{{.*}} = stablehlo.constant dense<1> : tensor<2xi32>
  // CHECK-NEXT: %{{.*}} = stablehlo.subtract %{{.*}}, %{{.*}} : tensor<2xi32>
  // CHECK-NEXT: %{{.*}} = stablehlo.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<2xi1>, tensor<2xi32>
  // CHECK-NEXT: %{{.*}} = stablehlo.constant dense<0> : tensor<2xi32>
  // CHECK-NEXT: %{{.*}} = stablehlo.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<2xi1>, tensor<2xi32>
  // CHECK-NEXT: func.return %{{.*}} : tensor<2xi32>
  %0 = tg.floor_divide %x, %y : tensor<2xi32>, tensor<2xi32>
  return %0 : tensor<2xi32>
}
// Floats beyond the range saturate, and NaN becomes 0.
// CHECK-LABEL: func.func @saturate
func.func @saturate(%x: tensor<2xf32>) -> tensor<2xi32> {
  // CHECK: %{{.*}} = stablehlo.compare NE, %x, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
  // CHECK-NEXT: %{{.*}} = stablehlo.constant dense<0.000000e+00> : tensor<2xf32>
  // CHECK-NEXT: %{{.*}} = stablehlo.select %{{.*}}, %{{.*}}, %x : tensor<2xi1>, tensor<2xf32>
  // CHECK-NEXT: %{{.*}} = stablehlo.constant dense<-2.14748365e+09> : tensor<2xf32>
  // CHECK-NEXT: %{{.*}} = stablehlo.maximum %{{.*}}, %{{.*}} : tensor<2xf32>
  // CHECK-NEXT: %{{.*}} = stablehlo.constant dense<2.14748352e+09> : tensor<2xf32>
  // CHECK-NEXT: %{{.*}} = stablehlo.minimum %{{.*}}, %{{.*}} : tensor<2xf32>
  // CHECK-NEXT: %{{.*}} = stablehlo.convert %{{.*}} : (tensor<2xf32>) -> tensor<2xi32>
  // CHECK-NEXT: %{{.*}} = stablehlo.constant dense<2.14748352e+09> : tensor<2xf32>
  // CHECK-NEXT: %{{.*}} = stablehlo.compare GT, %{{.*}}, %{{.*}} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
  // CHECK-NEXT: %{{.*}} = stablehlo.constant dense<2147483647> : tensor<2xi32>
  // CHECK-NEXT: %{{.*}} = stablehlo.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<2xi1>, tensor<2xi32>
  // CHECK-NEXT: func.return %{{.*}} : tensor<2xi32>
  %0 = tg.cast %x to = i32 : tensor<2xf32>
  return %0 : tensor<2xi32>
}
// CHECK: func.func private @relu.0(%[[X:.*]]: tensor<2xf32>) -> tensor<2xf32> {
// CHECK-NEXT: %[[ZERO:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<2xf32>
// CHECK-NEXT: %[[Y:.*]] = stablehlo.maximum %[[X]], %[[ZERO]] : tensor<2xf32>
// CHECK-NEXT: func.return %[[Y]] : tensor<2xf32>
// CHECK: func.func private @stop_gradient.1(%[[X:.*]]: tensor<2xf32>) -> tensor<2xf32> {
// CHECK-NEXT: func.return %[[X]] : tensor<2xf32>
