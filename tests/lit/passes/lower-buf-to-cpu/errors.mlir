// RUN: not tg-opt %s -p 'lower-tg-to-buf,fuse,schedule,plan-memory,lower-buf-to-cpu' 2>&1 | filecheck %s --check-prefix SHADERS
// RUN: not tg-opt %s -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-wgsl' 2>&1 | filecheck %s --check-prefix NATIVE
// RUN: not tg-opt %s -p 'lower-tg-to-buf,lower-buf-to-cpu' 2>&1 | filecheck %s --check-prefix EARLY
// RUN: not tg-opt %s -t llvm 2>&1 | filecheck %s --check-prefix NONE
// RUN: not tg-opt %s -t asm 2>&1 | filecheck %s --check-prefix ASM

// SHADERS: is scheduled for shaders (thread): run `schedule` with a target whose language is llvm
// NATIVE: is scheduled for native code (loops): lower-buf-to-cpu writes it
// EARLY: lower-buf-to-cpu expects a module at level buf with a memory plan, this one is at level buf: run `plan-memory` first
// NONE: the target llvm prints llvm.func ops and the module has none: lower it first
// ASM: the target asm prints llvm.func ops and the module has none: lower it first
func.func @negated(%x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = tg.neg %x : tensor<64xf32>
  func.return %0 : tensor<64xf32>
}
