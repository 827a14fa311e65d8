// RUN: tg-opt %s -p lower-tg-to-buf | filecheck %s

func.func @floats(%x: tensor<4xf32>) -> (tensor<4xf32>) {
  %exp = tg.exp %x : tensor<4xf32>
  %log = tg.log %exp : tensor<4xf32>
  %sqrt = tg.sqrt %log : tensor<4xf32>
  %sin = tg.sin %sqrt : tensor<4xf32>
  %cos = tg.cos %sin : tensor<4xf32>
  %tanh = tg.tanh %cos : tensor<4xf32>
  %sigmoid = tg.sigmoid %tanh : tensor<4xf32>
  %relu = tg.relu %sigmoid : tensor<4xf32>
  %abs = tg.abs %relu : tensor<4xf32>
  %neg = tg.neg %abs : tensor<4xf32>
  func.return %neg : tensor<4xf32>
}
// CHECK-LABEL: func.func @floats(
// CHECK: ^bb0(%2: f32, %3: f32):
// CHECK-NEXT: %4 = math.exp %2 : f32
// CHECK-NEXT: linalg.yield %4 : f32
// CHECK: ^bb0(%2: f32, %3: f32):
// CHECK-NEXT: %4 = math.log %2 : f32
// CHECK-NEXT: linalg.yield %4 : f32
// CHECK: ^bb0(%2: f32, %3: f32):
// CHECK-NEXT: %4 = math.sqrt %2 : f32
// CHECK-NEXT: linalg.yield %4 : f32
// CHECK: ^bb0(%2: f32, %3: f32):
// CHECK-NEXT: %4 = math.sin %2 : f32
// CHECK-NEXT: linalg.yield %4 : f32
// CHECK: ^bb0(%2: f32, %3: f32):
// CHECK-NEXT: %4 = math.cos %2 : f32
// CHECK-NEXT: linalg.yield %4 : f32
// CHECK: ^bb0(%2: f32, %3: f32):
// CHECK-NEXT: %4 = math.tanh %2 : f32
// CHECK-NEXT: linalg.yield %4 : f32
// CHECK: ^bb0(%2: f32, %3: f32):
// CHECK-NEXT: %4 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT: %5 = math.absf %2 : f32
// CHECK-NEXT: %6 = arith.negf %5 : f32
// CHECK-NEXT: %7 = math.exp %6 : f32
// CHECK-NEXT: %8 = arith.addf %4, %7 : f32
// CHECK-NEXT: %9 = arith.divf %4, %8 : f32
// CHECK-NEXT: %10 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT: %11 = arith.cmpf oge, %2, %10 : f32
// CHECK-NEXT: %12 = arith.mulf %7, %9 : f32
// CHECK-NEXT: %13 = arith.select %11, %9, %12 : f32
// CHECK-NEXT: linalg.yield %13 : f32
// CHECK: ^bb0(%2: f32, %3: f32):
// CHECK-NEXT: %4 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT: %5 = arith.cmpf ole, %2, %4 : f32
// CHECK-NEXT: %6 = arith.select %5, %4, %2 : f32
// CHECK-NEXT: linalg.yield %6 : f32
// CHECK: ^bb0(%2: f32, %3: f32):
// CHECK-NEXT: %4 = math.absf %2 : f32
// CHECK-NEXT: linalg.yield %4 : f32
// CHECK: ^bb0(%2: f32, %3: f32):
// CHECK-NEXT: %4 = arith.negf %2 : f32
// CHECK-NEXT: linalg.yield %4 : f32

