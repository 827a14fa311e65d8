// RUN: tg-opt %s -p 'lower-tg-to-buf,plan-memory' | filecheck %s

// One arena per role, in the order of the arguments; states with the same prefix before the slash share an arena.
// Ranges are aligned to 256 bytes; scalars are packed before the inputs.
func.func @roles(
  %a: tensor<3xf32> {tg.name = "a", tg.role = "parameter"},
  %b: tensor<2xf32> {tg.name = "b", tg.role = "parameter"},
  %ma: tensor<3xf32> {tg.name = "m/a", tg.role = "state"},
  %mb: tensor<2xf32> {tg.name = "m/b", tg.role = "state"},
  %va: tensor<3xf32> {tg.name = "v/a", tg.role = "state"},
  %x: tensor<3xf32> {tg.name = "x", tg.role = "input"},
  %s: tensor<f32> {tg.name = "s", tg.role = "scalar", tg.formula = "step"},
  %t: tensor<f32> {tg.name = "t", tg.role = "scalar", tg.formula = "learning_rate"}
) -> (tensor<f32> {tg.name = "loss", tg.role = "output"}, tensor<3xf32> {tg.name = "a", tg.role = "gradient"}) {
  %loss = tg.sum %x axes = [0] : tensor<3xf32>
  %gradient = tg.neg %x : tensor<3xf32>
  func.return %loss, %gradient : tensor<f32>, tensor<3xf32>
}
// CHECK-LABEL: func.func @roles() attributes {buf.workspace_bytes = 0 : i64, buf.least_workspace_bytes = 0 : i64, buf.peak_bytes = 824 : i64} {
// CHECK: %0 = buf.arena "parameters" role = "parameter" : memref<264xi8>
// CHECK: %a = buf.view %0[0] attributes {tg.name = "a", tg.role = "parameter"} : memref<264xi8> to memref<3xf32>
// CHECK: %b = buf.view %0[256] attributes {tg.name = "b", tg.role = "parameter"} : memref<264xi8> to memref<2xf32>
// CHECK: %1 = buf.arena "m" role = "state" : memref<264xi8>
// CHECK: %ma = buf.view %1[0] attributes {tg.name = "m/a", tg.role = "state"} : memref<264xi8> to memref<3xf32>
// CHECK: %mb = buf.view %1[256] attributes {tg.name = "m/b", tg.role = "state"} : memref<264xi8> to memref<2xf32>
// CHECK: %2 = buf.arena "v" role = "state" : memref<12xi8>
// CHECK: %va = buf.view %2[0] attributes {tg.name = "v/a", tg.role = "state"} : memref<12xi8> to memref<3xf32>
// CHECK: %3 = buf.arena "inputs" role = "input" : memref<268xi8>
// CHECK: %s = buf.view %3[0] attributes {tg.name = "s", tg.role = "scalar", tg.formula = "step"} : memref<268xi8> to memref<f32>
// CHECK: %t = buf.view %3[4] attributes {tg.name = "t", tg.role = "scalar", tg.formula = "learning_rate"} : memref<268xi8> to memref<f32>
// CHECK: %x = buf.view %3[256] attributes {tg.name = "x", tg.role = "input"} : memref<268xi8> to memref<3xf32>
// CHECK: %4 = buf.arena "outputs" role = "output" : memref<4xi8>
// CHECK: %loss = buf.view %4[0] attributes {tg.name = "loss", tg.role = "output"} : memref<4xi8> to memref<f32>
// CHECK: %5 = buf.arena "gradients" role = "output" : memref<12xi8>
// CHECK: %gradient = buf.view %5[0] attributes {tg.name = "a", tg.role = "gradient"} : memref<12xi8> to memref<3xf32>
// CHECK: buf.kernel grid = [] ins(%x : memref<3xf32>) outs(%loss : memref<f32>) {
// CHECK: buf.kernel grid = [3] ins(%x : memref<3xf32>) outs(%gradient : memref<3xf32>) {
// CHECK-NOT: buf.
// CHECK: func.return

// Each buffer is dead after the next kernel, so the three live in two ranges of the workspace.
func.func @reuse(%x: tensor<128xf32>) -> tensor<128xf32> {
  %0 = tg.neg %x : tensor<128xf32>
  %1 = tg.exp %0 : tensor<128xf32>
  %2 = tg.sqrt %1 : tensor<128xf32>
  %3 = tg.log %2 : tensor<128xf32>
  func.return %3 : tensor<128xf32>
}
// CHECK-LABEL: func.func @reuse() attributes {buf.workspace_bytes = 1024 : i64, buf.least_workspace_bytes = 1024 : i64, buf.peak_bytes = 2048 : i64} {
// CHECK: %0 = buf.arena "inputs" role = "input" : memref<512xi8>
// CHECK: %x = buf.view %0[0] attributes {tg.name = "arg0", tg.role = "input"} : memref<512xi8> to memref<128xf32>
// CHECK: %1 = buf.arena "outputs" role = "output" : memref<512xi8>
// CHECK: %2 = buf.view %1[0] attributes {tg.name = "result0", tg.role = "output"} : memref<512xi8> to memref<128xf32>
// CHECK: %3 = buf.arena "workspace" role = "workspace" : memref<1024xi8>
// CHECK: %4 = buf.view %3[0] : memref<1024xi8> to memref<128xf32>
// CHECK: %5 = buf.view %3[512] : memref<1024xi8> to memref<128xf32>
// CHECK: %6 = buf.view %3[0] : memref<1024xi8> to memref<128xf32>
// CHECK: buf.kernel grid = [128] ins(%x : memref<128xf32>) outs(%4 : memref<128xf32>) {
// CHECK: buf.kernel grid = [128] ins(%4 : memref<128xf32>) outs(%5 : memref<128xf32>) {
// CHECK: buf.kernel grid = [128] ins(%5 : memref<128xf32>) outs(%6 : memref<128xf32>) {
// CHECK: buf.kernel grid = [128] ins(%6 : memref<128xf32>) outs(%2 : memref<128xf32>) {
// CHECK-NOT: buf.
// CHECK: func.return

