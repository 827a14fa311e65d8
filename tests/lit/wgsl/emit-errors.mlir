// RUN: tg-opt %s --split-input-file --print-diagnostics -t wgsl | filecheck %s

// An op that WGSL can't express is an error, which names its source line.
// CHECK: arith.constant at model.py:4: no WGSL for a constant of type f64
wgsl.kernel @k workgroup_size = [1, 1, 1] access = [] {
  %0 = arith.constant 1.0 : f64 loc("model.py":4:5)
}
