// RUN: tg-opt %s -p convert-to-llvm -t llvm | filecheck %s

// Bits merged by constant masks are frozen, so that LLVM doesn't merge a select with them; others are not.
// CHECK:      and i32
// CHECK:      %[[KEPT:.*]] = and i32 %{{.*}}, 2147483647
// CHECK:      %[[MERGED:.*]] = or i32 %{{.*}}, %[[KEPT]]
// CHECK-NEXT: %[[FROZEN:.*]] = freeze i32 %[[MERGED]]
// CHECK-NEXT: xor i32 %[[FROZEN]], %{{.*}}
// CHECK-NOT:  freeze
cpu.kernel @merged access = ["read_write"] {
^bb0(%x: memref<64xi32>, %first: index, %last: index):
  %sign = arith.constant -2147483648 : i32
  %rest = arith.constant 2147483647 : i32
  %a = memref.load %x[%first] : memref<64xi32>
  %b = memref.load %x[%last] : memref<64xi32>
  %0 = arith.andi %a, %sign : i32
  %1 = arith.andi %b, %rest : i32
  %2 = arith.ori %0, %1 : i32
  %3 = arith.xori %2, %a : i32
  memref.store %3, %x[%first] : memref<64xi32>
}
