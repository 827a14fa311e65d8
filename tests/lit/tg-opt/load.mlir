// User-defined passes, and the errors when they crash, leave invalid IR or can't be loaded.
// RUN: tg-opt %s --load %S/Inputs/own_passes.py -p 'simplify,rename-functions{prefix="my_"}' | filecheck %s
// CHECK: func.func @my_f
// RUN: not tg-opt %s --load %S/Inputs/own_passes.py -p 'rename-functions,crash{depth=3}' 2>&1 | filecheck %s --check-prefix CRASH
// CRASH: tg-opt: error: crash crashed at own_passes.py:{{[0-9]+}}, in apply: IndexError: depth 3; the module before it is in {{.*}}crash-{{.*}}.mlir, whose first line says how to run it again
// RUN: not tg-opt %s --load %S/Inputs/own_passes.py -p 'rename-functions,return-first' 2>&1 | filecheck %s --check-prefix INVALID
// INVALID: tg-opt: error: return-first left invalid IR: operand 0 of func.return is the result of tg.neg that is not defined before it
// RUN: not tg-opt %s --load %s 2>&1 | filecheck %s --check-prefix PYTHON
// PYTHON: tg-opt: error: --load takes Python files
// RUN: not tg-opt %s --load %S/../lit.cfg.py 2>&1 | filecheck %s --check-prefix FAILS
// FAILS: tg-opt: error: {{.*}}lit.cfg.py failed as it was loaded: KeyError: 'config'

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tg.neg %x : tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
