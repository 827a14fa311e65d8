// RUN: tg-opt %s --split-input-file --parsing-diagnostics --print-diagnostics | filecheck %s

// The custom assembly format infers the result type, so an invalid shape is reported where the op is parsed.

func.func @f() {
  // CHECK: tg.constant: value must be a dense attribute
  %0 = tg.constant value = 1 : i32
  func.return
}

// -----

func.func @f() {
  // CHECK: tg.iota: axis 2 is out of range for rank 2
  %0 = tg.iota shape = [2, 3] axis = 2 element = i32
  func.return
}

// -----

func.func @f() {
  // CHECK: tg.iota: shape [-1] has a negative extent
  %0 = tg.iota shape = [-1] axis = 0 element = i32
  func.return
}

// -----

func.func @f() {
  // CHECK: tg.iota: positions must be numbers, got i1
  %0 = tg.iota shape = [2] axis = 0 element = i1
  func.return
}

// -----

func.func @f() {
  // CHECK: tg.iota needs element
  %0 = tg.iota shape = [2] axis = 0
  func.return
}

// -----

func.func @f(%x: tensor<2xi1>) {
  // CHECK: tg.neg: takes numbers, not i1
  %0 = tg.neg %x : tensor<2xi1>
  func.return
}

// -----

func.func @f(%x: tensor<2xi32>) {
  // CHECK: tg.exp: takes floats, not i32
  %0 = tg.exp %x : tensor<2xi32>
  func.return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // CHECK: tg.not: takes integers or booleans, not f32
  %0 = tg.not %x : tensor<2xf32>
  func.return
}

// -----

func.func @f(%x: f32) {
  // CHECK: tg.exp takes tensors, got f32
  %0 = tg.exp %x : f32
  func.return
}

// -----

func.func @f(%x: tensor<3xf32>, %y: tensor<1xf32>) {
  // CHECK: tg.add: operands have different types: tensor<3xf32> and tensor<1xf32>
  %0 = tg.add %x, %y : tensor<3xf32>, tensor<1xf32>
  func.return
}

// -----

func.func @f(%x: tensor<3xi32>) {
  // CHECK: tg.div: takes floats, not i32
  %0 = tg.div %x, %x : tensor<3xi32>, tensor<3xi32>
  func.return
}

// -----

func.func @f(%x: tensor<3xf32>) {
  // CHECK: tg.and: takes integers or booleans, not f32
  %0 = tg.and %x, %x : tensor<3xf32>, tensor<3xf32>
  func.return
}

// -----

func.func @f(%x: tensor<3xf32>, %y: tensor<3xi32>) {
  // CHECK: tg.compare: operands have different types: tensor<3xf32> and tensor<3xi32>
  %0 = tg.compare %x, %y predicate = "lt" : tensor<3xf32>, tensor<3xi32>
  func.return
}

// -----

func.func @f(%x: tensor<3xf32>) {
  // CHECK: tg.compare: predicate 'less' is not one of eq, ne, lt, le, gt, ge
  %0 = tg.compare %x, %x predicate = "less" : tensor<3xf32>, tensor<3xf32>
  func.return
}

// -----

func.func @f(%x: tensor<3xi1>) {
  // CHECK: tg.compare: booleans can be compared by eq and ne only
  %0 = tg.compare %x, %x predicate = "lt" : tensor<3xi1>, tensor<3xi1>
  func.return
}

// -----

func.func @f(%c: tensor<3xi32>, %x: tensor<3xf32>) {
  // CHECK: tg.select: the condition must be bool, got tensor<3xi32>
  %0 = tg.select %c, %x, %x : tensor<3xi32>, tensor<3xf32>, tensor<3xf32>
  func.return
}

// -----

func.func @f(%c: tensor<3xi1>, %x: tensor<3xf32>, %y: tensor<3xi32>) {
  // CHECK: tg.select: the choices have different types: tensor<3xf32> and tensor<3xi32>
  %0 = tg.select %c, %x, %y : tensor<3xi1>, tensor<3xf32>, tensor<3xi32>
  func.return
}

