// RUN: not tg-opt --prove --split-input-file %s -o %t 2>&1 | filecheck %s

// CHECK: kernel  dialect  grid   bounds  races   barriers  results
// CHECK-NEXT: point   wgsl     2x1x1  proved  proved  proved    proved
wgsl.kernel @point workgroup_size = [64, 1, 1] access = ["read", "read_write"] {
^bb0(%x: memref<100xf32>, %y: memref<100xf32>):
  %i = wgsl.global_id dim = 0
  %n = arith.constant 100 : index
  %outside = arith.cmpi uge, %i, %n : index
  wgsl.return_if %outside
  %v = memref.load %x[%i] : memref<100xf32>
  memref.store %v, %y[%i] : memref<100xf32>
}
func.func @points() {
  %0 = buf.arena "arena" role = "workspace" : memref<1024xi8>
  %x = buf.view %0[0] : memref<1024xi8> to memref<100xf32>
  %y = buf.view %0[512] : memref<1024xi8> to memref<100xf32>
  buf.dispatch @point workgroups = [2, 1, 1] (%x, %y) : memref<100xf32>, memref<100xf32>
  func.return
}

// -----

// The guard lets one invocation too many through.
// CHECK: late    wgsl     2x1x1  refuted by z3
// CHECK-NEXT: late: bounds refuted: memref.load ({{.*}}mlir:{{[0-9]+}}) may be out of bounds, at 64 * workgroup_id.x + local_id.x of 100: local_id.x = 36, workgroup_id.x = 1
wgsl.kernel @late workgroup_size = [64, 1, 1] access = ["read", "read_write"] {
^bb0(%x: memref<100xf32>, %y: memref<100xf32>):
  %i = wgsl.global_id dim = 0
  %n = arith.constant 101 : index
  %outside = arith.cmpi uge, %i, %n : index
  wgsl.return_if %outside
  %v = memref.load %x[%i] : memref<100xf32>
  memref.store %v, %y[%i] : memref<100xf32>
}
func.func @lates() {
  %0 = buf.arena "arena" role = "workspace" : memref<1024xi8>
  %x = buf.view %0[0] : memref<1024xi8> to memref<100xf32>
  %y = buf.view %0[512] : memref<1024xi8> to memref<100xf32>
  buf.dispatch @late workgroups = [2, 1, 1] (%x, %y) : memref<100xf32>, memref<100xf32>
  func.return
}

// -----

// Each invocation reads what the next one wrote, without a barrier; the buffer's second half is not written.
// CHECK: rotate  wgsl     1x1x1  proved  refuted by z3  proved    {{unknown|proved}}
// CHECK-NEXT: rotate: races refuted: memref.store ({{.*}}mlir:{{[0-9]+}}) and memref.load ({{.*}}mlir:{{[0-9]+}}) of two invocations may use one element: local_id.x = {{[0-9]+}}, local_id.x' = {{[0-9]+}}
// CHECK-NEXT: rotate: results unknown: binding 0: 64 of 128 elements are written
wgsl.kernel @rotate workgroup_size = [64, 1, 1] access = ["read_write"] {
^bb0(%x: memref<128xf32>):
  %shared = wgsl.workgroup_alloc : memref<64xf32>
  %i = wgsl.local_index
  %v = memref.load %x[%i] : memref<128xf32>
  memref.store %v, %shared[%i] : memref<64xf32>
  %one = arith.constant 1 : index
  %size = arith.constant 64 : index
  %next = arith.addi %i, %one : index
  %around = arith.remui %next, %size : index
  %w = memref.load %shared[%around] : memref<64xf32>
  memref.store %w, %x[%i] : memref<128xf32>
}
func.func @rotates() {
  %0 = buf.arena "arena" role = "workspace" : memref<512xi8>
  %x = buf.view %0[0] : memref<512xi8> to memref<128xf32>
  buf.dispatch @rotate workgroups = [1, 1, 1] (%x) : memref<128xf32>
  func.return
}

// -----

