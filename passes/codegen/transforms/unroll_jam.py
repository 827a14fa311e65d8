"""The transformation `unroll_jam`: each stage computes several points before the next one does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects import memref, scf
from xdsl.dialects.linalg.ops import FillOp, GenericOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from tensorgrad.dialects.buf import element_of, is_shape_only, shape_of
from tensorgrad.dialects.buf_tiles import ForallOp, Space, TiledOp, map_stage, rank_of
from tensorgrad.dialects.recipe import Processor, UnrollJam
from tensorgrad.passes.codegen.transforms.building import TileBuilder
from tensorgrad.passes.codegen.transforms.failure import DoesNotFit
from tensorgrad.passes.codegen.transforms.grid import free_nests, most_points
from tensorgrad.passes.codegen.transforms.indices import index_of
from tensorgrad.passes.codegen.transforms.tidy import INDICES


def unroll_jam(kernel: TiledOp, step: UnrollJam) -> None:
    """Moves the loops without a processor into each stage, as loops of its own where its operands allow."""
    for loops in free_nests(kernel):
        builder = TileBuilder.before(loops)
        _spread_locals(builder, loops)
        _jam(builder, loops, [loops.body.block], {})
        Rewriter.erase_op(loops)


def _spread_locals(builder: TileBuilder, loops: ForallOp) -> None:
    """Gives each local of a point a register for each of the points."""
    sizes = most_points(loops)
    for op in [*loops.body.block.ops]:
        if isinstance(op, memref.AllocaOp) and not is_shape_only(op.memref):
            whole = builder.local((*sizes, *shape_of(op.memref)), element_of(op.memref), Space.REGISTER)
            mine = TileBuilder.before(op).element(whole, [index_of(index) for index in loops.indices])
            op.memref.replace_all_uses_with(mine)
            Rewriter.erase_op(op)


def _jam(builder: TileBuilder, loops: ForallOp, blocks: Sequence[Block], values: Mapping[SSAValue, SSAValue]) -> None:
    """Writes the ops of the last block for all points, one after another.

    Args:
        builder: Where to write.
        loops: The loops over the points.
        blocks: Their body, and those of the loops in order that lie in it around the ops.
        values: What takes the place of the indices of these.
    """
    for op in [*blocks[-1].ops]:
        if isinstance(op, scf.ForOp):
            index, body, extent = op.body.block.args[0], op.body.block, index_of(op.ub)
            if {*extent.loops} & {*loops.indices}:
                raise DoesNotFit("the extent of a loop in order differs from point to point, so points can't share it")
            new = builder.loop(builder.index(extent))
            _jam(builder.into(new.body.block), loops, [*blocks, body], {**values, index: new.body.block.args[0]})
        elif not isinstance(op, (*INDICES, scf.YieldOp)):
            _give_own_loops(builder, loops, _needed(blocks, op), values)


def _give_own_loops(
    builder: TileBuilder, loops: ForallOp, ops: Sequence[Operation], values: Mapping[SSAValue, SSAValue]
) -> None:
    """Writes an op of a point, the last of some, for all points: with as many of the loops as its own as it takes."""
    for count in range(len(loops.indices)):
        if _written(builder, loops, ops, values, count):
            return
    _written(builder, loops, ops, values, len(loops.indices))


def _written(
    builder: TileBuilder, loops: ForallOp, ops: Sequence[Operation], values: Mapping[SSAValue, SSAValue], count: int
) -> bool:
    """Writes an op in the first `count` of the loops, with the others as its own; returns whether that is possible."""
    unroll = [Processor.UNROLL] * len(loops.indices)
    around = builder.forall(loops.extents[:count], unroll[:count]) if count else None
    inside = builder if around is None else builder.into(around.body.block)
    indices = () if around is None else around.indices
    inner = inside.forall(loops.extents[count:], unroll[count:]) if count < len(unroll) else None
    point = inside if inner is None else inside.into(inner.body.block)
    own = () if inner is None else inner.indices
    values = {**values, **dict(zip(loops.indices, (*indices, *own), strict=True))}
    for op in ops:
        point.move(op.clone(values))
    if inner is None:
        return True
    is_widened = _widened(inside, inner)
    unneeded = inner if is_widened or around is None else around
    Rewriter.erase_op(unneeded)
    return is_widened


def _widened(builder: TileBuilder, loops: ForallOp) -> bool:
    """Writes the last op of some loops with them as loops of its own, if it can."""
    op, sizes = loops.body.block.last_op, [extent for extent in loops.extents if isinstance(extent, int)]
    if len(sizes) < len(loops.extents):
        return False
    new: Operation | None = None
    if isinstance(op, FillOp | memref.CopyOp):
        new = builder.widened_move(op, loops.indices, sizes)
    elif isinstance(op, GenericOp):
        new = builder.widened(op, loops.indices, sizes)
    if new is not None:
        map_stage(new, [*loops.mapping, *[Processor.SEQUENTIAL] * (rank_of(new) - len(sizes))])
    return new is not None


def _needed(blocks: Sequence[Block], op: Operation) -> list[Operation]:
    """Returns an op, after those of some nested blocks that it takes values from, in order."""
    needed = {operand for inner in op.walk() for operand in inner.operands}
    chosen = [op]
    for other in (other for block in reversed(blocks) for other in reversed([*block.ops])):
        if isinstance(other, (*INDICES, memref.AllocaOp)) and needed.intersection(other.results):
            needed.update(other.operands)
            chosen.append(other)
    return chosen[::-1]
