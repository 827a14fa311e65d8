// VARIANT: seed=2 frugal=1 schedules=1 target=webgpu-default
// A packed row whose parts are written by several kernels, updated in place and reduced as it was before.
func.func @f(%w: tensor<128xf32> {tg.name = "w", tg.role = "parameter"},
             %a: tensor<4x3xf32> {tg.name = "a", tg.role = "input"},
             %b: tensor<5xf32> {tg.name = "b", tg.role = "input"})
    -> (tensor<128xf32> {tg.name = "w", tg.role = "update"}, tensor<f32> {tg.name = "o", tg.role = "output"}) {
  %s = tg.sin %a : tensor<4x3xf32>
  %m = tg.mul %b, %b : tensor<5xf32>, tensor<5xf32>
  %p = tg.pack %s, %m offsets = [0, 64] size = 128 : tensor<4x3xf32>, tensor<5xf32>
  %n = tg.sub %w, %p : tensor<128xf32>, tensor<128xf32>
  %q = tg.mul %w, %p : tensor<128xf32>, tensor<128xf32>
  %o = tg.sum %q axes = [0] : tensor<128xf32>
  func.return %n, %o : tensor<128xf32>, tensor<f32>
}
