"""`lower-buf-to-cpu`: lowers kernels to loops over a range of tasks."""

from tensorgrad.passes.kernels.lower_buf_to_cpu.lower_buf_to_cpu import LowerBufToCpuPass

__all__ = ["LowerBufToCpuPass"]
