// Passes as flags, with options after `=`, in the order in which they are written, after one dash or two.
// RUN: tg-opt %s -p 'simplify,lower-tg-to-buf,fuse{only=inline,epilogue}' > %t.passes
// RUN: tg-opt --simplify %s --lower-tg-to-buf --fuse='only=inline,epilogue' > %t.flags
// RUN: cmp %t.passes %t.flags
// RUN: tg-opt -simplify -lower-tg-to-buf -fuse=only=inline,epilogue %s -o %t.dash
// RUN: cmp %t.passes %t.dash
// RUN: tg-opt %s --inference-pipeline='target=lavapipe' | filecheck %s --check-prefix PIPELINE
// PIPELINE: wgsl.kernel
// RUN: tg-opt %s -load %S/Inputs/own_passes.py --cse --rename-functions='prefix="my_"' | filecheck %s --check-prefix LOADED
// LOADED: func.func @my_f

// Standard input, standard output, and a file that is its own input.
// RUN: tg-opt - --simplify --lower-tg-to-buf --fuse=only=inline,epilogue -o - < %s > %t.stdin
// RUN: cmp %t.passes %t.stdin
// RUN: cp %s %t.text
// RUN: tg-opt %t.text --simplify --lower-tg-to-buf --fuse=only=inline,epilogue -o %t.text
// RUN: cmp %t.passes %t.text
// RUN: not tg-opt %t.text --grad -o %t.text
// RUN: cmp %t.passes %t.text
// RUN: rm -rf %t.folder
// RUN: tg-opt %s --simplify --lower-tg-to-buf --fuse=only=inline,epilogue -o %t.folder/inner/out.mlir
// RUN: cmp %t.passes %t.folder/inner/out.mlir
// RUN: not tg-opt - < %S/bad-syntax.mlir 2>&1 | filecheck %s --check-prefix STDIN
// STDIN: tg-opt: error: <stdin>:8:15

// RUN: tg-opt %s --mlir-print-op-generic | filecheck %s --check-prefix GENERIC
// GENERIC: "tg.neg"(%x)
// RUN: tg-opt %s --mlir-print-debuginfo | filecheck %s --check-prefix DEBUGINFO
// DEBUGINFO: loc(unknown)
// RUN: tg-opt --show-dialects | filecheck %s --check-prefix DIALECTS
// DIALECTS: Available Dialects: {{.*}},arith,{{.*}},buf,{{.*}},tg,{{.*}},wgsl,
// RUN: tg-opt --list-passes | filecheck %s --check-prefix LIST
// LIST: training-pipeline
// LIST: fuse
// LIST: options: target=webgpu-default, only, all-prologues=false

// What doesn't exist, with what is close to it; usage errors have the status 2, as errors of the input have 1.
// RUN: not tg-opt %s --fuze 2>&1 | filecheck %s --check-prefix FLAG
// FLAG: unrecognized arguments: --fuze (did you mean --fuse?)
// RUN: not tg-opt %s -split-input-fil 2>&1 | filecheck %s --check-prefix DASH
// DASH: unrecognized arguments: -split-input-fil (did you mean --split-input-file?)
// RUN: not tg-opt %s --fuse=onli=inline 2>&1 | filecheck %s --check-prefix OPTION
// OPTION: fuse has no option 'onli'; did you mean only?
// RUN: not tg-opt %s --fuse -p simplify 2>&1 | filecheck %s --check-prefix BOTH
// BOTH: passes are flags, or in --passes, or in --pass-pipeline: only one of these

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tg.neg %x : tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
