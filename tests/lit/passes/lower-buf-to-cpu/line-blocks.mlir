// RUN: tg-opt %s --split-input-file -p 'lower-tg-to-buf,fuse{target=cpu},schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu' | filecheck %s

// A block has all three lines of results. Of the image's first line, the elements at the windows' left are loaded into
// the last seven lanes, as the first window begins before the image, and multiplied for the results of two lines; zeros
// are multiplied for lines above and below the image. The last vector of a line ends with the image.
func.func @whole(%x: tensor<1x3x2x15xf32>, %w: tensor<3x1x2x3xf32>) -> tensor<1x3x3x15xf32> {
  %0 = tg.conv %x, %w stride = [1, 1] low = [1, 1] high = [1, 1] lhs_dilation = [1, 1] rhs_dilation = [1, 1] groups = 3 : tensor<1x3x2x15xf32>, tensor<3x1x2x3xf32>
  func.return %0 : tensor<1x3x3x15xf32>
}
// CHECK:      %57 = vector.fma %50, %26, %26 : vector<8xf32>
// CHECK-NEXT: %58 = vector.fma %51, %26, %57 : vector<8xf32>
// CHECK-NEXT: %59 = vector.fma %52, %26, %58 : vector<8xf32>
// CHECK-NEXT: %60 = cpu.load_lanes %0[%49] first 1 count 7 : memref<90xf32>, vector<8xf32>
// CHECK-NEXT: %61 = vector.fma %50, %60, %26 : vector<8xf32>
// CHECK-NEXT: %62 = vector.fma %53, %60, %59 : vector<8xf32>
// CHECK-NEXT: %63 = vector.load %0[%49] : memref<90xf32>, vector<8xf32>
// CHECK-NEXT: %64 = vector.fma %51, %63, %61 : vector<8xf32>
// CHECK-NEXT: %65 = vector.fma %54, %63, %62 : vector<8xf32>
// CHECK-NEXT: %66 = arith.addi %49, %8 : index
// CHECK-NEXT: %67 = vector.load %0[%66] : memref<90xf32>, vector<8xf32>
// CHECK-NEXT: %68 = vector.fma %52, %67, %64 : vector<8xf32>
// CHECK-NEXT: %69 = vector.fma %55, %67, %65 : vector<8xf32>
// CHECK-NEXT: %70 = cpu.load_lanes %0[%56] first 1 count 7 : memref<90xf32>, vector<8xf32>
// CHECK-NEXT: %71 = vector.fma %50, %70, %26 : vector<8xf32>
// CHECK-NEXT: %72 = vector.fma %53, %70, %68 : vector<8xf32>
// CHECK-NEXT: %73 = vector.load %0[%56] : memref<90xf32>, vector<8xf32>
// CHECK-NEXT: %74 = vector.fma %51, %73, %71 : vector<8xf32>
// CHECK-NEXT: %75 = vector.fma %54, %73, %72 : vector<8xf32>
// CHECK-NEXT: %76 = arith.addi %56, %8 : index
// CHECK-NEXT: %77 = vector.load %0[%76] : memref<90xf32>, vector<8xf32>
// CHECK-NEXT: %78 = vector.fma %52, %77, %74 : vector<8xf32>
// CHECK-NEXT: %79 = vector.fma %55, %77, %75 : vector<8xf32>
// CHECK-NEXT: %80 = vector.fma %53, %26, %78 : vector<8xf32>
// CHECK-NEXT: %81 = vector.fma %54, %26, %80 : vector<8xf32>
// CHECK-NEXT: %82 = vector.fma %55, %26, %81 : vector<8xf32>
// CHECK-NEXT: vector.store %69, %7[%9] : memref<48xf32>, vector<8xf32>
// CHECK-NEXT: vector.store %79, %7[%27] : memref<48xf32>, vector<8xf32>
// CHECK-NEXT: vector.store %82, %7[%28] : memref<48xf32>, vector<8xf32>
// CHECK:      %92 = cpu.load_lanes %0[%91] first 0 count 6 : memref<90xf32>, vector<8xf32>
// CHECK-NEXT: %93 = vector.fma %52, %92, %89 : vector<8xf32>
// CHECK-NEXT: %94 = vector.fma %55, %92, %90 : vector<8xf32>

