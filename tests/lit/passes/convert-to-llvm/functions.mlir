// RUN: tg-opt %s --split-input-file -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu,expand-math{target=cpu},convert-to-llvm' | filecheck %s

// A loop becomes blocks with arguments, and indices become i64. In memory, an i1 is an i32.
func.func @positive(%x: tensor<8xf32>) -> tensor<8xi1> {
  %0 = tg.constant value = dense<0.000000e+00> : tensor<8xf32>
  %1 = tg.compare %x, %0 predicate = "gt" : tensor<8xf32>, tensor<8xf32>
  func.return %1 : tensor<8xi1>
}
// CHECK:      llvm.func @loops0(%0: !llvm.ptr, %1: !llvm.ptr, %2: !llvm.ptr {llvm.noalias}, %3: i64, %4: i64) attributes {cpu.access = ["read", "read_write"], cpu.scratch = 0 : i64} {
// CHECK-NEXT:   %5 = llvm.mlir.constant(8192) : i64
// CHECK-NEXT:   %6 = llvm.mlir.constant(1) : i64
// CHECK-NEXT:   %7 = llvm.mlir.constant(0) : i64
// CHECK-NEXT:   %8 = llvm.mlir.constant(8) : i64
// CHECK-NEXT:   %9 = llvm.mlir.constant(0.000000e+00 : f32) : f32
// CHECK-NEXT:   %10 = llvm.mul %3, %5 : i64
// CHECK-NEXT:   %11 = llvm.mul %4, %5 : i64
// CHECK-NEXT:   %12 = llvm.call_intrinsic "llvm.umin.i64"(%11, %6) : (i64, i64) -> i64
// CHECK-NEXT:   llvm.br ^bb1(%10 : i64)
// CHECK-NEXT: ^bb1(%13: i64):
// CHECK-NEXT:   %14 = llvm.icmp "slt" %13, %12 : i64
// CHECK-NEXT:   llvm.cond_br %14, ^bb2, ^bb6
// CHECK-NEXT: ^bb2:
// CHECK-NEXT:   llvm.br ^bb3(%7 : i64)
// CHECK-NEXT: ^bb3(%15: i64):
// CHECK-NEXT:   %16 = llvm.icmp "slt" %15, %8 : i64
// CHECK-NEXT:   llvm.cond_br %16, ^bb4, ^bb5
// CHECK-NEXT: ^bb4:
// CHECK-NEXT:   %17 = llvm.getelementptr inbounds %0[%15] : (!llvm.ptr, i64) -> !llvm.ptr, f32
// CHECK-NEXT:   %18 = llvm.load %17 {cpu.loop = 0 : i64, alignment = 4 : i64} : !llvm.ptr -> f32
// CHECK-NEXT:   %19 = llvm.fcmp "ogt" %18, %9 : f32
// CHECK-NEXT:   %20 = llvm.zext %19 : i1 to i32
// CHECK-NEXT:   %21 = llvm.getelementptr inbounds %1[%15] : (!llvm.ptr, i64) -> !llvm.ptr, i32
// CHECK-NEXT:   llvm.store %20, %21 {cpu.loop = 0 : i64, alignment = 4 : i64} : i32, !llvm.ptr
// CHECK-NEXT:   %22 = llvm.add %15, %6 overflow<nsw> : i64
// CHECK-NEXT:   llvm.br ^bb3(%22 : i64) {cpu.loop = 0 : i64}
// CHECK-NEXT: ^bb5:
// CHECK-NEXT:   %23 = llvm.add %13, %6 overflow<nsw> : i64
// CHECK-NEXT:   llvm.br ^bb1(%23 : i64)
// CHECK-NEXT: ^bb6:
// CHECK-NEXT:   llvm.return
// CHECK-NEXT: }
// CHECK: buf.dispatch @loops0 workgroups = [1, 1, 1] attributes {buf.bytes_moved = 64 : i64, buf.flops = {{[0-9]+}} : i64} (%x, %26) : memref<8xf32>, memref<8xi1>

// -----

