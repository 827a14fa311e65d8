// RUN: tg-opt %s --split-input-file -p 'relay-loops{target="{\"max_loop_iterations\": 400, \"subgroup_size\": 8}"}' | filecheck %s
// RUN: tg-opt %s --split-input-file -p 'relay-loops{target=webgpu-default}' | filecheck %s --check-prefix UNLIMITED
// RUN: tg-opt %s --split-input-file -p 'relay-loops{relays=3 inner}' | filecheck %s --check-prefix FORCED
// UNLIMITED-NOT: wgsl.barrier

// Two relays share a loop that is too long for one invocation. The bounds check, an early return, moves to the store.
// CHECK:      wgsl.kernel @sums workgroup_size = [16, 1, 1] access = ["read", "read_write"] attributes {wgsl.iterations = 306 : i64} {
// CHECK-NEXT: ^bb0(%x: memref<3600xf32>, %y: memref<6xf32>):
// CHECK-NEXT:   %[[HELD:.*]] = wgsl.workgroup_alloc : memref<8xf32>
// CHECK-NEXT:   %[[LANE:.*]] = wgsl.local_id dim = 0
// CHECK-NEXT:   %[[EIGHT:.*]] = arith.constant 8 : index
// CHECK-NEXT:   %[[NUMBER:.*]] = arith.divui %[[LANE]], %[[EIGHT]] : index
// CHECK-NEXT:   %[[PLACE:.*]] = arith.remui %[[LANE]], %[[EIGHT]] : index
// CHECK-NEXT:   %[[GROUP:.*]] = wgsl.workgroup_id dim = 0
// CHECK-NEXT:   %[[START:.*]] = arith.muli %[[GROUP]], %[[EIGHT]] : index
// CHECK-NEXT:   %[[ROW:.*]] = arith.addi %[[START]], %[[PLACE]] : index
// CHECK:        %[[FIRST:.*]] = arith.cmpi eq, %[[NUMBER]], %{{.*}} : index
// CHECK-NOT:    wgsl.return_if
// CHECK:        %[[STORES:.*]] = arith.andi %[[FIRST]], %{{.*}} : i1
// CHECK-NOT:    wgsl.barrier
// CHECK:        scf.if %[[FIRST]] {
// CHECK-NEXT:     memref.store %zero, %[[HELD]][%[[PLACE]]] : memref<8xf32>
// CHECK-NEXT:   }
// CHECK-NOT:    wgsl.barrier
// CHECK:        scf.for %[[TURN:.*]] = %{{.*}} to %{{.*}} step %{{.*}} {
// CHECK-NEXT:     %[[MINE:.*]] = arith.cmpi eq, %[[NUMBER]], %[[TURN]] : index
// CHECK-NEXT:     scf.if %[[MINE]] {
// CHECK:            %[[HIGH:.*]] = arith.minui %{{.*}}, %c600 : index
// CHECK-NEXT:       %[[OLD:.*]] = memref.load %[[HELD]][%[[PLACE]]] : memref<8xf32>
// CHECK-NEXT:       %[[NEW:.*]] = scf.for %i = %{{.*}} to %[[HIGH]] step %c1 iter_args(%held = %[[OLD]]) -> (f32) {
// CHECK:            } {buf.most_trips = 300 : i64}
// CHECK-NEXT:       memref.store %[[NEW]], %[[HELD]][%[[PLACE]]] : memref<8xf32>
// CHECK-NEXT:     }
// CHECK-NEXT:     wgsl.barrier {storage = true}
// CHECK-NEXT:   }
// CHECK-NEXT:   %total = memref.load %[[HELD]][%[[PLACE]]] : memref<8xf32>
// CHECK-NEXT:   scf.if %[[STORES]] {
// CHECK-NEXT:     memref.store %total, %y[%[[ROW]]] : memref<6xf32>
wgsl.kernel @sums workgroup_size = [8, 1, 1] access = ["read", "read_write"] {
^bb0(%x: memref<3600xf32>, %y: memref<6xf32>):
  %row = wgsl.global_id dim = 0
  %c6 = arith.constant 6 : index
  %outside = arith.cmpi uge, %row, %c6 : index
  wgsl.return_if %outside
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c600 = arith.constant 600 : index
  %zero = arith.constant 0.0 : f32
  %total = scf.for %i = %c0 to %c600 step %c1 iter_args(%held = %zero) -> (f32) {
    %at = arith.muli %i, %c6 : index
    %place = arith.addi %at, %row : index
    %value = memref.load %x[%place] : memref<3600xf32>
    %new = arith.addf %held, %value : f32
    scf.yield %new : f32
  }
  memref.store %total, %y[%row] : memref<6xf32>
}

