"""`convert-to-llvm`: native kernels in LLVM's dialect."""

from tensorgrad.passes.kernels.convert_to_llvm.convert_to_llvm import ConvertToLlvmPass

__all__ = ["ConvertToLlvmPass"]
