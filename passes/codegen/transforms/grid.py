"""Transformations of a kernel's grid: `collapse`, `sides`, `tile` and `map`, of the loops without a processor."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineDimExpr
from xdsl.rewriter import Rewriter

from tensorgrad.dialects.buf_tiles import DISPATCHED, ForallOp, TiledOp, around
from tensorgrad.dialects.recipe import Collapse, Map, Processor, Sides, Tile
from tensorgrad.passes.analyses.axes import grid_of_sides
from tensorgrad.passes.codegen.transforms.building import TileBuilder
from tensorgrad.passes.codegen.transforms.failure import DoesNotFit
from tensorgrad.passes.codegen.transforms.indices import (
    UNKNOWN,
    Index,
    bounds_of,
    combined,
    constant,
    index_of,
    most_of,
    places_of,
)


def free_nests(kernel: TiledOp) -> list[ForallOp]:
    """Returns the outermost loops without a processor: one nest or, after `interchange` or a peeled tile, several.

    Raises:
        DoesNotFit: All have one.
    """
    nests = [*_free(kernel.body.block)]
    if not nests:
        raise DoesNotFit("all loops have a processor already; those of an attention are written by `attend`")
    return nests


def _free(block: Block) -> Iterator[ForallOp]:
    for op in block.ops:
        if isinstance(op, ForallOp) and not op.mapping:
            yield op
        elif isinstance(op, ForallOp | scf.ForOp):
            yield from _free(op.body.block)


def free_loops(kernel: TiledOp) -> ForallOp:
    """Returns the outermost loops without a processor, if it is one nest.

    Raises:
        DoesNotFit: All have one, or there are several nests.
    """
    nests = free_nests(kernel)
    if len(nests) > 1:
        raise DoesNotFit(f"{len(nests)} nests of loops have no processor: it comes before they are divided")
    return nests[0]


def most_points(loops: ForallOp) -> list[int]:
    """Returns the most iterations of each of some loops.

    Raises:
        DoesNotFit: The extent of one of them doesn't say.
    """
    sizes = [most_of(extent) for extent in loops.extents]
    if max(sizes, default=0) >= UNKNOWN:
        raise DoesNotFit("a loop has no most number of iterations, for which there is memory")
    return sizes


def free_extents(loops: ForallOp) -> list[int]:
    """Returns the extents of loops.

    Raises:
        DoesNotFit: One of them is no number.
    """
    extents = [extent for extent in loops.extents if isinstance(extent, int)]
    if len(extents) < len(loops.extents):
        raise DoesNotFit("the loop's last tile is smaller, so its extent is no number")
    return extents


def collapse(kernel: TiledOp, step: Collapse) -> None:
    """Makes one loop, in row-major order, of the loops without a processor."""
    loops = free_loops(kernel)
    extents = free_extents(loops)
    builder = TileBuilder.before(loops)
    new = builder.forall([math.prod(extents)])
    point = index_of(new.indices[0])
    _take_over(builder.into(new.body.block), places_of(point, extents), loops)


def sides(kernel: TiledOp, step: Sides) -> None:
    """Makes loops over the rest, the rows and the columns of those without a processor, each in row-major order."""
    loops = free_loops(kernel)
    named, count = (*step.row, *step.column), len(loops.indices)
    if len({*named}) < len(named) or any(loop >= count for loop in named):
        raise DoesNotFit(f"it names loops {list(named)}, the kernel has loops 0 to {count - 1}, each on one side")
    extents, expressions = grid_of_sides(free_extents(loops), step.row, step.column)
    builder = TileBuilder.before(loops)
    new = builder.forall(extents)
    points = [index_of(index) for index in new.indices]
    _take_over(builder.into(new.body.block), [combined(expression, points) for expression in expressions], loops)


def tile(kernel: TiledOp, step: Tile) -> None:
    """Divides the loops without a processor into tiles."""
    for loops in free_nests(kernel):
        _tile(loops, step)


def _tile(loops: ForallOp, step: Tile) -> None:
    apart = step.apart or (1,) * len(step.sizes)
    if len(step.sizes) != len(loops.indices) or len(apart) != len(step.sizes):
        settings = f"{len(step.sizes)} sizes" + (f" and {len(apart)} distances" if step.apart else "")
        raise DoesNotFit(f"it has {settings} for {len(loops.indices)} loops")
    if step.to:
        _check_processors(loops, step.to)
    if step.peel and max(apart) > 1:
        raise DoesNotFit("tiles whose points are apart lie between each other, so none can be peeled off")
    builder = TileBuilder.before(loops)
    divisions = [_Division.of(*numbers) for numbers in zip(loops.extents, step.sizes, apart, strict=True)]
    choices = [division.peeled(builder) if step.peel else [division] for division in divisions]
    for parts in itertools.product(*choices):
        copy = builder.insert(loops.clone())
        _take_over(*_tiled(TileBuilder.before(copy), step, parts), copy)
    Rewriter.erase_op(loops)


def _tiled(builder: TileBuilder, step: Tile, divisions: Sequence[_Division]) -> tuple[TileBuilder, list[Index]]:
    """Inserts loops over tiles and their points; returns where their body is, and the indices there."""
    outer = builder.forall([builder.least(division.tiles()) for division in divisions], step.to)
    inside = builder.into(outer.body.block)
    starts = [division.start(index_of(index)) for division, index in zip(divisions, outer.indices, strict=True)]
    rest = [loop for loop, size in enumerate(step.sizes) if size > 1]
    if rest:
        inner = inside.forall([inside.least(divisions[loop].points(starts[loop])) for loop in rest])
        for loop, index in zip(rest, inner.indices, strict=True):
            starts[loop] = starts[loop].plus(index_of(index), divisions[loop].apart)
        inside = inside.into(inner.body.block)
    return inside, starts


def map_loops(kernel: TiledOp, step: Map) -> None:
    """Gives the outermost loops without a processor to processors."""
    for loops in free_nests(kernel):
        _check_processors(loops, step.to)
        builder = TileBuilder.before(loops)
        new = builder.forall(loops.extents, step.to)
        _take_over(builder.into(new.body.block), [index_of(index) for index in new.indices], loops)


def _check_processors(loops: ForallOp, to: Sequence[Processor]) -> None:
    if len(to) != len(loops.indices):
        raise DoesNotFit(f"it has {len(to)} processors for {len(loops.indices)} loops")
    outside = [*around(loops)]
    for number, processor in enumerate(to):
        if processor in DISPATCHED and processor in (*outside, *to[:number]):
            raise DoesNotFit(f"{processor} runs a loop already")
        if processor in DISPATCHED and any(other not in DISPATCHED for other in outside):
            raise DoesNotFit(f"a loop over {processor} must be outside of those over {outside[0]}")
    if Processor.LANE in to:
        if Processor.LANE in outside:
            raise DoesNotFit("lanes run a loop already")
        if not any(processor.is_workgroup for processor in outside):
            raise DoesNotFit("lanes are those of a workgroup: a loop over workgroups must be outside")


@dataclass(frozen=True)
class _Division:
    """A loop as tiles.

    Attributes:
        bounds: The indices whose least is the extent of the loop.
        size: The number of points of a tile.
        apart: The distance of these.
    """

    bounds: Sequence[Index]
    size: int
    apart: int

    @staticmethod
    def of(extent: int | SSAValue, size: int, apart: int) -> _Division:
        """Returns the division of a loop into tiles of a size, whose points are so far apart.

        Raises:
            DoesNotFit: Tiles of points apart from each other don't cover the loop.
        """
        most = most_of(extent)
        if apart > 1 and most > size * apart:
            raise DoesNotFit(f"tiles of {size} points that are {apart} apart don't cover a loop of {most}")
        return _Division(bounds_of(extent), size, apart)

    def tiles(self) -> list[Index]:
        """Returns indices whose least is the number of tiles."""
        if self.apart > 1:
            return [constant(self.apart), *self.bounds]
        return [combined((AffineDimExpr(0) + (self.size - 1)) // self.size, [bound]) for bound in self.bounds]

    def start(self, tile: Index) -> Index:
        """Returns the first point of a tile."""
        return tile if self.apart > 1 else combined(AffineDimExpr(0) * self.size, [tile])

    def points(self, start: Index) -> list[Index]:
        """Returns indices whose least is the number of points of the tile that begins at a point."""
        partial = [bound for bound in self.bounds if self.apart > 1 or not _is_multiple(bound, self.size)]
        upwards = (AffineDimExpr(0) + (self.apart - 1)) // self.apart
        return [constant(self.size), *(combined(upwards, [bound.plus(start, -1)]) for bound in partial)]

    def peeled(self, builder: TileBuilder) -> list[_Division]:
        """Returns the division into whole tiles, and into the last one, if that may be smaller."""
        if all(_is_multiple(bound, self.size) for bound in self.bounds):
            return [self]
        total = index_of(builder.least(self.bounds))
        parts = [_Whole([total], self.size, 1), _Last([total], self.size, 1)]
        return [part for part in parts if all(bound.constant != 0 for bound in part.tiles())]


class _Whole(_Division):
    """The whole tiles of a loop."""

    def tiles(self) -> list[Index]:
        return [combined(AffineDimExpr(0) // self.size, self.bounds)]

    def points(self, start: Index) -> list[Index]:
        return [constant(self.size)]


class _Last(_Division):
    """The last tile of a loop, if it is smaller."""

    def tiles(self) -> list[Index]:
        return [constant(1), *self.points(constant(0))]

    def start(self, tile: Index) -> Index:
        return combined(AffineDimExpr(0) // self.size * self.size, self.bounds)

    def points(self, start: Index) -> list[Index]:
        return [combined(AffineDimExpr(0) % self.size, self.bounds)]


def _is_multiple(bound: Index, size: int) -> bool:
    """Returns whether a loop consists of whole tiles."""
    linear = bound.linear
    return all(number % size == 0 for number in (linear.constant, *linear.terms.values()))


def _take_over(builder: TileBuilder, indices: Sequence[Index], loops: ForallOp) -> None:
    """Moves the body of loops to where a builder inserts, given what their indices are there, and erases them."""
    for old, index in zip(loops.indices, indices, strict=True):
        old.replace_all_uses_with(builder.value(index))
    for op in [*loops.body.block.ops]:
        op.detach()
        builder.move(op)
    Rewriter.erase_op(loops)
