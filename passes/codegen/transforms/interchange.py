"""The transformation `interchange`: a product in parts of its reduction, each for all points before the next."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects import memref
from xdsl.dialects.linalg.ops import FillOp, GenericOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr
from xdsl.rewriter import Rewriter

from tensorgrad.dialects.buf import element_of, is_reduction, loop_extents
from tensorgrad.dialects.buf_tiles import ForallOp, Space, TiledOp, around, space_of
from tensorgrad.dialects.recipe import Interchange, Processor
from tensorgrad.dialects.stages import reductions_of
from tensorgrad.passes.codegen.transforms.building import Range, TileBuilder
from tensorgrad.passes.codegen.transforms.failure import DoesNotFit
from tensorgrad.passes.codegen.transforms.grid import free_loops, most_points
from tensorgrad.passes.codegen.transforms.indices import combined, constant, index_of, places_of
from tensorgrad.passes.codegen.transforms.tidy import INDICES


def interchange(kernel: TiledOp, step: Interchange) -> None:
    """Moves the loops over the points into a loop over the parts of a product's reduction."""
    loops = free_loops(kernel)
    products = [op for op in loops.body.block.ops if isinstance(op, GenericOp) and is_reduction(op)]
    if len(products) != 1 or len(products[0].outputs) != 1:
        raise DoesNotFit("it takes one reduction with one result, which lies in no other loop")
    (product,) = products
    ops = [op for op in loops.body.block.ops if not isinstance(op, (*INDICES, memref.AllocaOp))]
    at = ops.index(product)
    if any(not isinstance(op, FillOp) for op in ops[:at]):
        raise DoesNotFit("a stage runs before the reduction, whose sums are kept from part to part")
    builder = TileBuilder.before(loops)
    _keep_sums(builder, loops, product)
    _phase(builder, loops, ops[:at])
    _add_parts(builder, loops, product, step.terms)
    _phase(builder, loops, ops[at + 1 :])
    Rewriter.erase_op(loops)


def _keep_sums(builder: TileBuilder, loops: ForallOp, product: GenericOp) -> None:
    """Gives each point a place of its own for its sum, which lives as long as the parts."""
    (held,), first = product.outputs, loops.body.block.first_op
    assert first is not None and isinstance(held.owner, memref.AllocaOp)
    space = Space.SCRATCH if Processor.TASK in around(loops) else Space.REGISTER
    sums = builder.local(most_points(loops), element_of(held), space)
    mine = TileBuilder.before(first).element(sums, [index_of(index) for index in loops.indices])
    held.replace_all_uses_with(mine)


def _phase(builder: TileBuilder, loops: ForallOp, kept: Sequence[Operation]) -> None:
    """Inserts the loops over the points with some of their ops alone."""
    if not kept:
        return
    copy, chosen = builder.insert(loops.clone()), {*kept}
    for op, new in reversed([*zip(loops.body.block.ops, copy.body.block.ops, strict=True)]):
        if op not in chosen and not isinstance(op, (*INDICES, memref.AllocaOp)):
            Rewriter.erase_op(new)


def _add_parts(builder: TileBuilder, loops: ForallOp, product: GenericOp, terms: int) -> None:
    """Inserts a loop over the parts, whose iterations add the terms of one to the sums of all points."""
    extents = loop_extents(product)
    total = math.prod(extents)
    parts = builder.loop(-(-total // terms))
    part, builder = index_of(parts.body.block.args[0]), builder.into(parts.body.block)
    rest = combined(AffineDimExpr(0) * -terms + total, [part])
    count = terms if total % terms == 0 else builder.least([constant(terms), rest])
    copy = builder.forall(loops.extents)
    inside = builder.into(copy.body.block)
    values: dict[SSAValue, SSAValue] = dict(zip(loops.indices, copy.indices, strict=True))
    for op in loops.body.block.ops:
        if isinstance(op, INDICES):
            inside.move(op.clone(values))
    here, (reduction,), sums = product.clone(values), reductions_of(product), dict[SSAValue, SSAValue]()
    if space_of(here.outputs[0]) is Space.SCRATCH:  # a part is summed in a register, and added to what is in memory
        sums[here.outputs[0]] = inside.local((), element_of(here.outputs[0]), Space.REGISTER)
        inside.fill(sums[here.outputs[0]], reduction.start())
    loop = inside.loop(count)
    number = combined(AffineDimExpr(0) * terms + AffineDimExpr(1), [part, index_of(loop.body.block.args[0])])
    ranges = {axis: Range(place) for axis, place in enumerate(places_of(number, extents))}
    inside.into(loop.body.block).narrowed(here, ranges, sums)
    for whole, sum_ in sums.items():
        inside.combine(reduction, whole, sum_)
    here.erase()
