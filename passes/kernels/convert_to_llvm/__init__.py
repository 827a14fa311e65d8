"""`convert-to-llvm`: conversion of native kernels to the LLVM dialect."""

from tensorgrad.passes.kernels.convert_to_llvm.convert_to_llvm import ConvertToLlvmPass

__all__ = ["ConvertToLlvmPass"]
