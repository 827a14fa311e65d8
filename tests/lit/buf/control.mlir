// RUN: TG_ROUNDTRIP

func.func private @step(%w: memref<4xf32>, %h: memref<4xf32> {tg.name = "h", tg.role = "state"}, %x: memref<4xf32>, %n: memref<4xf32> {tg.name = "h", tg.role = "update"}, %y: memref<4xf32>) {
  func.return
}

func.func private @copy(%w: memref<4xf32>, %y: memref<4xf32>) {
  func.return
}

func.func @before(%w: memref<4xf32>, %x: memref<8x4xf32>, %p: memref<i1>, %y: memref<8x4xf32>, %z: memref<4xf32>) {
  %h = memref.alloc() : memref<4xf32>
  %last = memref.alloc() : memref<4xf32>
  buf.run @copy consts(%w : memref<4xf32>) stacks(%h : memref<4xf32>)
  buf.run @step length = 8 reverse consts(%w : memref<4xf32>) init(%h : memref<4xf32>) over(%x : memref<8x4xf32>) last(%last : memref<4xf32>) stacks(%y : memref<8x4xf32>)
  buf.choose @copy @copy if(%p : memref<i1>) consts(%last : memref<4xf32>) outs(%z : memref<4xf32>)
  func.return
}

func.func @after() {
  %0 = buf.arena "counters" role = "counter" : memref<2048xi8>
  %1 = buf.view %0[0] : memref<2048xi8> to memref<512xi32>
  %2 = buf.arena "inputs" role = "input" : memref<512xi8>
  %3 = buf.view %2[0] : memref<512xi8> to memref<32xf32>
  %4 = buf.view %2[256] : memref<512xi8> to memref<i1>
  %5 = buf.arena "branches0" role = "workspace" : memref<12xi8>
  %6 = buf.view %5[0] : memref<12xi8> to memref<3xi32>
  buf.repeat count = 8 {
  ^bb0(%i: index):
    %7 = buf.row %1[%i] at affine_map<(d0) -> (d0 * 64)> : memref<512xi32> to memref<1xi32>
    %8 = buf.row %3[%i] at affine_map<(d0) -> (d0 * 4)> : memref<32xf32> to memref<4xf32>
    buf.dispatch @k workgroups = [1, 1, 1] (%3, %7) : memref<32xf32>, memref<1xi32>
  }
  buf.branch %4 : memref<i1> {
    buf.dispatch @indirect workgroups = [2, 1, 1] indirect(%6 : memref<3xi32>) (%3) : memref<32xf32>
  } else {
  }
  func.return
}
// CHECK-LABEL: func.func @before(
// CHECK:         buf.run @copy consts(%w : memref<4xf32>) stacks(%h : memref<4xf32>)
// CHECK-NEXT:    buf.run @step length = 8 reverse consts(%w : memref<4xf32>) init(%h : memref<4xf32>) over(%x : memref<8x4xf32>) last(%last : memref<4xf32>) stacks(%y : memref<8x4xf32>)
// CHECK-NEXT:    buf.choose @copy @copy if(%p : memref<i1>) consts(%last : memref<4xf32>) outs(%z : memref<4xf32>)
// CHECK-LABEL: func.func @after()
// CHECK:         buf.repeat count = 8 {
// CHECK-NEXT:    ^bb0(%i: index):
// CHECK-NEXT:      %7 = buf.row %1[%i] at affine_map<(d0) -> ((d0 * 64))> : memref<512xi32> to memref<1xi32>
// CHECK-NEXT:      %8 = buf.row %3[%i] at affine_map<(d0) -> ((d0 * 4))> : memref<32xf32> to memref<4xf32>
// CHECK-NEXT:      buf.dispatch @k workgroups = [1, 1, 1] (%3, %7) : memref<32xf32>, memref<1xi32>
// CHECK-NEXT:    }
// CHECK-NEXT:    buf.branch %4 : memref<i1> {
// CHECK-NEXT:      buf.dispatch @indirect workgroups = [2, 1, 1] indirect(%6 : memref<3xi32>) (%3) : memref<32xf32>
// CHECK-NEXT:    } else {
// CHECK-NEXT:    }

wgsl.kernel @k workgroup_size = [8, 1, 1] access = ["read_write", "read"] {
^bb0(%x: memref<32xf32>, %i: memref<1xi32>):
}

wgsl.kernel @indirect workgroup_size = [8, 1, 1] access = ["read_write"] {
^bb0(%x: memref<32xf32>):
}
