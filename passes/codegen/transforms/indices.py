"""Indices of tiled kernels: affine expressions over the loops around, simplified by what the loops' extents are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import affine as affine_ops
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.dialects.linalg.ops import GenericOp, IndexOp
from xdsl.ir import BlockArgument, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap

from tensorgrad.dialects.buf import loop_extents
from tensorgrad.dialects.buf_tiles import ForallOp
from tensorgrad.passes.analyses import affine

UNKNOWN = 1 << 31
"""The extent of a loop that isn't known; no index reaches it."""


@dataclass(frozen=True)
class Index:
    """An index.

    Attributes:
        expression: The index as a simplified affine expression, without symbols.
        loops: The loop indices that its dimensions stand for.
    """

    expression: AffineExpr
    loops: tuple[SSAValue, ...] = ()

    @property
    def constant(self) -> int | None:
        """The value of an index that depends on no loop."""
        return self.expression.value if isinstance(self.expression, AffineConstantExpr) else None

    @property
    def linear(self) -> affine.Linear:
        """The index as a sum of terms."""
        return affine.as_terms(self.expression)

    def bounds(self) -> tuple[int, int]:
        """Returns the least and the greatest value."""
        return self.linear.bounds([extent_of(loop) for loop in self.loops])

    def plus(self, other: Index, factor: int = 1) -> Index:
        """Returns `self + factor * other`."""
        return combined(AffineDimExpr(0) + AffineDimExpr(1) * factor, [self, other])


def constant(value: int) -> Index:
    """Returns the index of a number."""
    return Index(AffineConstantExpr(value))


def extent_of(loop: SSAValue) -> int:
    """Returns a number that the index of a loop is always below."""
    if isinstance(loop, BlockArgument):
        op = loop.block.parent_op()
        if isinstance(op, ForallOp):
            return most_of(op.extents[loop.index])
        if isinstance(op, scf.ForOp):
            stop = index_of(op.ub).constant
            return UNKNOWN if stop is None else stop
    if isinstance(loop.owner, affine_ops.MinOp):
        return most_of(loop) + 1
    if isinstance(loop.owner, IndexOp):
        stage = loop.owner.parent_op()
        while stage is not None and not isinstance(stage, GenericOp):
            stage = stage.parent_op()
        return UNKNOWN if stage is None else loop_extents(stage)[loop.owner.dim.value.data]
    return UNKNOWN


def index_of(value: SSAValue | int) -> Index:
    """Returns an index value as an expression of loops."""
    if isinstance(value, int):
        return constant(value)
    op = value.owner
    if isinstance(op, affine_ops.ApplyOp):
        return combined(op.map.data.results[0], [index_of(operand) for operand in op.operands])
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
        return constant(op.value.value.data)
    return Index(AffineDimExpr(0), (value,))


def combined(expression: AffineExpr, parts: Sequence[Index]) -> Index:
    """Returns an expression whose dimensions stand for other indices, simplified."""
    loops = tuple(dict.fromkeys(loop for part in parts for loop in part.loops))
    inside = [
        part.expression.replace_dims_and_symbols([AffineDimExpr(loops.index(loop)) for loop in part.loops], ())
        for part in parts
    ]
    extents = [extent_of(loop) for loop in loops]
    simple = affine.linear(expression.replace_dims_and_symbols(inside, ()), extents).expression()
    used = sorted(simple.used_dims())
    places: list[AffineExpr] = [AffineConstantExpr(0)] * len(loops)
    for place, dim in enumerate(used):
        places[dim] = AffineDimExpr(place)
    return Index(simple.replace_dims_and_symbols(places, ()), tuple(loops[dim] for dim in used))


def places_of(position: Index, extents: Sequence[int]) -> list[Index]:
    """Returns the index along each axis of a shape of the element at a row-major position, which lies in it."""
    at = AffineDimExpr(0)
    places = [at // math.prod(extents[1:]), *affine.delinearized(at, extents)[1:]]
    return [combined(place, [position]) for place in places]


def bounds_of(extent: SSAValue | int) -> list[Index]:
    """Returns the indices whose least is the extent of a loop."""
    if isinstance(extent, SSAValue) and isinstance(extent.owner, affine_ops.MinOp):
        parts = [index_of(operand) for operand in extent.owner.operands]
        return [combined(result, parts) for result in extent.owner.map.data.results]
    return [index_of(extent)]


def most_of(extent: SSAValue | int) -> int:
    """Returns the most that the extent of a loop can be."""
    return min(bound.bounds()[1] for bound in bounds_of(extent))


def map_over(loops: Sequence[SSAValue], indices: Sequence[Index]) -> AffineMap:
    """Returns the map from loops to indices."""
    results = [
        index.expression.replace_dims_and_symbols([AffineDimExpr(loops.index(loop)) for loop in index.loops], ())
        for index in indices
    ]
    return AffineMap(len(loops), 0, tuple(results))
