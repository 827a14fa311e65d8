// An attribute of another kind than an op's syntax expects is reported where the parser got to.
// RUN: not tg-opt %s 2>&1 | filecheck %s
// CHECK: malformed-attribute.mlir:10:
// CHECK: this is malformed: AssertionError()

func.func @f(%x: memref<4xf32>) {
  linalg.generic {
    indexing_maps = 4 : i32,
    iterator_types = ["parallel"]
  } outs(%x : memref<4xf32>) {
  ^bb0(%out: f32):
    linalg.yield %out : f32
  }
  func.return
}
