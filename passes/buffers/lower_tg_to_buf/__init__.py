"""`lower-tg-to-buf`: tensors become buffers, ops become kernels, movement becomes index maps."""

from tensorgrad.passes.buffers.lower_tg_to_buf import rules, rules_convolution
from tensorgrad.passes.buffers.lower_tg_to_buf.lower_tg_to_buf import LowerTgToBufPass

FAMILIES = (rules, rules_convolution)
"""The modules that hold rules: importing one registers its own."""

__all__ = ["LowerTgToBufPass"]
