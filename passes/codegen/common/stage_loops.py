"""The loops of a stage, as index expressions over available values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr

from tensorgrad.dialects.buf import KernelOp, iterators_of, loop_extents, shape_of
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.scalars import Value


@dataclass(frozen=True)
class Loops:
    """The loops of a stage, as expressions over available index values.

    Attributes:
        bases: The index values.
        extents: Base `i` is in `[0, extents[i])`.
        expressions: One for each loop of the stage.
    """

    bases: tuple[Value, ...]
    extents: tuple[int, ...]
    expressions: tuple[AffineExpr, ...]

    def with_own(self, bases: Sequence[Value], extents: Sequence[int]) -> Loops:
        """Returns these loops and further ones, each with its own base."""
        first = len(self.extents)
        return Loops(
            (*self.bases, *bases),
            (*self.extents, *extents),
            (*self.expressions, *(AffineDimExpr(first + i) for i in range(len(extents)))),
        )


def place_of(results: Sequence[AffineExpr], buffer: SSAValue, start: int, loops: Loops) -> affine.Linear:
    """Returns the linear index of an element, from `start` on."""
    placed = [result.replace_dims_and_symbols(loops.expressions, ()) for result in results]
    return affine.linear_position(placed, shape_of(buffer), loops.extents).plus(affine.Linear(constant=start))


def own_loops(kernel: KernelOp, stage: GenericOp) -> tuple[list[int], list[int]]:
    """Returns the extents of a stage's own loops: the parallel ones, which come first, and the reduction loops."""
    rank = len(kernel.extents)
    own, kinds = list(loop_extents(stage)[rank:]), iterators_of(stage)[rank:]
    count = sum(kind == IteratorType.PARALLEL for kind in kinds)
    return own[:count], own[count:]


def strided(loops: Loops, at: Value, own: list[int]) -> Loops:
    """Returns a stage's loops, with its own ones delinearized from one flat index."""
    total = math.prod(own)
    base = AffineDimExpr(len(loops.bases))
    extents = (*loops.extents, total)
    expressions = [affine.linear(e, extents).expression() for e in affine.delinearized(base, own)]
    return Loops((*loops.bases, at), extents, (*loops.expressions, *expressions))


def grid_loops(point: Value, grid: Sequence[int]) -> Loops:
    """Returns the loops of a grid, delinearized from the row-major index of a point."""
    total = 1
    for extent in grid:
        total *= extent
    expressions = affine.delinearized(AffineDimExpr(0), grid)
    simplified = tuple(affine.linear(e, [total]).expression() for e in expressions)
    return Loops((point,), (total,), simplified)
