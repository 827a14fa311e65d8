"""`lower-buf-to-wgsl`: lowers scheduled kernels to `wgsl.kernel`s, one module for each archetype."""

from tensorgrad.passes.kernels.lower_buf_to_wgsl.lower_buf_to_wgsl import LowerBufToWgslPass

__all__ = ["LowerBufToWgslPass"]
