// RUN: tg-opt %s --split-input-file -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu,convert-to-llvm{target="{\"language\": \"llvm\", \"check_bounds\": true}"}' | filecheck %s

// Each index is compared with the buffer's extent; one out of bounds is recorded, and element 0 is accessed instead.
func.func @double(%x: tensor<32xf32>) -> tensor<32xf32> {
  %0 = tg.add %x, %x : tensor<32xf32>, tensor<32xf32>
  func.return %0 : tensor<32xf32>
}
// CHECK:      llvm.mlir.global external @loops0.fault(dense<0> : tensor<2xi64>) {addr_space = 0 : i32} : !llvm.array<2 x i64>
// CHECK:      llvm.func @loops0(%0: !llvm.ptr, %1: !llvm.ptr, %2: !llvm.ptr {llvm.noalias}, %3: i64, %4: i64) attributes {cpu.access = ["read", "read_write"], cpu.scratch = 0 : i64} {
// CHECK-NEXT:   %5 = llvm.mlir.constant(2048) : i64
// CHECK-NEXT:   %6 = llvm.mlir.constant(1) : i64
// CHECK-NEXT:   %7 = llvm.mlir.constant(0) : i64
// CHECK-NEXT:   %8 = llvm.mlir.constant(32) : i64
// CHECK-NEXT:   %9 = llvm.mul %3, %5 : i64
// CHECK-NEXT:   %10 = llvm.mul %4, %5 : i64
// CHECK-NEXT:   %11 = llvm.call_intrinsic "llvm.umin.i64"(%10, %6) : (i64, i64) -> i64
// CHECK-NEXT:   llvm.br ^bb1(%9 : i64)
// CHECK-NEXT: ^bb1(%12: i64):
// CHECK-NEXT:   %13 = llvm.icmp "slt" %12, %11 : i64
// CHECK-NEXT:   llvm.cond_br %13, ^bb2, ^bb10
// CHECK-NEXT: ^bb2:
// CHECK-NEXT:   llvm.br ^bb3(%7 : i64)
// CHECK-NEXT: ^bb3(%14: i64):
// CHECK-NEXT:   %15 = llvm.icmp "slt" %14, %8 : i64
// CHECK-NEXT:   llvm.cond_br %15, ^bb4, ^bb9
// CHECK-NEXT: ^bb4:
// CHECK-NEXT:   %16 = llvm.icmp "uge" %14, %8 : i64
// CHECK-NEXT:   llvm.cond_br %16, ^bb5, ^bb6(%14 : i64)
// CHECK-NEXT: ^bb5:
// CHECK-NEXT:   %17 = llvm.mlir.addressof @loops0.fault : !llvm.ptr
// CHECK-NEXT:   %18 = llvm.getelementptr inbounds %17[%7] : (!llvm.ptr, i64) -> !llvm.ptr, i64
// CHECK-NEXT:   llvm.store %14, %18 {alignment = 8 : i64} : i64, !llvm.ptr
// CHECK-NEXT:   %19 = llvm.getelementptr inbounds %17[%6] : (!llvm.ptr, i64) -> !llvm.ptr, i64
// CHECK-NEXT:   llvm.store %8, %19 {alignment = 8 : i64} : i64, !llvm.ptr
// CHECK-NEXT:   llvm.br ^bb6(%7 : i64)
// CHECK-NEXT: ^bb6(%20: i64):
// CHECK-NEXT:   %21 = llvm.getelementptr inbounds %0[%20] : (!llvm.ptr, i64) -> !llvm.ptr, f32
// CHECK-NEXT:   %22 = llvm.load %21 {cpu.loop = 0 : i64, alignment = 4 : i64} : !llvm.ptr -> f32
// CHECK-NEXT:   %23 = llvm.fadd %22, %22 : f32
// CHECK-NEXT:   %24 = llvm.icmp "uge" %14, %8 : i64
// CHECK-NEXT:   llvm.cond_br %24, ^bb7, ^bb8(%14 : i64)
// CHECK-NEXT: ^bb7:
// CHECK-NEXT:   %25 = llvm.mlir.addressof @loops0.fault : !llvm.ptr
// CHECK-NEXT:   %26 = llvm.getelementptr inbounds %25[%7] : (!llvm.ptr, i64) -> !llvm.ptr, i64
// CHECK-NEXT:   llvm.store %14, %26 {alignment = 8 : i64} : i64, !llvm.ptr
// CHECK-NEXT:   %27 = llvm.getelementptr inbounds %25[%6] : (!llvm.ptr, i64) -> !llvm.ptr, i64
// CHECK-NEXT:   llvm.store %8, %27 {alignment = 8 : i64} : i64, !llvm.ptr
// CHECK-NEXT:   llvm.br ^bb8(%7 : i64)
// CHECK-NEXT: ^bb8(%28: i64):
// CHECK-NEXT:   %29 = llvm.getelementptr inbounds %1[%28] : (!llvm.ptr, i64) -> !llvm.ptr, f32
// CHECK-NEXT:   llvm.store %23, %29 {cpu.loop = 0 : i64, alignment = 4 : i64} : f32, !llvm.ptr
// CHECK-NEXT:   %30 = llvm.add %14, %6 overflow<nsw> : i64
// CHECK-NEXT:   llvm.br ^bb3(%30 : i64) {cpu.loop = 0 : i64}
// CHECK-NEXT: ^bb9:
// CHECK-NEXT:   %31 = llvm.add %12, %6 overflow<nsw> : i64
// CHECK-NEXT:   llvm.br ^bb1(%31 : i64)
// CHECK-NEXT: ^bb10:
// CHECK-NEXT:   llvm.return
// CHECK-NEXT: }
// CHECK: buf.dispatch @loops0 workgroups = [1, 1, 1] attributes {buf.bytes_moved = 256 : i64, buf.flops = {{[0-9]+}} : i64} (%x, %34) : memref<32xf32>, memref<32xf32>
