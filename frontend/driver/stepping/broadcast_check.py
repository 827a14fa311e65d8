"""Finds operands of a traced function that were broadcast against each other by mistake: `(n,)` against `(n, 1)`."""

from __future__ import annotations

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from tensorgrad.dialects.locations import line_of
from tensorgrad.dialects.tg.base import TensorOp
from tensorgrad.dialects.tg.build import type_of
from tensorgrad.dialects.tg.shape import BroadcastOp, ReshapeOp
from tensorgrad.dialects.tg.traits import Elementwise
from tensorgrad.errors import BroadcastWarning
from tensorgrad.runtime.errors import warn_user


def warn_of_pairs(function: FuncOp, name: str) -> None:
    """Warns, once per line, about ops on all pairs of elements of a tensor `(*s, 1)` and one `(*s,)`.

    Not if either shape is explicit: an axis was added to a tensor, as by `x[:, None]` or `keepdims`.

    Args:
        function: A traced function.
        name: Its name in the message.
    """
    seen: set[str] = set()
    for op in function.walk():
        shape = _paired_shape(op)
        line = line_of(op.location)
        if shape is None or line in seen:
            continue
        seen.add(line)
        what, result = op.name.removeprefix("tg."), type_of(op.results[0]).get_shape()
        warn_user(
            f"{line}: {what} in {name}() broadcasts the shapes {(*shape, 1)} and {shape} to {result}, "
            "all pairs of their elements: make the shapes equal, as x.squeeze(-1) does; or, if pairs are meant, write "
            "x[..., None] for the former",
            BroadcastWarning,
        )


def _paired_shape(op: Operation) -> tuple[int, ...] | None:
    """Returns the shape `s` if an op combines `(*s, 1)` and `(*s,)`, neither of which is explicit."""
    if not op.has_trait(Elementwise) or len(op.operands) != 2:
        return None
    for first, second in (op.operands, reversed(op.operands)):
        column, row = _broadcast_source(first, 0), _broadcast_source(second, 1)
        if column is None or row is None or isinstance(row.owner, ReshapeOp) or not isinstance(column.owner, ReshapeOp):
            continue
        shape, source = type_of(row).get_shape(), column.owner.operands[0]
        if type_of(source).get_shape() == (*shape, 1) and not _is_expanded(source, shape):
            return shape
    return None


def _broadcast_source(value: SSAValue, offset: int) -> SSAValue | None:
    """Returns the operand of a broadcast to one more axis, the last (offset 0) or the first (offset 1)."""
    op = value.owner
    if not isinstance(op, BroadcastOp):
        return None
    rank = len(type_of(op.operands[0]).get_shape())
    is_next = len(type_of(value).get_shape()) == rank + 1 and rank > 0
    dims = op.dims.get_values()
    return op.operands[0] if is_next and list(dims) == list(range(offset, rank + offset)) else None


def _is_expanded(value: SSAValue, shape: tuple[int, ...]) -> bool:
    """Returns whether a tensor `(*shape, 1)` is computed elementwise from one to which the last axis was added."""
    pending, seen = [value], set[SSAValue]()
    while pending:
        current = pending.pop()
        if current in seen or type_of(current).get_shape() != (*shape, 1):
            continue
        seen.add(current)
        op = current.owner
        if isinstance(op, ReshapeOp) and type_of(op.operands[0]).get_shape() == shape:
            return True
        if isinstance(op, TensorOp) and op.has_trait(Elementwise):
            pending += op.operands
    return False
