"""Sorting: every tensor of a sort is read at the positions that sort the one which is compared."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import i1, i32
from xdsl.ir import BlockArgument, Operation, SSAValue

from tensorgrad.dialects.stablehlo import regions as hlo
from tensorgrad.dialects.stablehlo.base import int_of
from tensorgrad.dialects.stablehlo.elementwise import CompareOp
from tensorgrad.dialects.tg.base import integer
from tensorgrad.dialects.tg.build import TensorBuilder, element_of, shape_of
from tensorgrad.dialects.tg.sort import ArgsortOp
from tensorgrad.passes.stablehlo.importing.reader import Reader, Rule, Unsupported

FOREIGN_COMPARISON = "a sort compares one or several of its tensors by less or greater, one after another"


def _sort(reader: Reader, op: hlo.SortOp) -> Sequence[SSAValue]:
    operands, b = reader.operands(op), reader.builder
    rank = len(shape_of(operands[0]))
    axis = int_of(op.dimension, -1) % rank
    order = [*(place for place in range(rank) if place != axis), axis]
    inverse = [order.index(place) for place in range(rank)]
    rows = [b.transpose(operand, order) for operand in operands]
    # Sorting by the least significant key first, and keeping the order of equal elements, sorts by all of them.
    for number, falling in reversed(_keys(op)):
        key = b.cast(rows[number], i32) if element_of(rows[number]) == i1 else rows[number]
        positions = b.emit(ArgsortOp, [key], descending=integer(falling))
        rows = [_read(b, row, positions) for row in rows]
    return [b.transpose(row, inverse) for row in rows]


def _read(b: TensorBuilder, row: SSAValue, positions: SSAValue) -> SSAValue:
    return b.take_along_axis(row, positions, len(shape_of(row)) - 1)


def _keys(op: hlo.SortOp) -> list[tuple[int, bool]]:
    """Returns the tensors by which a sort compares, the most significant first, and whether each is falling.

    Raises:
        Unsupported: The comparison is none of these.
    """
    (result,) = hlo.returned(op.comparator)
    keys: list[tuple[int, bool]] = []
    for compare in _comparisons(result):
        lhs, rhs = (_arguments(operand) for operand in compare.operands)
        if len(lhs) != 1 or len(rhs) != 1:
            raise Unsupported(FOREIGN_COMPARISON)
        (left,), (right,) = lhs, rhs
        if left.index ^ 1 != right.index:
            raise Unsupported(FOREIGN_COMPARISON)
        keys.append((left.index // 2, (compare.direction in ("gt", "ge")) != (left.index > right.index)))
    return keys


def _comparisons(value: SSAValue) -> list[CompareOp]:
    """Returns the comparisons of `a < b`, or of `a < b or (a == b and …)`, in order."""
    op = value.owner
    if isinstance(op, CompareOp) and op.direction in ("lt", "gt", "le", "ge"):
        return [op]
    if isinstance(op, Operation) and op.name == "stablehlo.or":
        first, rest = (operand.owner for operand in op.operands)
        if isinstance(first, CompareOp) and isinstance(rest, Operation) and rest.name == "stablehlo.and":
            return [first, *_comparisons(rest.operands[1])]
    raise Unsupported(FOREIGN_COMPARISON)


def _arguments(value: SSAValue) -> set[BlockArgument]:
    """Returns the arguments of the region from which a value is computed."""
    if isinstance(value, BlockArgument):
        return {value}
    op = value.owner
    return (
        {argument for operand in op.operands for argument in _arguments(operand)}
        if isinstance(op, Operation)
        else set()
    )


RULES: dict[str, Rule] = {"stablehlo.sort": _sort}
