"""`lower-buf-to-wgsl`: scheduled kernels become `wgsl.kernel`s; `rows` and `contraction` write their code."""

from tensorgrad.passes.kernels.lower_buf_to_wgsl.lower_buf_to_wgsl import LowerBufToWgslPass

__all__ = ["LowerBufToWgslPass"]