// -----

func.func @f(%c: tensor<i1>, %x: tensor<3xf32>) {
  // CHECK: tg.select: the condition is tensor<i1>, the choices are tensor<3xf32>
  %0 = tg.select %c, %x, %x : tensor<i1>, tensor<3xf32>, tensor<3xf32>
  func.return
}

// -----

func.func @f(%x: tensor<3xf32>) {
  // CHECK: tg.cast: i24 is not an element type of tg (bf16, f16, f32, f64, i8, ui8, i16, ui16, i32, ui32, i64, ui64, i1)
  %0 = tg.cast %x to = i24 : tensor<3xf32>
  func.return
}

// -----

func.func @f(%x: tensor<3xf32>) {
  // CHECK: tg.reshape: cannot reshape [3] (3 elements) to [2, 2]
  %0 = tg.reshape %x shape = [2, 2] : tensor<3xf32>
  func.return
}

// -----

func.func @f(%x: tensor<3x2xf32>) {
  // CHECK: tg.transpose: [0, 0] is not a permutation of the 2 axes
  %0 = tg.transpose %x permutation = [0, 0] : tensor<3x2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1xf32>) {
  // CHECK: tg.broadcast: cannot broadcast [1] along dims [1] to [4, 3]
  %0 = tg.broadcast %x shape = [4, 3] dims = [1] : tensor<1xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // CHECK: tg.broadcast: dims [1, 0] must be increasing
  %0 = tg.broadcast %x shape = [3, 2] dims = [1, 0] : tensor<2x3xf32>
  func.return
}

// -----

func.func @f(%x: tensor<3x2xf32>) {
  // CHECK: tg.broadcast: dims [1] must name an axis for each of the 2
  %0 = tg.broadcast %x shape = [3, 2] dims = [1] : tensor<3x2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<3x2xf32>) {
  // CHECK: tg.slice: start, stop and step must name each of the 2 axes
  %0 = tg.slice %x start = [0] stop = [1] step = [1] : tensor<3x2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<3xf32>) {
  // CHECK: tg.slice: slice 1:4:1 is not within axis 0 of extent 3
  %0 = tg.slice %x start = [1] stop = [4] step = [1] : tensor<3xf32>
  func.return
}

// -----

func.func @f(%x: tensor<3xf32>) {
  // CHECK: tg.reverse: axes [1] must be distinct axes of a tensor of rank 1
  %0 = tg.reverse %x axes = [1] : tensor<3xf32>
  func.return
}

// -----

func.func @f(%x: tensor<3xf32>, %z: tensor<f32>) {
  // CHECK: tg.pad: padding cannot be negative
  %0 = tg.pad %x, %z low = [-1] high = [0] interior = [0] : tensor<3xf32>, tensor<f32>
  func.return
}

// -----

func.func @f(%x: tensor<3xf32>, %z: tensor<i32>) {
  // CHECK: tg.pad: the padding value is tensor<i32>, expected a scalar of f32
  %0 = tg.pad %x, %z low = [1] high = [0] interior = [0] : tensor<3xf32>, tensor<i32>
  func.return
}

// -----

func.func @f(%x: tensor<3xi1>) {
  // CHECK: tg.sum: takes numbers, not i1
  %0 = tg.sum %x axes = [0] : tensor<3xi1>
  func.return
}

// -----

func.func @f(%x: tensor<3x2xf32>) {
  // CHECK: tg.sum: axes [0, 0] must be distinct axes of a tensor of rank 2
  %0 = tg.sum %x axes = [0, 0] : tensor<3x2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<0x2xf32>) {
  // CHECK: tg.max: axes [0] of [0, 2] are empty
  %0 = tg.max %x axes = [0] : tensor<0x2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<0x2xf32>) {
  // CHECK: tg.min: axes [0] of [0, 2] are empty
  %0 = tg.min %x axes = [0] : tensor<0x2xf32>
  func.return
}

