"""The transformation `step_reduction`: reductions as loops in order around their stages."""

from __future__ import annotations

import math

from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir.affine import AffineDimExpr
from xdsl.rewriter import Rewriter

from tensorgrad.dialects.buf import is_reduction, iterators_of, loop_extents
from tensorgrad.dialects.buf_tiles import TiledOp
from tensorgrad.dialects.recipe import StepReduction
from tensorgrad.passes.codegen.transforms.building import Range, TileBuilder
from tensorgrad.passes.codegen.transforms.failure import DoesNotFit
from tensorgrad.passes.codegen.transforms.indices import combined, index_of, places_of


def step_reduction(kernel: TiledOp, step: StepReduction) -> None:
    """Writes the loops of each reduction as one in order, whose iterations fold a few terms."""
    stages = [op for op in kernel.walk() if isinstance(op, GenericOp) and is_reduction(op)]
    if not stages:
        raise DoesNotFit("no stage has a reduction")
    for stage in stages:
        _write(stage, step)
        Rewriter.erase_op(stage)


def _write(stage: GenericOp, step: StepReduction) -> None:
    kinds, extents = iterators_of(stage), loop_extents(stage)
    loops = range(kinds.index(IteratorType.REDUCTION), len(kinds))
    if step.inner >= len(loops):
        raise DoesNotFit(f"a reduction of {len(loops)} loops has none with number {step.inner}")
    inner = loops[step.inner]
    if extents[inner] % step.terms:
        raise DoesNotFit(f"steps of {step.terms} terms don't divide a loop of {extents[inner]}")
    order = [*(loop for loop in loops if loop != inner), inner]
    turns = [extents[loop] for loop in order]
    turns[-1] //= step.terms
    builder = TileBuilder.before(stage)
    op = builder.loop(math.prod(turns))
    at = index_of(op.body.block.args[0])
    ranges = {loop: Range(place) for loop, place in zip(order, places_of(at, turns), strict=True)}
    if step.terms > 1:
        first = combined(AffineDimExpr(0) * step.terms, [ranges[inner].first])
        ranges[inner] = Range(first, step.terms)
    builder.into(op.body.block).narrowed(stage, ranges)
