// RUN: tg-opt %s --split-input-file -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu,expand-math{target=cpu},convert-to-llvm' -t llvm | filecheck %s

// The inner loop is annotated as parallel: its memory accesses don't depend on each other across iterations.
func.func @points(%x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = tg.mul %x, %x : tensor<64xf32>, tensor<64xf32>
  func.return %0 : tensor<64xf32>
}
// CHECK:      declare i64 @llvm.umin.i64(i64, i64)
// CHECK-NEXT: define void @loops0(ptr %0, ptr %1, ptr noalias %2, i64 %3, i64 %4) noinline "prefer-vector-width"="512" {
// CHECK-NEXT: b0:
// CHECK-NEXT:   %5 = mul i64 %3, 1024
// CHECK-NEXT:   %6 = mul i64 %4, 1024
// CHECK-NEXT:   %7 = call i64 @llvm.umin.i64(i64 %6, i64 1)
// CHECK-NEXT:   br label %b1
// CHECK-NEXT: b1:
// CHECK-NEXT:   %8 = phi i64 [ %5, %b0 ], [ %17, %b5 ]
// CHECK-NEXT:   %9 = icmp slt i64 %8, %7
// CHECK-NEXT:   br i1 %9, label %b2, label %b6
// CHECK-NEXT: b2:
// CHECK-NEXT:   br label %b3
// CHECK-NEXT: b3:
// CHECK-NEXT:   %10 = phi i64 [ 0, %b2 ], [ %16, %b4 ]
// CHECK-NEXT:   %11 = icmp slt i64 %10, 64
// CHECK-NEXT:   br i1 %11, label %b4, label %b5
// CHECK-NEXT: b4:
// CHECK-NEXT:   %12 = getelementptr inbounds float, ptr %0, i64 %10
// CHECK-NEXT:   %13 = load float, ptr %12, align 4, !llvm.access.group !0
// CHECK-NEXT:   %14 = fmul float %13, %13
// CHECK-NEXT:   %15 = getelementptr inbounds float, ptr %1, i64 %10
// CHECK-NEXT:   store float %14, ptr %15, align 4, !llvm.access.group !0
// CHECK-NEXT:   %16 = add nsw i64 %10, 1
// CHECK-NEXT:   br label %b3, !llvm.loop !2
// CHECK-NEXT: b5:
// CHECK-NEXT:   %17 = add nsw i64 %8, 1
// CHECK-NEXT:   br label %b1
// CHECK-NEXT: b6:
// CHECK-NEXT:   ret void
// CHECK-NEXT: }
// CHECK-NEXT: !0 = distinct !{}
// CHECK-NEXT: !1 = !{!"llvm.loop.parallel_accesses", !0}
// CHECK-NEXT: !2 = distinct !{!2, !1, !{!"llvm.loop.unroll.disable"}}

// -----

// The row start is added to the address before the column: from one sum, LLVM can't tell that loads are contiguous.
func.func @rows(%x: tensor<8x64xf32>) -> tensor<8xf32> {
  %0 = tg.sum %x axes = [1] : tensor<8x64xf32>
  func.return %0 : tensor<8xf32>
}
// CHECK:      declare i64 @llvm.umin.i64(i64, i64)
// CHECK-NEXT: define void @loops0(ptr %0, ptr %1, ptr noalias %2, i64 %3, i64 %4) noinline "prefer-vector-width"="512" {
// CHECK-NEXT: b0:
// CHECK-NEXT:   %5 = mul i64 %3, 1024
// CHECK-NEXT:   %6 = mul i64 %4, 1024
// CHECK-NEXT:   %7 = call i64 @llvm.umin.i64(i64 %6, i64 8)
// CHECK-NEXT:   br label %b1
// CHECK-NEXT: b1:
// CHECK-NEXT:   %8 = phi i64 [ %5, %b0 ], [ %21, %b5 ]
// CHECK-NEXT:   %9 = icmp slt i64 %8, %7
// CHECK-NEXT:   br i1 %9, label %b2, label %b6
// CHECK-NEXT: b2:
// CHECK-NEXT:   %10 = mul i64 %8, 64
// CHECK-NEXT:   br label %b3
// CHECK-NEXT: b3:
// CHECK-NEXT:   %11 = phi i64 [ 0, %b2 ], [ %18, %b4 ]
// CHECK-NEXT:   %12 = phi float [ 0x0000000000000000, %b2 ], [ %17, %b4 ]
// CHECK-NEXT:   %13 = icmp slt i64 %11, 64
// CHECK-NEXT:   br i1 %13, label %b4, label %b5
// CHECK-NEXT: b4:
// CHECK-NEXT:   %14 = getelementptr float, ptr %0, i64 %10
// CHECK-NEXT:   %15 = getelementptr float, ptr %14, i64 %11
// CHECK-NEXT:   %16 = load float, ptr %15, align 4
// CHECK-NEXT:   %17 = fadd reassoc float %12, %16
// CHECK-NEXT:   %18 = add nsw i64 %11, 1
// CHECK-NEXT:   br label %b3
// CHECK-NEXT: b5:
// CHECK-NEXT:   %19 = phi float [ %12, %b3 ]
// CHECK-NEXT:   %20 = getelementptr inbounds float, ptr %1, i64 %8
// CHECK-NEXT:   store float %19, ptr %20, align 4
// CHECK-NEXT:   %21 = add nsw i64 %8, 1
// CHECK-NEXT:   br label %b1
// CHECK-NEXT: b6:
// CHECK-NEXT:   ret void
// CHECK-NEXT: }