// -----

func.func @f(%a: tensor<4x3xf32>, %b: tensor<2x5xf32>) {
  // CHECK: tg.dot_general: axis 1 of [4, 3] (extent 3) does not match axis 0 of [2, 5] (extent 2)
  %0 = tg.dot_general %a, %b lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<4x3xf32>, tensor<2x5xf32>
  func.return
}

// -----

func.func @f(%a: tensor<4x3xf32>) {
  // CHECK: tg.dot_general: both sides must name the same number of axes
  %0 = tg.dot_general %a, %a lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [] : tensor<4x3xf32>, tensor<4x3xf32>
  func.return
}

// -----

func.func @f(%a: tensor<3xf32>, %b: tensor<3xf16>) {
  // CHECK: tg.dot_general: element types differ: tensor<3xf32> and tensor<3xf16>
  %0 = tg.dot_general %a, %b lhs_batch = [] rhs_batch = [] lhs_contracting = [0] rhs_contracting = [0] : tensor<3xf32>, tensor<3xf16>
  func.return
}

// -----

func.func @f(%x: tensor<3xf32>, %i: tensor<2xf32>) {
  // CHECK: tg.take: indices must be integers of 32 or 64 bits, got tensor<2xf32>
  %0 = tg.take %x, %i axis = 0 : tensor<3xf32>, tensor<2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4294967296xi8>, %i: tensor<2xui32>) {
  // CHECK: tg.take: an axis of 4294967296 positions needs indices of 64 bits, got tensor<2xui32>
  %0 = tg.take %x, %i axis = 0 : tensor<4294967296xi8>, tensor<2xui32>
  func.return
}

// -----

func.func @f(%x: tensor<2x2147483648xi8>, %i: tensor<2x3xi32>) {
  // CHECK: tg.take_along_axis: an axis of 2147483648 positions needs indices of 64 bits, got tensor<2x3xi32>
  %0 = tg.take_along_axis %x, %i axis = 1 : tensor<2x2147483648xi8>, tensor<2x3xi32>
  func.return
}

// -----

func.func @f(%x: tensor<3xi8>, %i: tensor<3xi32>) {
  // CHECK: tg.scatter_add: an axis of 2147483648 positions needs indices of 64 bits, got tensor<3xi32>
  %0 = tg.scatter_add %x, %i axis = 0 extent = 2147483648 : tensor<3xi8>, tensor<3xi32>
  func.return
}

// -----

func.func @f(%x: tensor<3xi8>, %i: tensor<3xi32>) {
  // CHECK: tg.scatter_add_along_axis: an axis of 2147483648 positions needs indices of 64 bits, got tensor<3xi32>
  %0 = tg.scatter_add_along_axis %x, %i axis = 0 extent = 2147483648 : tensor<3xi8>, tensor<3xi32>
  func.return
}

// -----

func.func @f(%x: tensor<2147483649xi8>) {
  // CHECK: tg.argsort: positions on an axis of 2147483649 elements don't fit i32
  %0 = tg.argsort %x descending = 0 : tensor<2147483649xi8>
  func.return
}

// -----

func.func @f() {
  // CHECK: tg.iota: positions on an axis of 129 don't fit i8
  %0 = tg.iota shape = [129] axis = 0 element = i8
  func.return
}

// -----

func.func @f(%x: tensor<3xf32>, %i: tensor<2xi32>) {
  // CHECK: tg.take: axis 1 is out of range for rank 1
  %0 = tg.take %x, %i axis = 1 : tensor<3xf32>, tensor<2xi32>
  func.return
}

// -----

func.func @f(%x: tensor<3x8xf32>, %i: tensor<2xi32>) {
  // CHECK: tg.scatter_add: the axes of updates [3, 8] from axis 0 on must be those of the indices [2]
  %0 = tg.scatter_add %x, %i axis = 0 extent = 9 : tensor<3x8xf32>, tensor<2xi32>
  func.return
}

// -----

