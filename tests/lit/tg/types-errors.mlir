// RUN: tg-opt %s --split-input-file --parsing-diagnostics --print-diagnostics | filecheck %s

// The generic form states types and properties of any kind; all are checked.

func.func @f(%x: tensor<2xf32>) {
  // CHECK: 1 : i64 should be of base attribute array
  %0 = "tg.sum"(%x) <{axes = 1 : i64}> : (tensor<2xf32>) -> tensor<f32>
  func.return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // CHECK: "2" should be of base attribute array
  %0 = "tg.reshape"(%x) <{shape = "2"}> : (tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // CHECK: operands and results must be tensors, got f32
  %0 = "tg.neg"(%x) : (tensor<2xf32>) -> f32
  func.return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // CHECK: shapes must be static, got tensor<?xf32>
  %0 = "tg.neg"(%x) : (tensor<2xf32>) -> tensor<?xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?xf32>) {
  // CHECK: shapes must be static, got tensor<?xf32>
  %0 = tg.neg %x : tensor<?xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?xf32>) {
  // CHECK: shapes must be static, got tensor<?xf32>
  %0 = tg.call @g(%x) : (tensor<?xf32>) -> (tensor<?xf32>) {
  ^bb0(%a: tensor<?xf32>):
    tg.return %a : tensor<?xf32>
  }
  func.return
}
