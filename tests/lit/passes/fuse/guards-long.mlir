// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{target=cpu}' | filecheck %s

// On a CPU an index has 64 bits: the slice is of the second part, whatever its place is modulo 2^32.
func.func @long(%x: tensor<3000000000xi8>, %y: tensor<3000000000xi8>) -> tensor<10xi8> {
  %0 = tg.concat %x, %y axis = 0 : tensor<3000000000xi8>, tensor<3000000000xi8>
  %1 = tg.slice %0 start = [4500000000] stop = [4500000010] step = [1] : tensor<6000000000xi8>
  func.return %1 : tensor<10xi8>
}
// CHECK-LABEL: func.func @long(
// CHECK:       %[[AT:.*]] = affine.apply affine_map<(d0) -> ((d0 + 4500000000))>
// CHECK:       %[[FIRST:.*]] = arith.cmpi ult, %[[AT]], %{{.*}} : index
// CHECK-NEXT:  scf.if %[[FIRST]]