// Half of the invocations reach the barrier; which element is read depends on data.
// CHECK: half    wgsl     1x1x1  unknown  proved  refuted by z3  proved
// CHECK-NEXT: half: bounds unknown: memref.load ({{.*}}mlir:{{[0-9]+}}) may be out of bounds, at wrapped(%p[local_id.x]) of 64: it depends on data, %p[local_id.x]
// CHECK-NEXT: half: barriers refuted: wgsl.barrier ({{.*}}mlir:{{[0-9]+}}) is not reached by all invocations: local_id.x = {{[0-9]+}}, local_id.x' = {{[0-9]+}}
wgsl.kernel @half workgroup_size = [64, 1, 1] access = ["read", "read", "read_write"] {
^bb0(%p: memref<64xi32>, %x: memref<64xf32>, %y: memref<64xf32>):
  %i = wgsl.local_index
  %n = arith.constant 32 : index
  %low = arith.cmpi ult, %i, %n : index
  scf.if %low {
    wgsl.barrier
  }
  %p_i = memref.load %p[%i] : memref<64xi32>
  %at = arith.index_cast %p_i : i32 to index
  %v = memref.load %x[%at] : memref<64xf32>
  memref.store %v, %y[%i] : memref<64xf32>
}
func.func @halves() {
  %0 = buf.arena "arena" role = "workspace" : memref<1024xi8>
  %p = buf.view %0[0] : memref<1024xi8> to memref<64xi32>
  %x = buf.view %0[256] : memref<1024xi8> to memref<64xf32>
  %y = buf.view %0[512] : memref<1024xi8> to memref<64xf32>
  buf.dispatch @half workgroups = [1, 1, 1] (%p, %x, %y) : memref<64xi32>, memref<64xf32>, memref<64xf32>
  func.return
}

// -----

// The bits that two numbers share are at most the smaller one: no id is read beyond the 16 elements.
// CHECK: common  wgsl     4x1x1  proved  proved  proved    proved
wgsl.kernel @common workgroup_size = [16, 1, 1] access = ["read", "read_write"] {
^bb0(%x: memref<16xf32>, %y: memref<64xf32>):
  %i = wgsl.global_id dim = 0
  %lane = wgsl.local_index
  %index = arith.andi %i, %lane : index
  %v = memref.load %x[%index] : memref<16xf32>
  memref.store %v, %y[%i] : memref<64xf32>
}
func.func @commons() {
  %0 = buf.arena "arena" role = "workspace" : memref<1024xi8>
  %x = buf.view %0[0] : memref<1024xi8> to memref<16xf32>
  %y = buf.view %0[512] : memref<1024xi8> to memref<64xf32>
  buf.dispatch @common workgroups = [4, 1, 1] (%x, %y) : memref<16xf32>, memref<64xf32>
  func.return
}

// -----

// Tasks overlap by an element, so two threads may write it.
// CHECK: tasks   cpu      2x1x1  proved  refuted by z3  proved    {{unknown|proved}}
cpu.kernel @tasks access = ["read_write"] {
^bb0(%y: memref<100xi32>, %first: index, %last: index):
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : index
  %grain = arith.constant 50 : index
  %n = arith.constant 100 : index
  %begin = arith.muli %first, %grain : index
  %stop = arith.muli %last, %grain : index
  %late = arith.addi %stop, %one : index
  %end = arith.minui %late, %n : index
  scf.for %i = %begin to %end step %one {
    memref.store %zero, %y[%i] : memref<100xi32>
  }
}
func.func @runs() {
  %0 = buf.arena "arena" role = "workspace" : memref<400xi8>
  %y = buf.view %0[0] : memref<400xi8> to memref<100xi32>
  buf.dispatch @tasks workgroups = [2, 1, 1] (%y) : memref<100xi32>
  func.return
}

// CHECK: tg-opt: error: kernel late: bounds: memref.load ({{.*}}mlir:{{[0-9]+}}) may be out of bounds
// CHECK: tg-opt: error: kernel tasks: races: memref.store ({{.*}}mlir:{{[0-9]+}}) and memref.store ({{.*}}mlir:{{[0-9]+}}) of two invocations may use one element
