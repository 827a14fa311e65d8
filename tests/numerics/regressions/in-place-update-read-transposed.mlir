// VARIANT: seed=0 frugal=0 schedules=0 target=webgpu-default
// The update of a parameter in place, beside a reader of the old value at other indices.
func.func @f(%w: tensor<9x9xf32> {tg.name = "w", tg.role = "parameter"},
             %g: tensor<9x9xf32> {tg.name = "g", tg.role = "input"})
    -> (tensor<9x9xf32> {tg.name = "w", tg.role = "update"}, tensor<9x9xf32> {tg.name = "o", tg.role = "output"}) {
  %t = tg.transpose %w permutation = [1, 0] : tensor<9x9xf32>
  %n = tg.sub %w, %g : tensor<9x9xf32>, tensor<9x9xf32>
  %o = tg.mul %t, %g : tensor<9x9xf32>, tensor<9x9xf32>
  func.return %n, %o : tensor<9x9xf32>, tensor<9x9xf32>
}