func.func @binary(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>) {
  %a = tg.add %x, %y : tensor<4xf32>, tensor<4xf32>
  %s = tg.sub %a, %y : tensor<4xf32>, tensor<4xf32>
  %m = tg.mul %s, %y : tensor<4xf32>, tensor<4xf32>
  %d = tg.div %m, %y : tensor<4xf32>, tensor<4xf32>
  %p = tg.pow %d, %y : tensor<4xf32>, tensor<4xf32>
  %big = tg.maximum %p, %y : tensor<4xf32>, tensor<4xf32>
  %small = tg.minimum %big, %y : tensor<4xf32>, tensor<4xf32>
  func.return %small : tensor<4xf32>
}
// CHECK-LABEL: func.func @binary(
// CHECK: ^bb0(%3: f32, %4: f32, %5: f32):
// CHECK-NEXT: %6 = arith.addf %3, %4 : f32
// CHECK-NEXT: linalg.yield %6 : f32
// CHECK: ^bb0(%3: f32, %4: f32, %5: f32):
// CHECK-NEXT: %6 = arith.subf %3, %4 : f32
// CHECK-NEXT: linalg.yield %6 : f32
// CHECK: ^bb0(%3: f32, %4: f32, %5: f32):
// CHECK-NEXT: %6 = arith.mulf %3, %4 : f32
// CHECK-NEXT: linalg.yield %6 : f32
// CHECK: ^bb0(%3: f32, %4: f32, %5: f32):
// CHECK-NEXT: %6 = arith.divf %3, %4 : f32
// CHECK-NEXT: linalg.yield %6 : f32
// CHECK: ^bb0(%3: f32, %4: f32, %5: f32):
// CHECK-NEXT: %6 = math.powf %3, %4 : f32
// CHECK-NEXT: linalg.yield %6 : f32
// CHECK: ^bb0(%3: f32, %4: f32, %5: f32):
// CHECK-NEXT: %6 = arith.maximumf %3, %4 : f32
// CHECK-NEXT: linalg.yield %6 : f32
// CHECK: ^bb0(%3: f32, %4: f32, %5: f32):
// CHECK-NEXT: %6 = arith.minimumf %3, %4 : f32
// CHECK-NEXT: linalg.yield %6 : f32

// Integers are signless in buffers; signedness is part of the op, as in `arith.maxsi`.
func.func @integers(%i: tensor<4xi32>, %j: tensor<4xi32>) -> (tensor<4xi32>) {
  %a = tg.add %i, %j : tensor<4xi32>, tensor<4xi32>
  %s = tg.sub %a, %j : tensor<4xi32>, tensor<4xi32>
  %m = tg.mul %s, %j : tensor<4xi32>, tensor<4xi32>
  %big = tg.maximum %m, %j : tensor<4xi32>, tensor<4xi32>
  %small = tg.minimum %big, %j : tensor<4xi32>, tensor<4xi32>
  %both = tg.and %small, %j : tensor<4xi32>, tensor<4xi32>
  %any = tg.or %both, %j : tensor<4xi32>, tensor<4xi32>
  %negative = tg.neg %any : tensor<4xi32>
  %absolute = tg.abs %negative : tensor<4xi32>
  %cut = tg.relu %absolute : tensor<4xi32>
  func.return %cut : tensor<4xi32>
}
// CHECK-LABEL: func.func @integers(
// CHECK: ^bb0(%3: i32, %4: i32, %5: i32):
// CHECK-NEXT: %6 = arith.addi %3, %4 : i32
// CHECK-NEXT: linalg.yield %6 : i32
// CHECK: ^bb0(%3: i32, %4: i32, %5: i32):
// CHECK-NEXT: %6 = arith.subi %3, %4 : i32
// CHECK-NEXT: linalg.yield %6 : i32
// CHECK: ^bb0(%3: i32, %4: i32, %5: i32):
// CHECK-NEXT: %6 = arith.muli %3, %4 : i32
// CHECK-NEXT: linalg.yield %6 : i32
// CHECK: ^bb0(%3: i32, %4: i32, %5: i32):
// CHECK-NEXT: %6 = arith.maxsi %3, %4 : i32
// CHECK-NEXT: linalg.yield %6 : i32
// CHECK: ^bb0(%3: i32, %4: i32, %5: i32):
// CHECK-NEXT: %6 = arith.minsi %3, %4 : i32
// CHECK-NEXT: linalg.yield %6 : i32
// CHECK: ^bb0(%3: i32, %4: i32, %5: i32):
// CHECK-NEXT: %6 = arith.andi %3, %4 : i32
// CHECK-NEXT: linalg.yield %6 : i32
// CHECK: ^bb0(%3: i32, %4: i32, %5: i32):
// CHECK-NEXT: %6 = arith.ori %3, %4 : i32
// CHECK-NEXT: linalg.yield %6 : i32
// CHECK: ^bb0(%2: i32, %3: i32):
// CHECK-NEXT: %4 = arith.constant 0 : i32
// CHECK-NEXT: %5 = arith.subi %4, %2 : i32
// CHECK-NEXT: linalg.yield %5 : i32
// CHECK: ^bb0(%2: i32, %3: i32):
// CHECK-NEXT: %4 = math.absi %2 : i32
// CHECK-NEXT: linalg.yield %4 : i32
// CHECK: ^bb0(%2: i32, %3: i32):
// CHECK-NEXT: %4 = arith.constant 0 : i32
// CHECK-NEXT: %5 = arith.maxsi %2, %4 : i32
// CHECK-NEXT: linalg.yield %5 : i32

