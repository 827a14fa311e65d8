// RUN: tg-opt %s -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu,convert-to-llvm' -t llvm | filecheck %s

// The start of the row, the column and a constant are added to the address one by one, so that the two loads share all
// but the constant. The sums of indices are dead, and are not computed.
func.func @neighbours(%x: tensor<4x64xf32>) -> tensor<4x62xf32> {
  %0 = tg.slice %x start = [0, 0] stop = [4, 62] step = [1, 1] : tensor<4x64xf32>
  %1 = tg.slice %x start = [0, 2] stop = [4, 64] step = [1, 1] : tensor<4x64xf32>
  %2 = tg.add %0, %1 : tensor<4x62xf32>, tensor<4x62xf32>
  func.return %2 : tensor<4x62xf32>
}
// CHECK:      b2:
// CHECK-NEXT:   %10 = mul i64 %8, 64
// CHECK-NEXT:   %11 = mul i64 %8, 62
// CHECK-NEXT:   br label %b3
// CHECK:      b4:
// CHECK-NEXT:   %14 = getelementptr float, ptr %0, i64 %10
// CHECK-NEXT:   %15 = getelementptr float, ptr %14, i64 %12
// CHECK-NEXT:   %16 = load float, ptr %15, align 4, !llvm.access.group !0
// CHECK-NEXT:   %17 = getelementptr float, ptr %15, i64 2
// CHECK-NEXT:   %18 = load float, ptr %17, align 4, !llvm.access.group !0
// CHECK-NEXT:   %19 = fadd float %16, %18
// CHECK-NEXT:   %20 = getelementptr float, ptr %1, i64 %11
// CHECK-NEXT:   %21 = getelementptr float, ptr %20, i64 %12
// CHECK-NEXT:   store float %19, ptr %21, align 4, !llvm.access.group !0
// CHECK-NEXT:   %22 = add nsw i64 %12, 1
// CHECK-NEXT:   br label %b3, !llvm.loop !2
