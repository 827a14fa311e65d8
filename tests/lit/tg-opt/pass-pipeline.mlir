// Nested pipelines: those on functions run on one function at a time.
// RUN: tg-opt %s -p simplify,lower-tg-to-buf,fuse > %t.flat
// RUN: tg-opt %s --pass-pipeline='builtin.module(func.func(simplify), any(lower-tg-to-buf,fuse))' > %t.nested
// RUN: cmp %t.flat %t.nested
// RUN: filecheck %s --input-file %t.nested
// CHECK: func.func @first(%x: memref<4xf32>
// CHECK: func.func @second(%x: memref<2xf32>
// RUN: tg-opt %s --pass-pipeline='builtin.module()' | filecheck %s --check-prefix NOTHING
// NOTHING: func.func @first(%x: tensor<4xf32>)

// The pipeline that runs.
// RUN: tg-opt %s --pass-pipeline='func.func(simplify,cse),inference-pipeline{target=lavapipe}' --dump-pass-pipeline 2>&1 > /dev/null | filecheck %s --check-prefix DUMP
// DUMP: builtin.module(func.func(simplify),func.func(cse),{{.*}}lower-tg-to-buf{{.*}},plan-memory{{.*}},expand-math

// RUN: not tg-opt %s --pass-pipeline='gpu.module(fuse)' 2>&1 | filecheck %s --check-prefix ANCHOR
// ANCHOR: tg-opt: error: passes run on builtin.module(...) or func.func(...), not on gpu.module(...)
// RUN: not tg-opt %s --pass-pipeline='func.func(func.func(cse))' 2>&1 | filecheck %s --check-prefix TWICE
// TWICE: tg-opt: error: func.func(...) is nested in itself
// RUN: not tg-opt %s --pass-pipeline='builtin.module(fuse' 2>&1 | filecheck %s --check-prefix OPEN
// OPEN: tg-opt: error: a parenthesis has no partner in the pipeline 'builtin.module(fuse'
// RUN: not tg-opt %s --pass-pipeline='builtin.module(cse))' 2>&1 | filecheck %s --check-prefix CLOSED
// CLOSED: tg-opt: error: a parenthesis has no partner in the pipeline 'builtin.module(cse))'
// RUN: not tg-opt %s -p 'cse,,dce' 2>&1 | filecheck %s --check-prefix COMMA
// COMMA: tg-opt: error: a pass is missing beside a comma in the pipeline 'cse,,dce'
// RUN: not tg-opt %s --pass-pipeline='builtin.module(func.func(fuze))' 2>&1 | filecheck %s --check-prefix NAME
// NAME: tg-opt: error: there is no pass or pipeline 'fuze'; did you mean fuse?

func.func @first(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tg.neg %x : tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

func.func @second(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = tg.exp %x : tensor<2xf32>
  func.return %0 : tensor<2xf32>
}
