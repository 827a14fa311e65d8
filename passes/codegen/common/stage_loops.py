"""The loops of a stage, as index expressions over available values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import affine as affine_ops
from xdsl.dialects import arith, memref
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.dialects.linalg.ops import GenericOp, IndexOp
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr

from tensorgrad.dialects.buf import KernelOp, is_shape_only, iterators_of, loop_extents, maps_of, shape_of
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.analyses.windows import load_place
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

    def with_merged(self, bases: Sequence[Value], groups: Sequence[Sequence[int]]) -> Loops:
        """Returns these loops and groups of further ones, each group with one base that counts its iterations."""
        loops = self
        for base, extents in zip(bases, groups, strict=True):
            loops = strided(loops, base, extents)
        return loops


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


def strided(loops: Loops, at: Value, own: Sequence[int]) -> Loops:
    """Returns a stage's loops, with its own ones delinearized from one flat index."""
    total = math.prod(own)
    base = AffineDimExpr(len(loops.bases))
    extents = (*loops.extents, total)
    expressions = [affine.linear(e, extents).expression() for e in affine.delinearized(base, own)]
    return Loops((*loops.bases, at), extents, (*loops.expressions, *expressions))


def merged_loops(stage: GenericOp, first: int, extents: Sequence[int]) -> list[list[int]]:
    """Groups a stage's loops from `first` on: those of a group walk every operand as one loop does.

    So do the loops over the rows and the columns of a whole image, which is contiguous. A loop whose index the body
    uses for more than a place in memory stays alone.
    """
    around = loop_extents(stage)
    places = [
        affine.linear_position(m.results, shape_of(buffer), around)
        for buffer, m in zip(stage.operands, maps_of(stage), strict=True)
        if not is_shape_only(buffer)
    ]
    ops = list(stage.body.block.walk())
    loads = {op: load_place(op, around) for op in ops if isinstance(op, memref.LoadOp)}
    places += [place for place in loads.values() if place is not None]
    indices = {op.dim.value.data for op in ops if isinstance(op, IndexOp) and _is_used_apart_from(loads, op.result)}
    groups: list[list[int]] = []
    for loop, extent in enumerate(extents, first):
        apart = not groups or not indices.isdisjoint((loop - 1, loop))
        if apart or not all(_continues(place, loop, extent) for place in places):
            groups.append([])
        groups[-1].append(extent)
    return groups


def _is_used_apart_from(loads: Mapping[memref.LoadOp, affine.Linear | None], index: SSAValue) -> bool:
    """Returns whether a body uses an index for anything but those places of loads that are known."""
    for use in index.uses:
        op = use.operation
        if isinstance(op, memref.LoadOp):
            is_place = loads[op] is not None
        else:
            is_form = isinstance(op, arith.AddiOp | arith.SubiOp | arith.MuliOp | affine_ops.ApplyOp)
            is_place = is_form and not _is_used_apart_from(loads, op.results[0])
        if not is_place:
            return True
    return False


def _continues(place: affine.Linear, loop: int, extent: int) -> bool:
    """Returns whether an iteration of the loop before a loop goes on behind all of the loop's iterations."""
    before, own = AffineDimExpr(loop - 1), AffineDimExpr(loop)
    others = {used for atom in place.terms if atom not in (before, own) for used in atom.used_dims()}
    return place.terms.get(before, 0) == extent * place.terms.get(own, 0) and others.isdisjoint((loop - 1, loop))


def grid_loops(point: Value, grid: Sequence[int]) -> Loops:
    """Returns the loops of a grid, delinearized from the row-major index of a point."""
    total = 1
    for extent in grid:
        total *= extent
    expressions = affine.delinearized(AffineDimExpr(0), grid)
    simplified = tuple(affine.linear(e, [total]).expression() for e in expressions)
    return Loops((point,), (total,), simplified)