// The parameter is updated in place: each element is read right before it is written.
func.func @in_place(%w: tensor<4xf32> {tg.name = "w", tg.role = "parameter"}) -> (tensor<4xf32> {tg.name = "w", tg.role = "update"}) {
  %0 = tg.neg %w : tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
// CHECK-LABEL: func.func @in_place() attributes {buf.workspace_bytes = 0 : i64, buf.least_workspace_bytes = 0 : i64, buf.peak_bytes = 16 : i64} {
// CHECK: %0 = buf.arena "parameters" role = "parameter" : memref<16xi8>
// CHECK: %w = buf.view %0[0] attributes {tg.name = "w", tg.role = "parameter"} : memref<16xi8> to memref<4xf32>
// CHECK: buf.kernel grid = [4] ins(%w : memref<4xf32>) outs(%w : memref<4xf32>) {
// CHECK-NOT: buf.
// CHECK: func.return

// Not updated in place: other elements are read than written. The update gets its own memory, and is copied at the end.
func.func @copied(%w: tensor<4xf32> {tg.name = "w", tg.role = "parameter"}) -> (tensor<4xf32> {tg.name = "w", tg.role = "update"}) {
  %0 = tg.reverse %w axes = [0] : tensor<4xf32>
  %1 = tg.neg %0 : tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
// CHECK-LABEL: func.func @copied() attributes {buf.workspace_bytes = 0 : i64, buf.least_workspace_bytes = 0 : i64, buf.peak_bytes = 32 : i64} {
// CHECK: %0 = buf.arena "parameters" role = "parameter" : memref<16xi8>
// CHECK: %w = buf.view %0[0] attributes {tg.name = "w", tg.role = "parameter"} : memref<16xi8> to memref<4xf32>
// CHECK: %1 = buf.arena "updates" role = "workspace" : memref<16xi8>
// CHECK: %2 = buf.view %1[0] : memref<16xi8> to memref<4xf32>
// CHECK: buf.kernel grid = [4] ins(%w : memref<4xf32>) outs(%2 : memref<4xf32>) {
// CHECK: "memref.copy"(%2, %w) : (memref<4xf32>, memref<4xf32>) -> ()
// CHECK-NOT: buf.
// CHECK: func.return

// A kernel that reads the old value runs before the in-place update, whatever the program order.
func.func @reordered(%w: tensor<4xf32> {tg.name = "w", tg.role = "parameter"}) -> (tensor<4xf32> {tg.name = "w", tg.role = "update"}, tensor<f32> {tg.name = "sum", tg.role = "output"}) {
  %0 = tg.neg %w : tensor<4xf32>
  %1 = tg.sum %w axes = [0] : tensor<4xf32>
  func.return %0, %1 : tensor<4xf32>, tensor<f32>
}
// CHECK-LABEL: func.func @reordered() attributes {buf.workspace_bytes = 0 : i64, buf.least_workspace_bytes = 0 : i64, buf.peak_bytes = 20 : i64} {
// CHECK: %0 = buf.arena "parameters" role = "parameter" : memref<16xi8>
// CHECK: %w = buf.view %0[0] attributes {tg.name = "w", tg.role = "parameter"} : memref<16xi8> to memref<4xf32>
// CHECK: %1 = buf.arena "outputs" role = "output" : memref<4xi8>
// CHECK: %2 = buf.view %1[0] attributes {tg.name = "sum", tg.role = "output"} : memref<4xi8> to memref<f32>
// CHECK: buf.kernel grid = [] ins(%w : memref<4xf32>) outs(%2 : memref<f32>) {
// CHECK: buf.kernel grid = [4] ins(%w : memref<4xf32>) outs(%w : memref<4xf32>) {
// CHECK-NOT: buf.
// CHECK: func.return

// A constant's view keeps the value as an attribute; an element of type i1 takes four bytes.
func.func @constants(%x: tensor<2xi1>) -> tensor<2xi1> {
  %0 = tg.constant value = dense<[true, false]> : tensor<2xi1>
  %1 = tg.and %x, %0 : tensor<2xi1>, tensor<2xi1>
  func.return %1 : tensor<2xi1>
}
// CHECK-LABEL: func.func @constants() attributes {buf.workspace_bytes = 0 : i64, buf.least_workspace_bytes = 0 : i64, buf.peak_bytes = 24 : i64} {
// CHECK: %0 = buf.arena "inputs" role = "input" : memref<8xi8>
// CHECK: %x = buf.view %0[0] attributes {tg.name = "arg0", tg.role = "input"} : memref<8xi8> to memref<2xi1>
// CHECK: %1 = buf.arena "constants" role = "constant" : memref<8xi8>
// CHECK: %2 = buf.view %1[0] attributes {tg.name = "constant0", tg.role = "constant", tg.value = dense<[true, false]> : tensor<2xi1>} : memref<8xi8> to memref<2xi1>
// CHECK: %3 = buf.arena "outputs" role = "output" : memref<8xi8>
// CHECK: %4 = buf.view %3[0] attributes {tg.name = "result0", tg.role = "output"} : memref<8xi8> to memref<2xi1>
// CHECK: buf.kernel grid = [2] ins(%x, %2 : memref<2xi1>, memref<2xi1>) outs(%4 : memref<2xi1>) {
// CHECK-NOT: buf.
// CHECK: func.return
