// RUN: tg-opt %s -p 'trace-optimizer{optimizer="sgd(0.1, clip_norm=1, weight_decay=0.5, decay=(\"a\", \"c\"))"},pack-updates' | filecheck %s
// RUN: tg-opt %s -p 'trace-optimizer{optimizer="sgd(0.1, clip_norm=1)"},pack-updates{row-bytes=4096}' | filecheck %s --check-prefix LIMIT
// RUN: tg-opt %s -p 'trace-optimizer{optimizer="sgd(0.1)"},pack-updates' | filecheck %s --check-prefix NONE
// RUN: tg-opt %s -p 'trace-optimizer{optimizer="sgd(0.1, clip_norm=1)"},append-updates' | filecheck %s --check-prefix APART
// RUN: not tg-opt %s -p 'trace-optimizer{optimizer="sgd(0.1, clip_norm=1)"},pack-updates,pack-updates,trace-optimizer{optimizer=sgd},append-updates' 2>&1 | filecheck %s --check-prefix TWICE
// RUN: not tg-opt %s -p pack-updates 2>&1 | filecheck %s --check-prefix EMPTY

// One row holds all gradients, for their norm. One kernel updates the parameters that decay, another updates `b`.
func.func @loss(%a: tensor<1000xf32> {tg.name = "a", tg.role = "parameter"}, %b: tensor<3xf32> {tg.name = "b", tg.role = "parameter"}, %c: tensor<200xf32> {tg.name = "c", tg.role = "parameter"}, %ga: tensor<1000xf32>, %gb: tensor<3xf32>, %gc: tensor<200xf32>) -> (tensor<1000xf32> {tg.name = "a", tg.role = "gradient"}, tensor<3xf32> {tg.name = "b", tg.role = "gradient"}, tensor<200xf32> {tg.name = "c", tg.role = "gradient"}) {
  func.return %ga, %gb, %gc : tensor<1000xf32>, tensor<3xf32>, tensor<200xf32>
}

// CHECK: func.func @loss(%a: {{.*}}, %c: {{.*}}, %b: {{.*}}, %ga: {{.*}}) attributes {tg.rows = {{\[\[\["a", "c"\], \["b"\]\]\]}}} {

// LIMIT: attributes {tg.rows = {{\[\[\["a"\]\], \[\["b", "c"\]\]\]}}} {

// NONE-NOT: tg.rows

// Without rows, each parameter is updated separately.
// APART-NOT: tg.pack

// EMPTY: tg-opt: error: pack-updates: @loss: the module has no update functions; run trace-optimizer first

// TWICE: tg-opt: error: append-updates: @loss: two optimizers update 'a'