// -----

// The limit is on the iterations of an invocation, not of a loop: two loops that only together exceed it are shared. A
// loop nested in a shared one runs as part of it.
// CHECK: wgsl.kernel @together workgroup_size = [16, 1, 1] {{.*}} attributes {wgsl.iterations = 309 : i64} {
// FORCED: wgsl.kernel @together workgroup_size = [24, 1, 1]
wgsl.kernel @together workgroup_size = [8, 1, 1] access = ["read_write"] {
^bb0(%y: memref<2048xf32>):
  %lane = wgsl.local_index
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %c300 = arith.constant 300 : index
  %one = arith.constant 1.0 : f32
  // CHECK: scf.for
  // CHECK: %[[MINE:.*]] = arith.cmpi eq
  // CHECK: scf.if %[[MINE]] {
  // CHECK: memref.store %one, %y
  scf.for %i = %c0 to %c300 step %c1 {
    memref.store %one, %y[%i] : memref<2048xf32>
  }
  // CHECK: %[[MINE:.*]] = arith.cmpi eq
  // CHECK: scf.if %[[MINE]] {
  // FORCED: scf.for %{{.*}} = %c0 to %c16 step %c1 {
  // FORCED-NOT: wgsl.barrier
  // FORCED: scf.for
  // FORCED: wgsl.barrier {storage = true}
  scf.for %outer = %c0 to %c16 step %c1 {
    scf.for %j = %c0 to %c16 step %c1 {
      memref.store %one, %y[%j] : memref<2048xf32>
    }
  }
}

// -----

// A barrier separates the relays' loads of the first loop's result from the store that initializes the second loop.
// CHECK: wgsl.kernel @twice workgroup_size = [16, 1, 1]
wgsl.kernel @twice workgroup_size = [8, 1, 1] access = ["read_write"] {
^bb0(%y: memref<2048xf32>):
  %lane = wgsl.local_index
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c300 = arith.constant 300 : index
  %one = arith.constant 1.0 : f32
  // CHECK: %[[HELD:.*]] = wgsl.workgroup_alloc
  // CHECK: memref.store %one, %[[HELD]]
  // CHECK: wgsl.barrier {storage = true}
  // CHECK: %sum = memref.load %[[HELD]]
  %sum = scf.for %i = %c0 to %c300 step %c1 iter_args(%held = %one) -> (f32) {
    %new = arith.addf %held, %one : f32
    scf.yield %new : f32
  }
  // CHECK-NEXT: wgsl.barrier {storage = true}
  // CHECK: memref.store %sum, %[[HELD]]
  // CHECK-NOT: wgsl.barrier
  // CHECK: scf.for
  %product = scf.for %i = %c0 to %c300 step %c1 iter_args(%held = %sum) -> (f32) {
    %new = arith.mulf %held, %one : f32
    scf.yield %new : f32
  }
  memref.store %product, %y[%lane] : memref<2048xf32>
}

// -----

// A trip count loaded from memory is bounded by `buf.most_trips`; this loop never exceeds the limit and is unchanged.
// CHECK: wgsl.kernel @computed workgroup_size = [8, 1, 1] access = ["read", "read_write"] {
wgsl.kernel @computed workgroup_size = [8, 1, 1] access = ["read", "read_write"] {
^bb0(%n: memref<2xi32>, %y: memref<2048xf32>):
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %one = arith.constant 1.0 : f32
  %loaded = memref.load %n[%c0] : memref<2xi32>
  %stop = arith.index_cast %loaded : i32 to index
  scf.for %i = %c0 to %stop step %c1 {
    memref.store %one, %y[%i] : memref<2048xf32>
  } {buf.most_trips = 300 : i64}
}

