// RUN: tg-opt %s -p 'grad{function=loss},simplify' | filecheck %s --check-prefix ROLES
// RUN: tg-opt %s -p 'grad{function=loss wrt=2,0},simplify' | filecheck %s --check-prefix WRT
// RUN: tg-opt %s -p 'grad{function=loss wrt=2},grad{function=loss wrt=1 result=1},simplify' | filecheck %s --check-prefix SECOND
// RUN: tg-opt %s -p 'grad{function=square},grad{function=square},simplify' | filecheck %s --check-prefix TWICE
// RUN: tg-opt %s --print-debuginfo -p 'grad{function=square}' | filecheck %s --check-prefix PLACES

// By default, the gradients of the parameters, or of the first argument if there are none, are appended to the results.
func.func @loss(%x: tensor<f32>, %a: tensor<f32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<f32> {tg.name = "b", tg.role = "parameter"}) -> (tensor<f32> {tg.name = "loss", tg.role = "output"}, tensor<f32> {tg.name = "a", tg.role = "output"}) {
  %0 = tg.mul %a, %x : tensor<f32>, tensor<f32>
  %1 = tg.add %0, %b : tensor<f32>, tensor<f32>
  func.return %1, %0 : tensor<f32>, tensor<f32>
}
// ROLES: func.func @loss({{.*}}) -> (tensor<f32> {tg.name = "loss", tg.role = "output"}, tensor<f32> {tg.name = "a", tg.role = "output"}, tensor<f32> {tg.name = "a", tg.role = "gradient"}, tensor<f32> {tg.name = "b", tg.role = "gradient"}) {
// ROLES: %[[ONE:.*]] = tg.constant value = dense<1.000000e+00> : tensor<f32>
// ROLES-NEXT: func.return %1, %0, %x, %[[ONE]]
// A function with several losses: each result is differentiated by other arguments.
// SECOND: func.func @loss({{.*}}) -> (tensor<f32> {tg.name = "loss", tg.role = "output"}, tensor<f32> {tg.name = "a", tg.role = "output"}, tensor<f32> {tg.name = "b", tg.role = "gradient"}, tensor<f32> {tg.name = "a", tg.role = "gradient"}) {
// SECOND: func.return %1, %0, %{{.*}}, %x
// WRT: func.func @loss({{.*}}) -> (tensor<f32> {tg.name = "loss", tg.role = "output"}, tensor<f32> {tg.name = "a", tg.role = "output"}, tensor<f32> {tg.name = "b", tg.role = "gradient"}, tensor<f32> {tg.name = "arg0", tg.role = "gradient"}) {
// WRT: func.return %1, %0, %{{.*}}, %a

// Differentiated twice: the first result is still the loss, so the gradient is the same, and equal ops are merged.
func.func @square(%x: tensor<f32>) -> tensor<f32> {
  %0 = tg.mul %x, %x : tensor<f32>, tensor<f32> loc("model.py":3:5)
  func.return %0 : tensor<f32>
}
// TWICE: func.func @square
// TWICE-NEXT: %0 = tg.mul %x, %x
// TWICE-NEXT: %1 = tg.add %x, %x
// TWICE-NEXT: func.return %0, %1, %1
// PLACES: func.func @square
// PLACES: tg.add {{.*}} loc("model.py":3:5)
