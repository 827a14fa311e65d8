"""`lower-tg-to-buf`: tensors become buffers, ops become kernels, and data movement becomes index maps."""

from tensorgrad.passes.buffers.lower_tg_to_buf.lower_tg_to_buf import LowerTgToBufPass

__all__ = ["LowerTgToBufPass"]
