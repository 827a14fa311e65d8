// A pass rejects a module at the wrong level, instead of silently doing nothing.
// RUN: not tg-opt %s -p fuse 2>&1 | filecheck %s --check-prefix FUSE
// FUSE: tg-opt: error: fuse expects a module at level buf, this one is at level tg: run `lower-tg-to-buf` first
// RUN: not tg-opt %s -p schedule 2>&1 | filecheck %s --check-prefix SCHEDULE
// SCHEDULE: tg-opt: error: schedule expects a module at level buf or buf with a memory plan, this one is at level tg: run `lower-tg-to-buf` first
// RUN: not tg-opt %s -p lower-tg-to-buf,grad 2>&1 | filecheck %s --check-prefix GRAD
// GRAD: tg-opt: error: grad expects a module at level tg, this one is at level buf: run it before `lower-tg-to-buf`
// RUN: not tg-opt %s -p lower-tg-to-buf,plan-memory,plan-memory 2>&1 | filecheck %s --check-prefix PLAN
// PLAN: tg-opt: error: plan-memory expects a module at level buf, this one is at level buf with a memory plan: run it before `plan-memory`
// RUN: not tg-opt %s -p lower-tg-to-buf,schedule,lower-buf-to-wgsl 2>&1 | filecheck %s --check-prefix LOWER
// LOWER: tg-opt: error: lower-buf-to-wgsl expects a module at level buf with a memory plan, this one is at level buf: run `plan-memory` first
// RUN: not tg-opt %s -p lower-tg-to-buf,schedule,plan-memory,tile,lower-buf-to-wgsl 2>&1 | filecheck %s --check-prefix TILES
// TILES: tg-opt: error: lower-buf-to-wgsl expects a module at level buf with a memory plan, this one is at level buf with tiles: run it before `tile`
// RUN: not tg-opt %s -p inference-pipeline,order-kernels 2>&1 | filecheck %s --check-prefix ORDER
// ORDER: tg-opt: error: order-kernels expects a module at level buf, this one is at level wgsl: run it before `plan-memory`
// RUN: not tg-opt %s -p lower-tg-to-buf,share-dispatches 2>&1 | filecheck %s --check-prefix SHARE
// SHARE: tg-opt: error: share-dispatches expects a schedule on every kernel: run `schedule` first
// RUN: not tg-opt %s -p keep-ieee 2>&1 | filecheck %s --check-prefix KEEP
// KEEP: tg-opt: error: keep-ieee expects a module at level buf with a memory plan or wgsl, this one is at level tg: run `plan-memory` first
// RUN: not tg-opt %s -p expand-math 2>&1 | filecheck %s --check-prefix EXPAND
// EXPAND: tg-opt: error: expand-math expects a module at level buf with a memory plan or wgsl or cpu, this one is at level tg: run `plan-memory` first

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tg.neg %x : tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