func.func @unsigned(%u: tensor<4xui32>, %v: tensor<4xui32>) -> (tensor<4xi1>, tensor<4xf32>) {
  %big = tg.maximum %u, %v : tensor<4xui32>, tensor<4xui32>
  %small = tg.minimum %big, %v : tensor<4xui32>, tensor<4xui32>
  %less = tg.compare %small, %v predicate = "lt" : tensor<4xui32>, tensor<4xui32>
  %float = tg.cast %small to = f32 : tensor<4xui32>
  func.return %less, %float : tensor<4xi1>, tensor<4xf32>
}
// CHECK-LABEL: func.func @unsigned(
// CHECK: ^bb0(%3: i32, %4: i32, %5: i32):
// CHECK-NEXT: %6 = arith.maxui %3, %4 : i32
// CHECK-NEXT: linalg.yield %6 : i32
// CHECK: ^bb0(%3: i32, %4: i32, %5: i32):
// CHECK-NEXT: %6 = arith.minui %3, %4 : i32
// CHECK-NEXT: linalg.yield %6 : i32
// CHECK: ^bb0(%3: i32, %4: i32, %5: i1):
// CHECK-NEXT: %6 = arith.cmpi ult, %3, %4 : i32
// CHECK-NEXT: linalg.yield %6 : i1
// CHECK: ^bb0(%2: i32, %3: f32):
// CHECK-NEXT: %4 = arith.uitofp %2 : i32 to f32
// CHECK-NEXT: linalg.yield %4 : f32

// With a NaN, only `ne` is true: it is an unordered comparison, all others are ordered.
func.func @comparisons(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>) {
  %eq_f = tg.compare %x, %y predicate = "eq" : tensor<4xf32>, tensor<4xf32>
  %ne_f = tg.compare %x, %y predicate = "ne" : tensor<4xf32>, tensor<4xf32>
  %lt_f = tg.compare %x, %y predicate = "lt" : tensor<4xf32>, tensor<4xf32>
  %le_f = tg.compare %x, %y predicate = "le" : tensor<4xf32>, tensor<4xf32>
  %gt_f = tg.compare %x, %y predicate = "gt" : tensor<4xf32>, tensor<4xf32>
  %ge_f = tg.compare %x, %y predicate = "ge" : tensor<4xf32>, tensor<4xf32>
  %both = tg.and %eq_f, %ne_f : tensor<4xi1>, tensor<4xi1>
  %any = tg.or %lt_f, %le_f : tensor<4xi1>, tensor<4xi1>
  %more = tg.and %gt_f, %ge_f : tensor<4xi1>, tensor<4xi1>
  %all = tg.and %both, %any : tensor<4xi1>, tensor<4xi1>
  %last = tg.or %all, %more : tensor<4xi1>, tensor<4xi1>
  %not = tg.not %last : tensor<4xi1>
  %chosen = tg.select %not, %x, %y : tensor<4xi1>, tensor<4xf32>, tensor<4xf32>
  func.return %chosen : tensor<4xf32>
}
// CHECK-LABEL: func.func @comparisons(
// CHECK: ^bb0(%3: f32, %4: f32, %5: i1):
// CHECK-NEXT: %6 = arith.cmpf oeq, %3, %4 : f32
// CHECK-NEXT: linalg.yield %6 : i1
// CHECK: ^bb0(%3: f32, %4: f32, %5: i1):
// CHECK-NEXT: %6 = arith.cmpf une, %3, %4 : f32
// CHECK-NEXT: linalg.yield %6 : i1
// CHECK: ^bb0(%3: f32, %4: f32, %5: i1):
// CHECK-NEXT: %6 = arith.cmpf olt, %3, %4 : f32
// CHECK-NEXT: linalg.yield %6 : i1
// CHECK: ^bb0(%3: f32, %4: f32, %5: i1):
// CHECK-NEXT: %6 = arith.cmpf ole, %3, %4 : f32
// CHECK-NEXT: linalg.yield %6 : i1
// CHECK: ^bb0(%3: f32, %4: f32, %5: i1):
// CHECK-NEXT: %6 = arith.cmpf ogt, %3, %4 : f32
// CHECK-NEXT: linalg.yield %6 : i1
// CHECK: ^bb0(%3: f32, %4: f32, %5: i1):
// CHECK-NEXT: %6 = arith.cmpf oge, %3, %4 : f32
// CHECK-NEXT: linalg.yield %6 : i1
// CHECK: ^bb0(%3: i1, %4: i1, %5: i1):
// CHECK-NEXT: %6 = arith.andi %3, %4 : i1
// CHECK-NEXT: linalg.yield %6 : i1
// CHECK: ^bb0(%3: i1, %4: i1, %5: i1):
// CHECK-NEXT: %6 = arith.ori %3, %4 : i1
// CHECK-NEXT: linalg.yield %6 : i1
// CHECK: ^bb0(%3: i1, %4: i1, %5: i1):
// CHECK-NEXT: %6 = arith.andi %3, %4 : i1
// CHECK-NEXT: linalg.yield %6 : i1
// CHECK: ^bb0(%3: i1, %4: i1, %5: i1):
// CHECK-NEXT: %6 = arith.andi %3, %4 : i1
// CHECK-NEXT: linalg.yield %6 : i1
// CHECK: ^bb0(%3: i1, %4: i1, %5: i1):
// CHECK-NEXT: %6 = arith.ori %3, %4 : i1
// CHECK-NEXT: linalg.yield %6 : i1
// CHECK: ^bb0(%2: i1, %3: i1):
// CHECK-NEXT: %4 = arith.constant true
// CHECK-NEXT: %5 = arith.xori %2, %4 : i1
// CHECK-NEXT: linalg.yield %5 : i1
// CHECK: ^bb0(%4: i1, %5: f32, %6: f32, %7: f32):
// CHECK-NEXT: %8 = arith.select %4, %5, %6 : f32
// CHECK-NEXT: linalg.yield %8 : f32

