// VARIANT: seed=1 frugal=0 schedules=0 target=lavapipe
// A sum, what it scales, and an update in place of what is scaled: three extents in kernels that want to be one.
func.func @f(%w: tensor<16x16xf32> {tg.name = "w", tg.role = "parameter"},
             %g: tensor<16x16xf32> {tg.name = "g", tg.role = "input"})
    -> (tensor<16x16x4xf32> {tg.name = "o", tg.role = "output"}, tensor<16x16xf32> {tg.name = "w", tg.role = "update"}) {
  %s = tg.sum %g axes = [1] : tensor<16x16xf32>
  %eb = tg.broadcast %s shape = [16, 16, 4] dims = [0] : tensor<16xf32>
  %wb = tg.broadcast %w shape = [16, 16, 4] dims = [0, 1] : tensor<16x16xf32>
  %o = tg.mul %wb, %eb : tensor<16x16x4xf32>, tensor<16x16x4xf32>
  %e2 = tg.broadcast %s shape = [16, 16] dims = [0] : tensor<16xf32>
  %n = tg.sub %w, %e2 : tensor<16x16xf32>, tensor<16x16xf32>
  func.return %o, %n : tensor<16x16x4xf32>, tensor<16x16xf32>
}
