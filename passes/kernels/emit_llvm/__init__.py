"""Emission of LLVM IR text from functions in the LLVM dialect."""

from tensorgrad.passes.kernels.emit_llvm.printer import LlvmTarget, emit_function, functions_of, line_origins

__all__ = ["LlvmTarget", "emit_function", "functions_of", "line_origins"]
