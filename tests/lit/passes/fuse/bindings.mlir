// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse' | filecheck %s
// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{target="{\"max_storage_buffers_per_shader_stage\": 10}"}' | filecheck %s --check-prefix TEN

// Eight operands and a result would take nine bindings, the default target has eight: the last addition is not fused.
func.func @many(%a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xf32>, %d: tensor<4xf32>, %e: tensor<4xf32>, %f: tensor<4xf32>, %g: tensor<4xf32>, %h: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tg.add %a, %b : tensor<4xf32>, tensor<4xf32>
  %1 = tg.add %0, %c : tensor<4xf32>, tensor<4xf32>
  %2 = tg.add %1, %d : tensor<4xf32>, tensor<4xf32>
  %3 = tg.add %2, %e : tensor<4xf32>, tensor<4xf32>
  %4 = tg.add %3, %f : tensor<4xf32>, tensor<4xf32>
  %5 = tg.add %4, %g : tensor<4xf32>, tensor<4xf32>
  %6 = tg.add %5, %h : tensor<4xf32>, tensor<4xf32>
  func.return %6 : tensor<4xf32>
}
// CHECK-LABEL: func.func @many(
// CHECK: %1 = memref.alloc() : memref<4xf32>
// CHECK: buf.kernel grid = [4] ins(%g, %f, %e, %d, %c, %a, %b : {{.*}}) outs(%1 : memref<4xf32>) {
// CHECK-COUNT-6: arith.addf
// CHECK: buf.kernel grid = [4] ins(%1, %h : memref<4xf32>, memref<4xf32>) outs(%0 : memref<4xf32>) {
// CHECK: arith.addf
// CHECK-NOT: buf.kernel
// CHECK: func.return
// TEN-LABEL: func.func @many(
// TEN: buf.kernel grid = [4] ins(%h, %g, %f, %e, %d, %c, %a, %b : memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>) outs(%0 : memref<4xf32>) {
// TEN: linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%1, %2, %3, %4, %5, %6, %7, %8 : memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>) outs(%9 : memref<4xf32>) {
// TEN: %19 = arith.addf %16, %17 : f32
// TEN: %20 = arith.addf %19, %15 : f32
// TEN: %21 = arith.addf %20, %14 : f32
// TEN: %22 = arith.addf %21, %13 : f32
// TEN: %23 = arith.addf %22, %12 : f32
// TEN: %24 = arith.addf %23, %11 : f32
// TEN: %25 = arith.addf %24, %10 : f32
// TEN: linalg.yield %25 : f32
// TEN-NOT: buf.kernel
// TEN: func.return
