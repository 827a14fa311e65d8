// RUN: tg-opt %s --split-input-file -p 'lower-tg-to-buf,plan-memory{target="{\"max_buffer_size\": 1024, \"min_storage_buffer_offset_alignment\": 4}"}' | filecheck %s
// RUN: tg-opt %s --split-input-file -p 'lower-tg-to-buf,plan-memory{target="{\"max_storage_buffer_binding_size\": 512, \"min_storage_buffer_offset_alignment\": 4}"}' | filecheck %s --check-prefix BINDING
// RUN: not tg-opt %s -p 'lower-tg-to-buf,plan-memory{target="{\"max_buffer_size\": 300}"}' 2>&1 | filecheck %s --check-prefix BUFFER
// RUN: not tg-opt %s -p 'lower-tg-to-buf,plan-memory{target="{\"max_buffer_size\": 500}"}' 2>&1 | filecheck %s --check-prefix INPUTS

// Parameters that exceed the largest buffer are distributed over several arenas.
// CHECK: buf.arena "parameters0" role = "parameter" : memref<656xi8>
// CHECK: buf.arena "parameters1" role = "parameter" : memref<400xi8>
// BUFFER: tg-opt: error: plan-memory: parameter 'b' of memref<100xf32> takes 400 bytes, more than a buffer of target custom can hold (300); it was made at
// With a smaller limit on bindings, there are more arenas: one binding can cover each.
// BINDING: buf.arena "parameters0" role = "parameter" : memref<112xi8>
// BINDING: buf.arena "parameters1" role = "parameter" : memref<400xi8>
// BINDING: buf.arena "parameters2" role = "parameter" : memref<400xi8>
func.func @chunked(%a: tensor<28xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<100xf32> {tg.name = "b", tg.role = "parameter"}, %c: tensor<100xf32> {tg.name = "c", tg.role = "parameter"}) {
  func.return
}

// INPUTS: tg-opt: error: plan-memory: the inputs take more than the 500 bytes of a buffer of custom; the largest is input 'arg1' of memref<100xf32>
func.func @inputs(%x: tensor<28xf32>, %y: tensor<100xf32>) {
  func.return
}
