// RUN: tg-opt %s --split-input-file --parsing-diagnostics | filecheck %s

// CHECK: a recipe has no step swap; its steps are collapse, sides, tile, map, unroll_jam, split_loops, split_reduction, step_reduction, interchange, stage, attend, vectorize, synchronize
"test.op"() {recipe = #buf.recipe<swap>} : () -> ()

// -----

// CHECK: the step collapse has no setting sizes; it has none
"test.op"() {recipe = #buf.recipe<collapse(sizes = [2])>} : () -> ()

// -----

// CHECK: the step tile has no setting lanes; its settings are sizes, to, apart, peel
"test.op"() {recipe = #buf.recipe<tile(lanes = 2)>} : () -> ()

// -----

// CHECK: the step tile needs sizes
"test.op"() {recipe = #buf.recipe<tile(to = [lane])>} : () -> ()

// -----

// CHECK: the step interchange needs terms
"test.op"() {recipe = #buf.recipe<interchange>} : () -> ()

// -----

// CHECK: the sizes of tile must be a list of integers of 32 bits of at least 1, got [0]
"test.op"() {recipe = #buf.recipe<tile(sizes = [0])>} : () -> ()

// -----

// CHECK: the lanes of split_loops must be an integer of 32 bits of at least 1, got -1
"test.op"() {recipe = #buf.recipe<split_loops(lanes = -1)>} : () -> ()

// -----

// CHECK: the terms of split_reduction is given twice
"test.op"() {recipe = #buf.recipe<split_reduction(terms = 2, terms = 4)>} : () -> ()

// -----

// CHECK: lanes reduce by halves, so their number must be a power of two, got 6
"test.op"() {recipe = #buf.recipe<split_reduction(lanes = 6)>} : () -> ()

// -----

// CHECK: accumulators are folded by halves: their number must be a power of two, got 3
"test.op"() {recipe = #buf.recipe<split_reduction(terms = 3, sums = 3)>} : () -> ()

// -----

// CHECK: threads
"test.op"() {recipe = #buf.recipe<map(to = [threads])>} : () -> ()

// -----

// CHECK: the column of sides must be a list of integers of 32 bits of at least 0, got [-1]
"test.op"() {recipe = #buf.recipe<sides(column = [-1])>} : () -> ()

// -----

// CHECK: the apart of tile must be a list of integers of 32 bits of at least 1, got [0]
"test.op"() {recipe = #buf.recipe<tile(sizes = [2], apart = [0])>} : () -> ()

// -----

// CHECK: the peel of tile must be 0 or 1, got 2
"test.op"() {recipe = #buf.recipe<tile(sizes = [2], peel = 2)>} : () -> ()

// -----

// CHECK: the to of map must be a list of processors, got [2]
"test.op"() {recipe = #buf.recipe<map(to = [2])>} : () -> ()
