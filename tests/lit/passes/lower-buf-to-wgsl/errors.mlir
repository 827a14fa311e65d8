// RUN: not tg-opt %s -p 'lower-tg-to-buf,plan-memory,lower-buf-to-wgsl' 2>&1 | filecheck %s --check-prefix SCHEDULE
// RUN: not tg-opt %s -p 'lower-tg-to-buf,plan-memory,schedule,lower-buf-to-wgsl' 2>&1 | filecheck %s --check-prefix HALF
// RUN: tg-opt %s -p 'lower-tg-to-buf,plan-memory,schedule,lower-buf-to-wgsl{target=lavapipe}' | filecheck %s --check-prefix LAVAPIPE
// RUN: not tg-opt %s -p 'lower-tg-to-buf,plan-memory,schedule,lower-buf-to-wgsl{target="{\"f16\": true, \"max_storage_buffers_per_shader_stage\": 1}"}' 2>&1 | filecheck %s --check-prefix BINDINGS

// SCHEDULE: tg-opt: error: lower-buf-to-wgsl expects a schedule on every kernel; the one at
// SCHEDULE-SAME: has none (run `schedule` first)
// HALF: tg-opt: error: lower-buf-to-wgsl: 'x' has elements of f16, which webgpu-default does not have; it was made at model.py:3; cast it to f32
// LAVAPIPE: wgsl.kernel @thread0 {{.*}} access = ["read", "read", "read_write"] {
// BINDINGS: tg-opt: error: lower-buf-to-wgsl: the kernel made at model.py:3 needs 2 bindings, custom has 1
func.func @f(%x: tensor<4xf16> {tg.name = "x", tg.role = "input"}, %y: tensor<4xf16> {tg.name = "y", tg.role = "input"}) -> tensor<4xf16> {
  %0 = tg.add %x, %y : tensor<4xf16>, tensor<4xf16> loc("model.py":3:5)
  func.return %0 : tensor<4xf16>
}