func.func @f(%x: tensor<2xf32>, %i: tensor<2xi32>) {
  // CHECK: tg.scatter_add: extent -1 is negative
  %0 = tg.scatter_add %x, %i axis = 0 extent = -1 : tensor<2xf32>, tensor<2xi32>
  func.return
}

// -----

func.func @f(%x: tensor<2xf32>, %i: tensor<2xi32>) {
  // CHECK: tg.scatter_reduce: reduction "sum" is not one of prod, max, min
  %0 = tg.scatter_reduce %x, %i axis = 0 extent = 3 reduction = "sum" : tensor<2xf32>, tensor<2xi32>
  func.return
}

// -----

func.func @f(%x: tensor<2xi1>, %i: tensor<2xi32>) {
  // CHECK: tg.scatter_reduce_along_axis: takes numbers, not i1
  %0 = tg.scatter_reduce_along_axis %x, %i axis = 0 extent = 3 reduction = "max" : tensor<2xi1>, tensor<2xi32>
  func.return
}

// -----

func.func @f(%x: tensor<4x3xf32>, %i: tensor<3x1xi32>) {
  // CHECK: tg.take_along_axis: operand [4, 3] and indices [3, 1] must agree on every axis but 1
  %0 = tg.take_along_axis %x, %i axis = 1 : tensor<4x3xf32>, tensor<3x1xi32>
  func.return
}

// -----

func.func @f(%x: tensor<4x1xf32>, %i: tensor<4x2xi32>) {
  // CHECK: tg.scatter_add_along_axis: updates tensor<4x1xf32> and indices tensor<4x2xi32> must have the same shape
  %0 = tg.scatter_add_along_axis %x, %i axis = 1 extent = 9 : tensor<4x1xf32>, tensor<4x2xi32>
  func.return
}

// -----

