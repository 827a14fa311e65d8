// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu,expand-math{target=cpu},convert-to-llvm' | filecheck %s
// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu,expand-math{target=cpu},convert-to-llvm' -t llvm | filecheck %s --check-prefix TEXT

// A maximum keeps NaN, but may have either zero of two.
func.func @larger(%x: tensor<40xf32>, %y: tensor<40xf32>) -> tensor<40xf32> {
  %0 = tg.maximum %x, %y : tensor<40xf32>, tensor<40xf32>
  func.return %0 : tensor<40xf32>
}
// CHECK: llvm.call_intrinsic "llvm.maximum.f32"(%{{.*}}) {fastmathFlags = #llvm.fastmath<nsz>}
// TEXT: call nsz float @llvm.maximum.f32(float %{{.*}}, float %{{.*}})
