// tensorgrad's passes are listed first, each with a one-line summary and its options.
// RUN: %bin/tg-opt --help | filecheck %s
// CHECK: usage: tg-opt
// CHECK: --load FILE
// CHECK: pipelines:
// CHECK: training-pipeline
// CHECK: passes, in the order in which they run:
// CHECK: simplify
// CHECK-NEXT: Folds constants
// CHECK: fuse
// CHECK: options: target=webgpu-default, only, all-prologues=false
// CHECK: xDSL's passes:
// CHECK: canonicalize
// RUN: %bin/tg-opt --version | filecheck %s --check-prefix VERSION
// VERSION: tg-opt {{[0-9.]+}} (xdsl 0.74.0)
