"""The rules that lower `tg` ops to kernels or index maps, one module per family of ops."""

from tensorgrad.passes.buffers.lower_tg_to_buf.registry import MEMORY_OPERANDS, RULES, SEQUENCES, VIEWS
from tensorgrad.passes.buffers.lower_tg_to_buf.rules import (
    collective,
    contract,
    convolution,
    elementwise,
    index,
    leaves,
    random,
    reduce,
    shape,
    sort,
)

FAMILIES = (elementwise, shape, reduce, contract, convolution, index, sort, random, leaves, collective)
"""The modules that hold rules; importing one registers its rules."""

__all__ = ["FAMILIES", "MEMORY_OPERANDS", "RULES", "SEQUENCES", "VIEWS"]
