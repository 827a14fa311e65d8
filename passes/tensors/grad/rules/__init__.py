"""The derivatives of all ops: the cotangents of the operands from the cotangent of the result.

A rule emits `tg` ops that have rules themselves, so gradients nest to any order, and stays linear in the cotangent. It
returns `None` for an operand without a derivative.
"""

from tensorgrad.passes.tensors.grad.registry import NO_DERIVATIVE, RULES
from tensorgrad.passes.tensors.grad.rules import (
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

__all__ = ["FAMILIES", "NO_DERIVATIVE", "RULES"]
