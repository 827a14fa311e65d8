// Invalid options, names and files are each reported in one message, and the exit status is nonzero.
// RUN: not tg-opt %s -p 'training-pipeline{optimizer=newton}' 2>&1 | filecheck %s --check-prefix OPTIMIZER
// OPTIMIZER: tg-opt: error: trace-optimizer: there is no optimizer 'newton'; the optimizers are {{.*}}adafactor, adagrad, adam, adamw,
// RUN: not tg-opt %s -p 'training-pipeline' 2>&1 | filecheck %s --check-prefix MISSING
// MISSING: tg-opt: error: training-pipeline: optimizer must be a single word or string
// RUN: not tg-opt %s -p 'training-pipeline{optimizer=none eps=0.1}' 2>&1 | filecheck %s --check-prefix NONE
// NONE: tg-opt: error: training-pipeline has no option 'eps' (its options are function, loss-scale, optimizer, precision, target)
// RUN: not tg-opt %s -p 'training-pipeline{optimizer=sgd eps=0.1}' 2>&1 | filecheck %s --check-prefix SGD
// SGD: tg-opt: error: training-pipeline has no option 'eps' (its options are function, loss-scale, optimizer, precision, target)
// RUN: not tg-opt %s -p 'inference-pipeline{function=f}' 2>&1 | filecheck %s --check-prefix INFERENCE
// INFERENCE: tg-opt: error: inference-pipeline has no option 'function' (its options are loss-scale, precision, target)
// RUN: not tg-opt %s -p 'inference-pipeline{target=1}' 2>&1 | filecheck %s --check-prefix TARGET
// TARGET: tg-opt: error: inference-pipeline: target must be a single word or string
// RUN: not tg-opt %s -p 'inference-pipeline{target=mine}' 2>&1 | filecheck %s --check-prefix PROFILE
// PROFILE: tg-opt: error: target 'mine' is not a profile (cpu, lavapipe, webgpu-default), no inline JSON, and no file
// RUN: not tg-opt %s -p 'simplfy' 2>&1 | filecheck %s --check-prefix PASS
// PASS: tg-opt: error: there is no pass or pipeline 'simplfy'; did you mean simplify?
// RUN: not tg-opt %s -p 'fuse{onli=inline}' 2>&1 | filecheck %s --check-prefix OPTION
// OPTION: tg-opt: error: fuse has no option 'onli'; did you mean only? (its options are all-prologues, only, target)
// RUN: not tg-opt %s -p 'lower-tg-to-buf,tile{steps=-1}' 2>&1 | filecheck %s --check-prefix STEPS
// STEPS: tg-opt: error: tile: steps must be at least 0, got -1
// RUN: not tg-opt %s -p 'lower-tg-to-buf,split-reductions{parts=-3}' 2>&1 | filecheck %s --check-prefix PARTS
// PARTS: tg-opt: error: split-reductions: parts must be at least 0, got -3
// RUN: not tg-opt %s -t wat 2>&1 | filecheck %s --check-prefix OUTPUT
// OUTPUT: argument -t/--target: invalid choice: 'wat' (choose from {{.*}}mlir{{.*}}, {{.*}}wgsl
// RUN: not tg-opt %s -p 'fuse{' 2>&1 | filecheck %s --check-prefix SYNTAX
// SYNTAX: tg-opt: error: Error parsing pass pipeline specification:
// RUN: not tg-opt nowhere.mlir 2>&1 | filecheck %s --check-prefix FILE
// FILE: tg-opt: error: {{.*}}No such file or directory: 'nowhere.mlir'
// RUN: not tg-opt %s -t pdf 2>&1 | filecheck %s --check-prefix FORMAT
// FORMAT: tg-opt: error: argument -t/--target: invalid choice: 'pdf'

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}
