// RUN: not tg-opt %s -p 'fuse{only=fast,inline}' 2>&1 | filecheck %s --check-prefix RULE
// RUN: not tg-opt %s -p 'fuse{target=unheard-of}' 2>&1 | filecheck %s --check-prefix TARGET
// RUN: not tg-opt %s -p 'fuse{target="{\"lanes\": 8}"}' 2>&1 | filecheck %s --check-prefix FIELD

// RULE: tg-opt: error: fuse has no rule fast; the rules are inline, recompute, epilogue, prologue, row, siblings
// TARGET: tg-opt: error: fuse: target 'unheard-of' is not a profile (cpu, lavapipe, webgpu-default)
// FIELD: tg-opt: error: fuse: unknown target fields: lanes; the fields are name,
func.func @f() {
  func.return
}
