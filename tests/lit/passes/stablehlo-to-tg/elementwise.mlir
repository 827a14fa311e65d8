// RUN: tg-opt %s -p stablehlo-to-tg,canonicalize,cse | filecheck %s

// CHECK-LABEL: func.func @elementwise
func.func @elementwise(%x: tensor<2xf32>, %k: tensor<2xi32>, %u: tensor<2xui32>, %p: tensor<i1>, %q: tensor<2xi1>) -> tensor<2xf32> {
  // CHECK: %{{.*}} = tg.constant value = dense<1.000000e+00> : tensor<2xf32>
  // CHECK-NEXT: %{{.*}} = tg.sqrt %x : tensor<2xf32>
  // CHECK-NEXT: %{{.*}} = tg.div %{{.*}}, %{{.*}} : tensor<2xf32>, tensor<2xf32>
  // CHECK-NEXT: %{{.*}} = tg.floor_divide %k, %k : tensor<2xi32>, tensor<2xi32>
  // CHECK-NEXT: %{{.*}} = tg.mul %{{.*}}, %k : tensor<2xi32>, tensor<2xi32>
  // CHECK-NEXT: %{{.*}} = tg.compare %{{.*}}, %k predicate = "ne" : tensor<2xi32>, tensor<2xi32>
  // CHECK-NEXT: %{{.*}} = tg.constant value = dense<0> : tensor<2xi32>
  // CHECK-NEXT: %{{.*}} = tg.compare %{{.*}}, %{{.*}} predicate = "lt" : tensor<2xi32>, tensor<2xi32>
  // CHECK-NEXT: %{{.*}} = tg.and %{{.*}}, %{{.*}} : tensor<2xi1>, tensor<2xi1>
  // CHECK-NEXT: %{{.*}} = tg.constant value = dense<1> : tensor<2xi32>
  // CHECK-NEXT: %{{.*}} = tg.add %{{.*}}, %{{.*}} : tensor<2xi32>, tensor<2xi32>
  // CHECK-NEXT: %{{.*}} = tg.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<2xi1>, tensor<2xi32>, tensor<2xi32>
  // CHECK-NEXT: %{{.*}} = tg.bitcast %{{.*}} to = ui32 : tensor<2xi32>
  // CHECK-NEXT: %{{.*}} = tg.bitcast %k to = ui32 : tensor<2xi32>
  // CHECK-NEXT: %{{.*}} = tg.shift_right %{{.*}}, %{{.*}} : tensor<2xui32>, tensor<2xui32>
  // CHECK-NEXT: %{{.*}} = tg.bitcast %{{.*}} to = i32 : tensor<2xui32>
  // CHECK-NEXT: %{{.*}} = tg.or %q, %q : tensor<2xi1>, tensor<2xi1>
  // CHECK-NEXT: %{{.*}} = tg.broadcast %p shape = [2] dims = [] : tensor<i1>
  // CHECK-NEXT: %{{.*}} = tg.select %{{.*}}, %x, %{{.*}} : tensor<2xi1>, tensor<2xf32>, tensor<2xf32>
  // CHECK-NEXT: %{{.*}} = tg.cast %{{.*}} to = f32 : tensor<2xi32>
  // CHECK-NEXT: %{{.*}} = tg.compare %{{.*}}, %{{.*}} predicate = "lt" : tensor<2xf32>, tensor<2xf32>
  // CHECK-NEXT: %{{.*}} = tg.and %{{.*}}, %{{.*}} : tensor<2xi1>, tensor<2xi1>
  // CHECK-NEXT: %{{.*}} = tg.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<2xi1>, tensor<2xf32>, tensor<2xf32>
  // CHECK-NEXT: %{{.*}} = tg.erf %{{.*}} : tensor<2xf32>
  // CHECK-NEXT: %{{.*}} = tg.stop_gradient %{{.*}} : tensor<2xf32>
  // CHECK-NEXT: func.return %{{.*}} : tensor<2xf32>
  %0 = stablehlo.rsqrt %x : tensor<2xf32>
  %1 = stablehlo.divide %k, %k : tensor<2xi32>
  %2 = stablehlo.shift_right_logical %1, %k : tensor<2xi32>
  %3 = stablehlo.add %q, %q : tensor<2xi1>
  %4 = stablehlo.select %p, %x, %0 : tensor<i1>, tensor<2xf32>
  %5 = stablehlo.convert %2 : (tensor<2xi32>) -> tensor<2xf32>
  %6 = stablehlo.compare LT, %4, %5, FLOAT : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
  %7 = stablehlo.and %6, %3 : tensor<2xi1>
  %8 = stablehlo.select %7, %4, %5 : tensor<2xi1>, tensor<2xf32>
  %9 = stablehlo.composite "chlo.erf" %8 {decomposition = @erf} : (tensor<2xf32>) -> tensor<2xf32>
  %10 = stablehlo.composite "tensorgrad.stop_gradient" %9 {decomposition = @erf} : (tensor<2xf32>) -> tensor<2xf32>
  return %10 : tensor<2xf32>
}
func.func private @erf(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
