"""Traits of `tg` ops, as in MLIR.

Passes query traits instead of listing classes, so that a new op takes part in every pass that queries its traits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard

from xdsl.traits import OpTrait

from tensorgrad.dialects.tg.base import Moves, TensorOp


class Elementwise(OpTrait):
    """Each element of the result depends only on the operands' elements at the same index.

    So the op needs no batching rule, and a kernel that reads its result can compute it inline.
    """


class Leaf(OpTrait):
    """The op has no operands and costs nothing: each kernel that reads it computes the elements that it needs."""


class View(Moves):
    """Each element of the result is an element of the only operand, at an index computed from its own.

    Kernels read through views, which cost no pass over memory.
    """


class Rearrangement(View):
    """A view that contains every element of its operand, so that keeping the operand takes no more memory."""


class NeverOverflows(OpTrait):
    """Computing the op in wider integers gives the same result, which stays in the range of the operands.

    This holds for views too, which don't have the trait.
    """


@dataclass(frozen=True)
class KeepsNan(OpTrait):
    """A NaN in an operand causes one in the result, if that has floats: no element is skipped or replaced.

    Attributes:
        operands: The number of leading operands for which this holds; `None` means all.
    """

    operands: int | None = None


def keeps_nan(op: object, place: int) -> bool:
    """Returns whether an op is a `tg` op whose result contains a NaN if the operand at position `place` does."""
    if not isinstance(op, TensorOp):
        return False
    trait = op.get_trait(KeepsNan)
    if trait is None:
        return op.has_trait(Rearrangement)
    return trait.operands is None or place < trait.operands


def is_view(op: object) -> TypeGuard[TensorOp]:
    """Returns whether an object is an op with the trait `View`."""
    return isinstance(op, TensorOp) and op.has_trait(View)


def is_rearrangement(op: object) -> TypeGuard[TensorOp]:
    """Returns whether an object is an op with the trait `Rearrangement`."""
    return isinstance(op, TensorOp) and op.has_trait(Rearrangement)


def is_elementwise(op: object) -> TypeGuard[TensorOp]:
    """Returns whether an object is an op with the trait `Elementwise`."""
    return isinstance(op, TensorOp) and op.has_trait(Elementwise)


def never_overflows(op: TensorOp) -> bool:
    """Returns whether computing an op in wider integers gives the same result."""
    return is_view(op) or op.has_trait(NeverOverflows)


def is_leaf(op: object) -> TypeGuard[TensorOp]:
    """Returns whether an object is an op with the trait `Leaf`."""
    return isinstance(op, TensorOp) and op.has_trait(Leaf)
