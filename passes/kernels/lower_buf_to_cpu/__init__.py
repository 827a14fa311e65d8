"""`lower-buf-to-cpu`: kernels as loops over a range of tasks."""

from tensorgrad.passes.kernels.lower_buf_to_cpu.lower_buf_to_cpu import LowerBufToCpuPass

__all__ = ["LowerBufToCpuPass"]
