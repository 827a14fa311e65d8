"""How each op of `tg` becomes kernels or an index map: a module a family."""

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
"""The modules that hold rules: importing one registers its own."""

COLLECTIVES = collective.KINDS
"""The ops that the runtime runs, each with what it is on buffers."""

__all__ = ["COLLECTIVES", "FAMILIES", "MEMORY_OPERANDS", "RULES", "SEQUENCES", "VIEWS"]
