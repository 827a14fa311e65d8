// RUN: %bin/tg-opt %s -p inference-pipeline -t wgsl | filecheck %s --check-prefix NAGA
// RUN: tg-opt %s -p 'inference-pipeline{target="{\"f16\": true}"}' -t 'wgsl{dialect=standard}' | filecheck %s --check-prefix STANDARD
// RUN: not tg-opt %s -t wgsl{dialect=metal} 2>&1 | filecheck %s --check-prefix ERROR

// Only `wgsl.kernel` ops are printed: a module without any is an error, not an empty file.
// RUN: not tg-opt %s -t wgsl 2>&1 | filecheck %s --check-prefix EARLY
// EARLY: tg-opt: error: the target wgsl prints wgsl.kernel ops and the module has none: lower it first

// NAGA-NOT: enable
// NAGA: // kernel: thread0
// NAGA: b1[v0] = -b0[v0];
// STANDARD: // kernel: thread0
// ERROR: tg-opt: error: Incompatible types: given ('metal',), expected typing.Literal['naga', 'standard']
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tg.neg %x : tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