// -----

// A block has four lines of results. If the five lines that its windows have lie in the image, they are read; else zeros
// take the place of those that don't, with an address within the image. With a stride of two, every second element of two
// vectors is the first of neighbouring windows.
func.func @blocks(%x: tensor<2x8x43x16xf32>, %w: tensor<8x1x2x1xf32>) -> tensor<2x8x44x8xf32> {
  %0 = tg.conv %x, %w stride = [1, 2] low = [1, 0] high = [1, 0] lhs_dilation = [1, 1] rhs_dilation = [1, 1] groups = 8 : tensor<2x8x43x16xf32>, tensor<8x1x2x1xf32>
  func.return %0 : tensor<2x8x44x8xf32>
}
// CHECK:      %37 = arith.addi %36, %21 : index
// CHECK-NEXT: %38 = arith.cmpi ult, %37, %22 : index
// CHECK-NEXT: scf.if %38 {
// CHECK-NEXT:   %39 = arith.constant 16 : index
// CHECK-NEXT:   %40 = arith.muli %37, %39 : index
// CHECK-NEXT:   %41 = arith.addi %30, %40 : index
// CHECK-NEXT:   %42 = arith.addi %37, %6 : index
// CHECK-NEXT:   %43 = arith.muli %42, %39 : index
// CHECK-NEXT:   %44 = arith.addi %30, %43 : index
// CHECK-NEXT:   %45 = arith.addi %37, %10 : index
// CHECK-NEXT:   %46 = arith.muli %45, %39 : index
// CHECK-NEXT:   %47 = arith.addi %30, %46 : index
// CHECK-NEXT:   %48 = arith.addi %37, %17 : index
// CHECK-NEXT:   %49 = arith.muli %48, %39 : index
// CHECK-NEXT:   %50 = arith.addi %30, %49 : index
// CHECK-NEXT:   %51 = arith.addi %37, %19 : index
// CHECK-NEXT:   %52 = arith.muli %51, %39 : index
// CHECK-NEXT:   %53 = arith.addi %30, %52 : index
// CHECK-NEXT:   %54 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:   %55 = vector.broadcast %54 : f32 to vector<8xf32>
// CHECK-NEXT:   %56 = vector.load %0[%41] : memref<11008xf32>, vector<8xf32>
// CHECK-NEXT:   %57 = arith.addi %41, %12 : index
// CHECK-NEXT:   %58 = vector.load %0[%57] : memref<11008xf32>, vector<8xf32>
// CHECK-NEXT:   %59 = vector.shuffle %56, %58 [0, 2, 4, 6, 8, 10, 12, 14] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:   %60 = vector.fma %31, %59, %55 : vector<8xf32>
// CHECK:      } else {
// CHECK-NEXT:   %85 = arith.constant 43 : index
// CHECK-NEXT:   %86 = arith.cmpi ult, %37, %85 : index
// CHECK-NEXT:   %87 = arith.select %86, %37, %7 : index
// CHECK-NEXT:   %88 = arith.constant 16 : index
// CHECK-NEXT:   %89 = arith.muli %87, %88 : index
// CHECK-NEXT:   %90 = arith.addi %30, %89 : index
// CHECK:      %113 = vector.load %0[%90] : memref<11008xf32>, vector<8xf32>
// CHECK-NEXT: %114 = arith.addi %90, %12 : index
// CHECK-NEXT: %115 = vector.load %0[%114] : memref<11008xf32>, vector<8xf32>
// CHECK-NEXT: %116 = vector.shuffle %113, %115 [0, 2, 4, 6, 8, 10, 12, 14] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT: %117 = arith.select %86, %116, %112 : vector<8xf32>
// CHECK-NEXT: %118 = vector.fma %31, %117, %112 : vector<8xf32>
