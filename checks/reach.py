"""Finds the results of a `tg` function that a NaN always reaches, whatever the other values are, from the IR alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Block, SSAValue, Use

from tensorgrad.dialects.tg.base import Tensor, TensorOp
from tensorgrad.dialects.tg.call import CallOp, ReturnOp
from tensorgrad.dialects.tg.shape import PackOp, SliceOp
from tensorgrad.dialects.tg.traits import Elementwise, keeps_nan

Range: TypeAlias = tuple[int, int] | None
"""The range of elements of a row that contains a NaN; `None` for the whole value."""


def results_with(nan: SSAValue) -> frozenset[int]:
    """Returns the indices of the function's results that contain a NaN if a value does.

    This is a lower bound: ops that skip or replace elements are not followed, except for slices of rows that the value
    was packed into.

    Args:
        nan: The value, in the function's block or in the body of a call in it.
    """
    results: set[int] = set()
    pending: list[tuple[SSAValue, Range]] = [(nan, None)]
    seen = set(pending)
    uses = _Uses()
    while pending:
        value, where = pending.pop()
        for use in uses.of(value, where):
            if isinstance(use.operation, func.ReturnOp):
                results.add(use.index)
            after = _after(use, where)
            if after is not None and after not in seen:
                seen.add(after)
                pending.append(after)
    return frozenset(results)


class _Uses:
    """Cached users of values; slice bounds are read once, as a row of all parameters has a slice for each."""

    def __init__(self) -> None:
        self._known: dict[SSAValue, tuple[list[Use], list[tuple[int, int, Use]]]] = {}

    def of(self, value: SSAValue, where: Range) -> Iterable[Use]:
        """Returns the uses that may propagate a NaN; of slices, those that contain its whole range."""
        if where is None:
            return value.uses
        if value not in self._known:
            self._known[value] = [], []
            others, slices = self._known[value]
            for use in value.uses:
                if isinstance(use.operation, SliceOp):
                    slices.append((*_bounds(use.operation), use))
                else:
                    others.append(use)
        others, slices = self._known[value]
        return [*others, *[use for start, stop, use in slices if start <= where[0] and where[1] <= stop]]


def _bounds(op: SliceOp) -> tuple[int, int]:
    """Returns the start and stop of a slice of a row; an empty range if it skips elements."""
    (start,), (stop,), (step,) = op.bounds
    return start, stop if step == 1 else start


def is_unconditional(value: SSAValue) -> bool:
    """Returns whether a value is computed whenever its function runs, outside of loops and branches."""
    block = value.owner if isinstance(value.owner, Block) else value.owner.parent
    while block is not None:
        around = block.parent_op()
        if isinstance(around, func.FuncOp):
            return True
        if not isinstance(around, CallOp) or block is not around.body.block:
            return False
        block = around.parent
    return False


def _after(use: Use, where: Range) -> tuple[SSAValue, Range] | None:
    """Returns the value that contains a NaN if the used one does, and its range; `None` if that is unknown."""
    op = use.operation
    if isinstance(op, TensorOp):
        return _in_result(op, use.index, where)
    if isinstance(op, CallOp):
        return op.body.block.args[use.index], where
    around = op.parent_op()
    if isinstance(op, ReturnOp) and isinstance(around, CallOp) and op.parent is around.body.block:
        return around.results[use.index], where
    return None


def _in_result(op: TensorOp, place: int, where: Range) -> tuple[SSAValue, Range] | None:
    result = op.results[0]
    if isinstance(op, SliceOp) and where is not None:
        start, _ = _bounds(op)  # the slice contains the whole range
        return result, (where[0] - start, where[1] - start)
    if not keeps_nan(op, place) or not _has_floats(result):
        return None
    if isinstance(op, PackOp):
        begin = op.offsets.get_values()[place]
        return result, (begin, begin + cast(Tensor, op.parts[place].type).element_count())
    return result, where if op.has_trait(Elementwise) else None


def _has_floats(value: SSAValue) -> bool:
    kind = cast(Tensor, value.type)
    return isinstance(kind.get_element_type(), AnyFloat) and kind.element_count() > 0
