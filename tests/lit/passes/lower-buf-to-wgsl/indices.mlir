// RUN: not tg-opt %s -p 'lower-tg-to-buf,plan-memory{target=cpu},schedule,lower-buf-to-wgsl{target="{\"max_storage_buffer_binding_size\": 40000000000}"}' 2>&1 | filecheck %s

// CHECK: tg-opt: error: lower-buf-to-wgsl: 'x' takes 17200000000 bytes, of more elements than indices of 32 bits can address; it was made at
func.func @f(%x: tensor<4300000000xf32> {tg.name = "x", tg.role = "input"}) -> tensor<4300000000xf32> {
  %0 = tg.exp %x : tensor<4300000000xf32>
  func.return %0 : tensor<4300000000xf32>
}