// Casts to integers saturate, and NaN becomes 0: `arith` leaves the cast of a float that is out of range undefined.
func.func @casts(%x: tensor<4xf32>) -> (tensor<4xui32>, tensor<4xf16>, tensor<4xf32>, tensor<4xf32>) {
  %integer = tg.cast %x to = i32 : tensor<4xf32>
  %unsigned = tg.cast %x to = ui32 : tensor<4xf32>
  %half = tg.cast %x to = f16 : tensor<4xf32>
  %flag = tg.cast %x to = i1 : tensor<4xf32>
  %back = tg.cast %integer to = f32 : tensor<4xi32>
  %number = tg.cast %flag to = f32 : tensor<4xi1>
  %stopped = tg.stop_gradient %number : tensor<4xf32>
  func.return %unsigned, %half, %back, %stopped : tensor<4xui32>, tensor<4xf16>, tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @casts(
// CHECK: ^bb0(%2: f32, %3: i32):
// CHECK-NEXT: %4 = arith.constant -2.14748365e+09 : f32
// CHECK-NEXT: %5 = arith.constant 2.14748365e+09 : f32
// CHECK-NEXT: %6 = arith.cmpf oge, %2, %4 : f32
// CHECK-NEXT: %7 = arith.cmpf olt, %2, %5 : f32
// CHECK-NEXT: %8 = arith.andi %6, %7 : i1
// CHECK-NEXT: %9 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT: %10 = arith.select %8, %2, %9 : f32
// CHECK-NEXT: %11 = arith.fptosi %10 : f32 to i32
// CHECK-NEXT: %12 = arith.cmpf oge, %2, %5 : f32
// CHECK-NEXT: %13 = arith.constant 2147483647 : i32
// CHECK-NEXT: %14 = arith.select %12, %13, %11 : i32
// CHECK-NEXT: %15 = arith.cmpf olt, %2, %4 : f32
// CHECK-NEXT: %16 = arith.constant -2147483648 : i32
// CHECK-NEXT: %17 = arith.select %15, %16, %14 : i32
// CHECK-NEXT: linalg.yield %17 : i32
// CHECK: ^bb0(%2: f32, %3: i32):
// CHECK: %11 = arith.fptoui %10 : f32 to i32
// CHECK: linalg.yield %14 : i32
// CHECK: ^bb0(%2: f32, %3: f16):
// CHECK-NEXT: %4 = arith.truncf %2 : f32 to f16
// CHECK-NEXT: linalg.yield %4 : f16
// CHECK: ^bb0(%2: f32, %3: i1):
// CHECK-NEXT: %4 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT: %5 = arith.cmpf une, %2, %4 : f32
// CHECK-NEXT: linalg.yield %5 : i1
// CHECK: ^bb0(%2: i32, %3: f32):
// CHECK-NEXT: %4 = arith.sitofp %2 : i32 to f32
// CHECK-NEXT: linalg.yield %4 : f32
// CHECK: ^bb0(%2: i1, %3: f32):
// CHECK-NEXT: %4 = arith.uitofp %2 : i1 to f32
// CHECK-NEXT: linalg.yield %4 : f32
