// RUN: tg-opt %s -p 'training-pipeline{function=loss optimizer="adam(eps=1e-7)" target=lavapipe}' > %t.whole
// RUN: tg-opt %s -p 'trace-optimizer{optimizer="adam(eps=1e-7)" function=loss},simplify,grad{function=loss},pack-updates{function=loss},append-updates{function=loss},inline-calls{recompute=false},simplify,inline-calls,recompute,lower-tg-to-buf,fuse{target=lavapipe},schedule{target=lavapipe},share-dispatches{target=lavapipe},plan-memory{target=lavapipe},lower-buf-to-wgsl{target=lavapipe},keep-ieee,expand-math' > %t.parts
// RUN: cmp %t.whole %t.parts

// Pass by pass: each process parses the IR that the previous one printed.
// RUN: tg-opt %s -p 'trace-optimizer{optimizer="adam(eps=1e-7)"}' | tg-opt -p simplify | tg-opt -p grad | tg-opt -p pack-updates | tg-opt -p append-updates | tg-opt -p 'inline-calls{recompute=false}' | tg-opt -p simplify | tg-opt -p inline-calls | tg-opt -p recompute | tg-opt -p lower-tg-to-buf | tg-opt -p 'fuse{target=lavapipe}' | tg-opt -p 'schedule{target=lavapipe}' | tg-opt -p 'share-dispatches{target=lavapipe}' | tg-opt -p 'plan-memory{target=lavapipe}' | tg-opt -p 'lower-buf-to-wgsl{target=lavapipe}' | tg-opt -p keep-ieee | tg-opt -p expand-math > %t.steps
// RUN: cmp %t.whole %t.steps

// The same with upstream's driver, which finds the passes through their entry points.
// RUN: xdsl-opt %s -p 'trace-optimizer{optimizer="adam(eps=1e-7)"},simplify,grad,pack-updates,append-updates,inline-calls{recompute=false},simplify,inline-calls,recompute,lower-tg-to-buf,fuse{target="lavapipe"},schedule{target="lavapipe"},share-dispatches{target="lavapipe"},plan-memory{target="lavapipe"},lower-buf-to-wgsl{target="lavapipe"},keep-ieee,expand-math' -t tg-wgsl > %t.upstream
// RUN: tg-opt %t.whole -f mlir -t wgsl > %t.wgsl
// RUN: cmp %t.wgsl %t.upstream
// RUN: filecheck %s --input-file %t.wgsl

// CHECK: // kernel: {{.*}}
// CHECK: @compute @workgroup_size(8, 1, 1)

// Another optimizer, no optimizer, and inference.
// RUN: tg-opt %s -p 'training-pipeline{optimizer="sgd(0.1, momentum=0.9, nesterov=True)"}' > %t.whole
// RUN: tg-opt %s -p 'trace-optimizer{optimizer="sgd(0.1, momentum=0.9, nesterov=True)"},simplify,grad,pack-updates,append-updates,inline-calls{recompute=false},simplify,inline-calls,recompute,lower-tg-to-buf,fuse,schedule,share-dispatches,plan-memory,lower-buf-to-wgsl,keep-ieee,expand-math' > %t.parts
// RUN: cmp %t.whole %t.parts
// RUN: tg-opt %s -p 'training-pipeline{optimizer=none}' > %t.whole
// RUN: tg-opt %s -p 'simplify,grad,inline-calls{recompute=false},simplify,inline-calls,recompute,lower-tg-to-buf,fuse,schedule,share-dispatches,plan-memory,lower-buf-to-wgsl,keep-ieee,expand-math' > %t.parts
// RUN: cmp %t.whole %t.parts
// RUN: tg-opt %s -p 'inference-pipeline{target="webgpu-default"}' > %t.whole
// RUN: tg-opt %s -p 'inline-calls{recompute=false},simplify,inline-calls,recompute,lower-tg-to-buf,fuse,schedule,share-dispatches,plan-memory,lower-buf-to-wgsl,keep-ieee,expand-math' > %t.parts
// RUN: cmp %t.whole %t.parts

// A pipeline expands into its passes: each is printed and timed on its own, and upstream's passes can be mixed in.
// RUN: tg-opt %s -p 'canonicalize,inference-pipeline,cse' --print-between-passes --time-passes | filecheck %s --check-prefix BETWEEN
// BETWEEN: Pass canonicalize took
// BETWEEN: IR after canonicalize:
// BETWEEN: tg.dot_general
// BETWEEN: Pass inline-calls took
// BETWEEN: Pass simplify took
// BETWEEN: IR after simplify:
// BETWEEN: tg.dot_general
// BETWEEN: Pass lower-tg-to-buf took
// BETWEEN: IR after lower-tg-to-buf:
// BETWEEN: buf.kernel
// BETWEEN: IR after fuse:
// BETWEEN: IR after schedule:
// BETWEEN: schedule =
// BETWEEN: IR after share-dispatches:
// BETWEEN: IR after plan-memory:
// BETWEEN: buf.arena
// BETWEEN: IR after lower-buf-to-wgsl:
// BETWEEN: wgsl.kernel
// BETWEEN: IR after expand-math:
// BETWEEN: Pass cse took

func.func @loss(%w: tensor<3x2xf32> {tg.name = "w", tg.role = "parameter"}, %x: tensor<16x3xf32> {tg.name = "x", tg.role = "input"}) -> (tensor<f32> {tg.name = "loss", tg.role = "output"}) {
  %half = tg.constant value = dense<5.000000e-01> : tensor<16x2xf32>
  %0 = tg.dot_general %x, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<16x3xf32>, tensor<3x2xf32>
  %1 = tg.tanh %0 : tensor<16x2xf32>
  %2 = tg.mul %1, %1 : tensor<16x2xf32>, tensor<16x2xf32>
  %3 = tg.mul %2, %half : tensor<16x2xf32>, tensor<16x2xf32>
  %4 = tg.sum %3 axes = [0, 1] : tensor<16x2xf32>
  func.return %4 : tensor<f32>
}
