"""Transformations of a kernel's grid: `collapse`, `tile` and `map` work on the loops that have no processor yet."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir.affine import AffineDimExpr

from tensorgrad.dialects.buf_tiles import DISPATCHED, ForallOp, TiledOp, around
from tensorgrad.dialects.recipe import Collapse, Map, Processor, Tile
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.codegen.transforms.building import TileBuilder
from tensorgrad.passes.codegen.transforms.failure import DoesNotFit
from tensorgrad.passes.codegen.transforms.indices import Index, bounds_of, combined, constant, index_of


def free_loops(kernel: TiledOp) -> ForallOp:
    """Returns the outermost loops without a processor.

    Raises:
        DoesNotFit: All have one.
    """
    for op in kernel.walk():
        if isinstance(op, ForallOp) and not op.mapping:
            return op
    raise DoesNotFit("all loops have a processor already")


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
    indices = [combined(place, [point]) for place in affine.delinearized(AffineDimExpr(0), extents)]
    _take_over(builder.into(new.body.block), loops, indices)


def tile(kernel: TiledOp, step: Tile) -> None:
    """Divides the loops without a processor into tiles."""
    loops = free_loops(kernel)
    if len(step.sizes) != len(loops.indices):
        raise DoesNotFit(f"it has {len(step.sizes)} sizes for {len(loops.indices)} loops")
    if step.to:
        _check_processors(loops, step.to)
    bounds = [bounds_of(loops, loop) for loop in range(len(step.sizes))]
    builder = TileBuilder.before(loops)
    counts = [builder.least(_tiles(bound, size)) for bound, size in zip(bounds, step.sizes, strict=True)]
    outer = builder.forall(counts, step.to)
    inside = builder.into(outer.body.block)
    starts = [
        combined(AffineDimExpr(0) * size, [index_of(index)])
        for index, size in zip(outer.indices, step.sizes, strict=True)
    ]
    rest = [loop for loop, size in enumerate(step.sizes) if size > 1]
    if rest:
        inner = inside.forall([inside.least(_points(bounds[loop], starts[loop], step.sizes[loop])) for loop in rest])
        for loop, index in zip(rest, inner.indices, strict=True):
            starts[loop] = starts[loop].plus(index_of(index))
        inside = inside.into(inner.body.block)
    _take_over(inside, loops, starts)


def map_loops(kernel: TiledOp, step: Map) -> None:
    """Gives the outermost loops without a processor to processors."""
    loops = free_loops(kernel)
    _check_processors(loops, step.to)
    new = TileBuilder.before(loops).forall(loops.extents, step.to)
    _take_over(TileBuilder.before(loops).into(new.body.block), loops, [index_of(index) for index in new.indices])


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


def _tiles(bounds: Sequence[Index], size: int) -> list[Index]:
    """Returns indices whose least is the number of tiles of a loop."""
    return [combined((AffineDimExpr(0) + (size - 1)) // size, [bound]) for bound in bounds]


def _points(bounds: Sequence[Index], start: Index, size: int) -> list[Index]:
    """Returns indices whose least is the number of points of a tile."""
    rests = [bound.plus(start, -1) for bound in bounds]
    smaller = [rest for rest, bound in zip(rests, bounds, strict=True) if not _is_multiple(bound, size)]
    return [constant(size), *(rest for rest in smaller if rest.bounds()[0] < size)]


def _is_multiple(bound: Index, size: int) -> bool:
    """Returns whether a loop consists of whole tiles."""
    linear = bound.linear
    return all(number % size == 0 for number in (linear.constant, *linear.terms.values()))


def _take_over(builder: TileBuilder, loops: ForallOp, indices: Sequence[Index]) -> None:
    """Moves the body of loops to where a builder inserts, given what their indices are there, and erases them."""
    for old, index in zip(loops.indices, indices, strict=True):
        old.replace_all_uses_with(builder.value(index))
    for op in [*loops.body.block.ops]:
        op.detach()
        builder.move(op)
    loops.detach()
    loops.erase()
