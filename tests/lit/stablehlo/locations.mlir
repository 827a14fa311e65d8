// RUN: tg-opt %s --print-debuginfo | filecheck %s

// Locations may be named before they are defined, and ranges begin where they do. An op without one has its line here.

// CHECK: stablehlo.sine %x : tensor<f32> loc("jit(f)/sin"(callsite("f"("model.py":3:9) at "main"("model.py":9:0))))
// CHECK-NEXT: stablehlo.cosine %{{.*}} : tensor<f32> loc("{{.*}}locations.mlir":9:2)
func.func @f(%x: tensor<f32> loc("x")) -> tensor<f32> {
  %0 = stablehlo.sine %x : tensor<f32> loc(#loc5)
  %1 = stablehlo.cosine %0 : tensor<f32>
  return %1 : tensor<f32>
}
#loc1 = loc("model.py":3:9 to :17)
#loc2 = loc("model.py":9:0 to 10:4)
#loc3 = loc("f"(#loc1))
#loc4 = loc("main"(#loc2))
#loc5 = loc("jit(f)/sin"(callsite(#loc3 at #loc4)))