// Functions of f64 are calls of the C library or LLVM intrinsics; a ui32 is converted to f32 in two halves of 16 bits.
func.func @functions(%x: tensor<f64>, %n: tensor<ui32>) -> (tensor<f64>, tensor<f32>) {
  %0 = tg.tanh %x : tensor<f64>
  %1 = tg.exp %0 : tensor<f64>
  %2 = tg.cast %n to = f32 : tensor<ui32>
  func.return %1, %2 : tensor<f64>, tensor<f32>
}
// CHECK:      llvm.func @libm.tanh(f64) -> f64
// CHECK:      llvm.func @loops0(%0: !llvm.ptr, %1: !llvm.ptr, %2: !llvm.ptr, %3: !llvm.ptr, %4: !llvm.ptr {llvm.noalias}, %5: i64, %6: i64) attributes {cpu.access = ["read", "read", "read_write", "read_write"], cpu.scratch = 0 : i64} {
// CHECK-NEXT:   %7 = llvm.mlir.constant(32768) : i64
// CHECK-NEXT:   %8 = llvm.mlir.constant(1) : i64
// CHECK-NEXT:   %9 = llvm.mlir.constant(0) : i64
// CHECK-NEXT:   %10 = llvm.mlir.constant(16 : i32) : i32
// CHECK-NEXT:   %11 = llvm.mlir.constant(65535 : i32) : i32
// CHECK-NEXT:   %12 = llvm.mlir.constant(6.553600e+04 : f32) : f32
// CHECK-NEXT:   %13 = llvm.mul %5, %7 : i64
// CHECK-NEXT:   %14 = llvm.mul %6, %7 : i64
// CHECK-NEXT:   %15 = llvm.call_intrinsic "llvm.umin.i64"(%14, %8) : (i64, i64) -> i64
// CHECK-NEXT:   %16 = llvm.getelementptr inbounds %0[%9] : (!llvm.ptr, i64) -> !llvm.ptr, f64
// CHECK-NEXT:   %17 = llvm.load %16 {alignment = 8 : i64} : !llvm.ptr -> f64
// CHECK-NEXT:   %18 = llvm.call @libm.tanh(%17) : (f64) -> f64
// CHECK-NEXT:   %19 = llvm.call_intrinsic "llvm.exp.f64"(%18) : (f64) -> f64
// CHECK-NEXT:   %20 = llvm.getelementptr inbounds %1[%9] : (!llvm.ptr, i64) -> !llvm.ptr, i32
// CHECK-NEXT:   %21 = llvm.load %20 {alignment = 4 : i64} : !llvm.ptr -> i32
// CHECK-NEXT:   %22 = llvm.lshr %21, %10 : i32
// CHECK-NEXT:   %23 = llvm.and %21, %11 : i32
// CHECK-NEXT:   %24 = llvm.sitofp %22 : i32 to f32
// CHECK-NEXT:   %25 = llvm.fmul %24, %12 : f32
// CHECK-NEXT:   %26 = llvm.sitofp %23 : i32 to f32
// CHECK-NEXT:   %27 = llvm.fadd %25, %26 : f32
// CHECK-NEXT:   llvm.br ^bb1(%13 : i64)
// CHECK-NEXT: ^bb1(%28: i64):
// CHECK-NEXT:   %29 = llvm.icmp "slt" %28, %15 : i64
// CHECK-NEXT:   llvm.cond_br %29, ^bb2, ^bb3
// CHECK-NEXT: ^bb2:
// CHECK-NEXT:   %30 = llvm.getelementptr inbounds %2[%9] : (!llvm.ptr, i64) -> !llvm.ptr, f64
// CHECK-NEXT:   llvm.store %19, %30 {alignment = 8 : i64} : f64, !llvm.ptr
// CHECK-NEXT:   %31 = llvm.getelementptr inbounds %3[%9] : (!llvm.ptr, i64) -> !llvm.ptr, f32
// CHECK-NEXT:   llvm.store %27, %31 {alignment = 4 : i64} : f32, !llvm.ptr
// CHECK-NEXT:   %32 = llvm.add %28, %8 overflow<nsw> : i64
// CHECK-NEXT:   llvm.br ^bb1(%32 : i64)
// CHECK-NEXT: ^bb3:
// CHECK-NEXT:   llvm.return
// CHECK-NEXT: }
// CHECK: buf.dispatch @loops0 workgroups = [1, 1, 1] attributes {buf.bytes_moved = 24 : i64, buf.flops = {{[0-9]+}} : i64} (%x, %n, %35, %36) : memref<f64>, memref<i32>, memref<f64>, memref<f32>