// The generic form states the result type, which the verifier checks.
func.func @f(%x: tensor<3xf32>) {
  // CHECK: result is tensor<4xf32>, expected tensor<3xf32>
  %0 = "tg.add"(%x, %x) : (tensor<3xf32>, tensor<3xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<3xi24>) {
  // CHECK: i24 is not an element type of tg (bf16, f16, f32, f64, i8, ui8, i16, ui16, i32, ui32, i64, ui64, i1)
  %0 = "tg.stop_gradient"(%x) : (tensor<3xi24>) -> tensor<3xi24>
  func.return
}

// -----

func.func @f(%x: tensor<3xf32>) {
  // CHECK: property 'axes' expected in operation 'tg.sum'
  %0 = "tg.sum"(%x) : (tensor<3xf32>) -> tensor<f32>
  func.return
}

// -----

func.func @f(%x: tensor<3xui32>) {
  // CHECK: tg.threefry: word "third" is not one of first, second, both
  %0 = tg.threefry %x, %x, %x, %x word = "third" : tensor<3xui32>, tensor<3xui32>, tensor<3xui32>, tensor<3xui32>
  func.return
}

// -----

func.func @f(%x: tensor<3xi32>) {
  // CHECK: tg.threefry: takes ui32, not i32
  %0 = tg.threefry %x, %x, %x, %x word = "both" : tensor<3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>
  func.return
}

// -----

func.func @f(%x: tensor<3xui32>, %y: tensor<ui32>) {
  // CHECK: tg.threefry: operands have different types: tensor<3xui32>, tensor<3xui32>, tensor<3xui32>, tensor<ui32>
  %0 = tg.threefry %x, %x, %x, %y word = "both" : tensor<3xui32>, tensor<3xui32>, tensor<3xui32>, tensor<ui32>
  func.return
}

// -----

func.func @f(%x: tensor<3xi32>) {
  // CHECK: tg.polygamma: takes floats, not i32
  %0 = tg.polygamma %x order = 1 : tensor<3xi32>
  func.return
}

// -----

func.func @f(%x: tensor<3xf32>) {
  // CHECK: tg.polygamma: order must be from 0 to 100, got -1
  %0 = tg.polygamma %x order = -1 : tensor<3xf32>
  func.return
}

// -----

func.func @f(%x: tensor<3xi32>) {
  // CHECK: tg.erfinv: takes floats, not i32
  %0 = tg.erfinv %x : tensor<3xi32>
  func.return
}

// -----

func.func @f(%x: tensor<3xi32>) {
  // CHECK: tg.is_finite: takes floats, not i32
  %0 = tg.is_finite %x : tensor<3xi32>
  func.return
}

// -----

func.func @f(%x: tensor<3xf32>) {
  // CHECK: tg.shift_left: takes integers, not f32
  %0 = tg.shift_left %x, %x : tensor<3xf32>, tensor<3xf32>
  func.return
}

// -----

func.func @f(%x: tensor<3xi32>) {
  // CHECK: tg.log1p: takes floats, not i32
  %0 = tg.log1p %x : tensor<3xi32>
  func.return
}

// -----

func.func @f(%x: tensor<4x3xf32>, %y: tensor<5x3xf32>) {
  // CHECK: tg.concat: operands [4, 3] and [5, 3] must agree on every axis but 1
  %0 = tg.concat %x, %y axis = 1 : tensor<4x3xf32>, tensor<5x3xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4x3xf32>) {
  // CHECK: tg.concat: axis 2 is out of range for rank 2
  %0 = tg.concat %x, %x axis = 2 : tensor<4x3xf32>, tensor<4x3xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>, %y: tensor<4xi32>) {
  // CHECK: tg.concat: operands of f32 and i32
  %0 = tg.concat %x, %y axis = 0 : tensor<4xf32>, tensor<4xi32>
  func.return
}

// -----

func.func @f(%x: tensor<i32>) {
  // CHECK: tg.argsort: a scalar has no axis to sort
  %0 = tg.argsort %x descending = 0 : tensor<i32>
  func.return
}

// -----

func.func @f(%x: tensor<3xi1>) {
  // CHECK: tg.argsort: takes numbers, not i1
  %0 = tg.argsort %x descending = 0 : tensor<3xi1>
  func.return
}

// -----

func.func @f(%x: tensor<3xf32>) {
  // CHECK: tg.argsort: descending must be 0 or 1
  %0 = tg.argsort %x descending = 2 : tensor<3xf32>
  func.return
}

// -----

func.func @f(%x: tensor<3xf32>, %y: tensor<3xf32>, %z: tensor<3xf16>) {
  // CHECK: tg.pack: has 2 operands and 1 offsets
  %0 = tg.pack %x, %y offsets = [0] size = 9 : tensor<3xf32>, tensor<3xf32>
  func.return
}

// -----

func.func @f(%x: tensor<3xf32>, %y: tensor<3xf32>, %z: tensor<3xf16>) {
  // CHECK: tg.pack: offset 3 is not a multiple of 64
  %0 = tg.pack %x, %y offsets = [0, 3] size = 9 : tensor<3xf32>, tensor<3xf32>
  func.return
}

// -----

func.func @f(%x: tensor<3xf32>, %y: tensor<3xf32>, %z: tensor<3xf16>) {
  // CHECK: tg.pack: the operand at 64 starts before 67, the end of the preceding one
  %0 = tg.pack %x, %y offsets = [64, 64] size = 99 : tensor<3xf32>, tensor<3xf32>
  func.return
}

// -----

func.func @f(%x: tensor<3xf32>, %y: tensor<3xf32>, %z: tensor<3xf16>) {
  // CHECK: tg.pack: size 66 is less than 67, the end of the last operand
  %0 = tg.pack %x, %y offsets = [0, 64] size = 66 : tensor<3xf32>, tensor<3xf32>
  func.return
}

// -----

func.func @f(%x: tensor<3xf32>, %y: tensor<3xf32>, %z: tensor<3xf16>) {
  // CHECK: tg.pack: operands of f32 and f16
  %0 = tg.pack %x, %z offsets = [0, 64] size = 99 : tensor<3xf32>, tensor<3xf16>
  func.return
}
