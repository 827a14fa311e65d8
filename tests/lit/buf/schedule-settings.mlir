// RUN: tg-opt %s --split-input-file --parsing-diagnostics | filecheck %s

// The settings of a schedule are checked where they are read; those that are the default are not printed.

// CHECK: #buf.schedule<scan, groups = [4, 1, 1], abreast = 2>
"test.op"() {schedule = #buf.schedule<scan, groups = [4, 1, 1], loop = 0, abreast = 2>} : () -> ()

// -----

// CHECK: #buf.schedule<packed, groups = [1, 1, 1], row = [0], column = [1], tile_rows = 8, tile_columns = 8, rows = 4, columns = 8, lanes = 8, depth = 16, pairs = 1>
"test.op"() {schedule = #buf.schedule<packed, groups = [1, 1, 1], row = [0], column = [1], tile_rows = 8, tile_columns = 8, rows = 4, columns = 8, lanes = 8, depth = 16, pairs = 1, pitch = 0>} : () -> ()

// -----

// CHECK: a schedule's turned must be 0 or 1, got 7
"test.op"() {schedule = #buf.schedule<loops, groups = [1, 1, 1], turned = 7>} : () -> ()

// -----

// CHECK: a schedule's loop must be an integer of 32 bits of at least 0, got -1
"test.op"() {schedule = #buf.schedule<scan, groups = [1, 1, 1], loop = -1>} : () -> ()

// -----

// CHECK: a scan schedule needs groups
"test.op"() {schedule = #buf.schedule<scan, loop = 1>} : () -> ()