// -----

// A divergent condition becomes a select, since all invocations must reach the barriers; a uniform one remains.
// CHECK: wgsl.kernel @under workgroup_size = [16, 1, 1]
wgsl.kernel @under workgroup_size = [8, 1, 1] access = ["read_write"] {
^bb0(%y: memref<2048xf32>):
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c600 = arith.constant 600 : index
  %one = arith.constant 1.0 : f32
  %zero = arith.constant 0.0 : f32
  %group = wgsl.workgroup_id dim = 0
  %lane = wgsl.local_id dim = 0
  %agreed = arith.cmpi ult, %group, %c1 : index
  %differs = arith.cmpi ult, %lane, %c1 : index
  // CHECK: scf.if %agreed {
  scf.if %agreed {
    // CHECK-NOT: scf.if %differs
    // CHECK: wgsl.barrier
    // CHECK: %total = memref.load
    // CHECK: arith.select %differs, %total, %zero : f32
    %found = scf.if %differs -> (f32) {
      %total = scf.for %i = %c0 to %c600 step %c1 iter_args(%held = %zero) -> (f32) {
        %new = arith.addf %held, %one : f32
        scf.yield %new : f32
      }
      scf.yield %total : f32
    } else {
      scf.yield %zero : f32
    }
    memref.store %found, %y[%lane] : memref<2048xf32>
  }
}

// -----

// A loop may run zero iterations and so no barrier: another one follows it, between an earlier load and a later store.
// FORCED: wgsl.kernel @zero workgroup_size = [24, 1, 1]
// FORCED: buf.most_trips = 4
// FORCED-NEXT: wgsl.barrier {storage = true}
// FORCED: memref.store %new
wgsl.kernel @zero workgroup_size = [8, 1, 1] access = ["read_write", "read_write"] {
^bb0(%y: memref<4096xf32>, %z: memref<4096xf32>):
  %lane = wgsl.local_index
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c300 = arith.constant 300 : index
  %one = arith.constant 1.0 : f32
  %stop = wgsl.workgroup_id dim = 0
  %old = memref.load %y[%lane] : memref<4096xf32>
  scf.for %o = %c0 to %stop step %c1 {
    scf.for %j = %c0 to %c300 step %c1 {
      %j8 = arith.muli %j, %c8 : index
      %jat = arith.addi %j8, %lane : index
      memref.store %one, %z[%jat] : memref<4096xf32>
    }
  } {buf.most_trips = 4 : i64}
  scf.for %i = %c0 to %c300 step %c1 {
    %new = arith.addf %old, %one : f32
    %i8 = arith.muli %i, %c8 : index
    %iat = arith.addi %i8, %lane : index
    memref.store %new, %y[%iat] : memref<4096xf32>
  }
}

// -----

// All relays would run a short loop, but for one that updates what it reads: each of them would update it again.
// CHECK: wgsl.kernel @updates workgroup_size = [16, 1, 1]
wgsl.kernel @updates workgroup_size = [8, 1, 1] access = ["read_write", "read_write"] {
^bb0(%y: memref<4xf32>, %z: memref<600xf32>):
  %lane = wgsl.local_index
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c600 = arith.constant 600 : index
  %one = arith.constant 1.0 : f32
  // CHECK: scf.for
  // CHECK: %[[MINE:.*]] = arith.cmpi eq
  // CHECK: scf.if %[[MINE]] {
  // CHECK: memref.load %y
  // CHECK: memref.store %{{.*}}, %y
  scf.for %i = %c0 to %c4 step %c1 {
    %old = memref.load %y[%i] : memref<4xf32>
    %new = arith.addf %old, %one : f32
    memref.store %new, %y[%i] : memref<4xf32>
  }
  scf.for %j = %c0 to %c600 step %c1 {
    memref.store %one, %z[%j] : memref<600xf32>
  }
}
