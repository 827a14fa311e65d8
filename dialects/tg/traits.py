"""What passes ask of an op of `tg`, whatever its class: traits, as MLIR has them.

An op has its traits in its definition: a new op takes part in every pass that asks for one, and no pass lists classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard

from xdsl.traits import OpTrait

from tensorgrad.dialects.tg.base import TensorOp


class Elementwise(OpTrait):
    """Each element of the result is computed from the operands' elements at the same index, and from nothing else.

    So the op runs along a new axis as it is, and a kernel that reads its result can compute it on the way.
    """


class Leaf(OpTrait):
    """The op has no operands, and costs nothing: each kernel that reads it computes what it needs for itself."""


class View(OpTrait):
    """Each element of the result is an element of the only operand, at an index that follows from its own.

    A kernel reads through a view: it costs no pass over memory.
    """


class Rearrangement(View):
    """A view that has every element of its operand, so that keeping the operand keeps no more than the view has."""


class NeverOverflows(OpTrait):
    """Of integers, the result is the same when it is computed in wider ones: it stays in the range of the operands.

    So do the results of views, which don't have the trait.
    """


@dataclass(frozen=True)
class KeepsNan(OpTrait):
    """A NaN in an operand leads to one in the result, if that has floats: no element is skipped or replaced.

    Attributes:
        operands: For how many operands that holds, counted from the first; `None` for all.
    """

    operands: int | None = None


def keeps_nan(op: object, place: int) -> bool:
    """Returns whether the result of an op, if it is one of `tg`, contains a NaN if the operand at a place does."""
    if not isinstance(op, TensorOp):
        return False
    trait = op.get_trait(KeepsNan)
    if trait is None:
        return op.has_trait(Rearrangement)
    return trait.operands is None or place < trait.operands


def is_view(op: object) -> TypeGuard[TensorOp]:
    """Returns whether an op, if it is one, only says how to look at its operand."""
    return isinstance(op, TensorOp) and op.has_trait(View)


def is_rearrangement(op: object) -> TypeGuard[TensorOp]:
    """Returns whether an op, if it is one, is a view with all elements of its operand."""
    return isinstance(op, TensorOp) and op.has_trait(Rearrangement)


def is_elementwise(op: object) -> TypeGuard[TensorOp]:
    """Returns whether an op, if it is one, works element by element."""
    return isinstance(op, TensorOp) and op.has_trait(Elementwise)


def never_overflows(op: TensorOp) -> bool:
    """Returns whether an op's result is the same when it is computed in wider integers."""
    return is_view(op) or op.has_trait(NeverOverflows)


def is_leaf(op: object) -> TypeGuard[TensorOp]:
    """Returns whether an op, if it is one, has no operands and costs nothing."""
    return isinstance(op, TensorOp) and op.has_trait(Leaf)
