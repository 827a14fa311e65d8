// The module between passes goes to standard error, so that the output stays IR.
// RUN: tg-opt %s --simplify --cse --lower-tg-to-buf --mlir-print-ir-after-all 2>&1 > /dev/null | filecheck %s --check-prefix ALL
// ALL: // -----// IR Dump After SimplifyPass (simplify) //----- //
// ALL-NEXT: builtin.module {
// ALL: tg.neg
// ALL: // -----// IR Dump After CommonSubexpressionElimination (cse) //----- //
// ALL: // -----// IR Dump After LowerTgToBufPass (lower-tg-to-buf) //----- //
// ALL: buf.kernel
// RUN: tg-opt %s --simplify --lower-tg-to-buf --print-ir-after-all 2> /dev/null | tg-opt | filecheck %s --check-prefix OUTPUT
// OUTPUT-NOT: IR Dump
// OUTPUT: buf.kernel

// RUN: tg-opt %s --simplify --lower-tg-to-buf --print-ir-before-all 2>&1 > /dev/null | filecheck %s --check-prefix BEFORE
// BEFORE: IR Dump Before SimplifyPass (simplify)
// BEFORE: IR Dump Before LowerTgToBufPass (lower-tg-to-buf)
// BEFORE: tg.neg
// BEFORE-NOT: buf.kernel
// RUN: tg-opt %s --simplify --lower-tg-to-buf --fuse --print-ir-before=fuse --print-ir-after=lower-tg-to-buf,simplify 2>&1 > /dev/null | filecheck %s --check-prefix NAMED
// NAMED: IR Dump After SimplifyPass (simplify)
// NAMED: IR Dump After LowerTgToBufPass (lower-tg-to-buf)
// NAMED: IR Dump Before FusePass (fuse)
// NAMED-NOT: IR Dump

// Only what a pass changed; nested passes are named too.
// RUN: tg-opt %s --pass-pipeline='func.func(cse),lower-tg-to-buf' --print-ir-after-change --print-op-generic 2>&1 > /dev/null | filecheck %s --check-prefix CHANGE
// CHANGE-NOT: (cse)
// CHANGE: IR Dump After LowerTgToBufPass (lower-tg-to-buf)
// CHANGE: "buf.kernel"
// RUN: tg-opt %s --pass-pipeline='func.func(cse),lower-tg-to-buf' --print-ir-after=cse --print-ir-after-change 2>&1 > /dev/null | filecheck %s --check-prefix NONE --allow-empty
// NONE-NOT: IR Dump
// RUN: tg-opt %s --pass-pipeline='func.func(cse)' --print-ir-after=cse 2>&1 > /dev/null | filecheck %s --check-prefix NESTED
// NESTED: IR Dump After CommonSubexpressionElimination (cse)

// The module that a failed pass leaves, whether it refuses, crashes or leaves invalid IR.
// RUN: not tg-opt %s --simplify --fuse --print-ir-after-failure 2>&1 | filecheck %s --check-prefix REFUSED
// REFUSED-NOT: (simplify)
// REFUSED: IR Dump After FusePass Failed (fuse)
// REFUSED: tg-opt: error: fuse expects
// RUN: not tg-opt %s --load %S/Inputs/own_passes.py --crash --print-ir-after-failure 2>&1 | filecheck %s --check-prefix CRASHED
// CRASHED: IR Dump After CrashPass Failed (crash)
// RUN: not tg-opt %s --load %S/Inputs/own_passes.py --return-first --print-ir-after-failure 2>&1 | filecheck %s --check-prefix INVALID
// INVALID: IR Dump After ReturnFirstPass Failed (return-first)

// RUN: tg-opt %s --simplify --lower-tg-to-buf --mlir-timing 2>&1 > /dev/null | filecheck %s --check-prefix TIMING
// TIMING: Total Execution Time: {{[0-9.]+}} seconds
// TIMING: ----Wall Time----  ----Name----
// TIMING: {{[0-9.]+}} ({{.*}}%)  simplify
// TIMING: {{[0-9.]+}} ({{.*}}%)  lower-tg-to-buf
// TIMING: (100.0%)  Total
// RUN: not tg-opt %s --simplify --print-ir-after=simplfy 2>&1 | filecheck %s --check-prefix NAME
// NAME: tg-opt: error: there is no pass or pipeline 'simplfy'; did you mean simplify?

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tg.neg %x : tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
