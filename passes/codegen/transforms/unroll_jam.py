"""The transformation `unroll_jam`: each stage computes several points before the next one does."""

from __future__ import annotations

from xdsl.dialects import memref
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Operation, SSAValue

from tensorgrad.dialects.buf import element_of, is_shape_only, shape_of
from tensorgrad.dialects.buf_tiles import ForallOp, Space, TiledOp
from tensorgrad.dialects.recipe import Processor, UnrollJam
from tensorgrad.passes.codegen.transforms.building import TileBuilder
from tensorgrad.passes.codegen.transforms.failure import DoesNotFit
from tensorgrad.passes.codegen.transforms.grid import free_extents, free_loops
from tensorgrad.passes.codegen.transforms.indices import index_of
from tensorgrad.passes.codegen.transforms.tidy import INDICES


def unroll_jam(kernel: TiledOp, step: UnrollJam) -> None:
    """Moves the loop without a processor into each stage, as a loop of its own where its operands allow."""
    loops = free_loops(kernel)
    if len(loops.indices) > 1:
        raise DoesNotFit(f"it unrolls one loop, not {len(loops.indices)}: tile or collapse them first")
    (size,) = free_extents(loops)
    builder = TileBuilder.before(loops)
    _spread_locals(builder, loops, size)
    for op in [*loops.body.block.ops]:
        if not isinstance(op, INDICES):
            _give_own_loop(builder, loops, op, size)
    loops.detach()
    loops.erase()


def _spread_locals(builder: TileBuilder, loops: ForallOp, size: int) -> None:
    """Gives each local of a point a register for each of the points."""
    for op in [*loops.body.block.ops]:
        if isinstance(op, memref.AllocaOp) and not is_shape_only(op.memref):
            whole = builder.local((size, *shape_of(op.memref)), element_of(op.memref), Space.REGISTER)
            mine = TileBuilder.before(op).element(whole, [index_of(loops.indices[0])])
            op.memref.replace_all_uses_with(mine)
            op.detach()
            op.erase()


def _give_own_loop(builder: TileBuilder, loops: ForallOp, op: Operation, size: int) -> None:
    """Writes an op of a point for all points."""
    new = builder.forall([size], [Processor.UNROLL])
    values: dict[SSAValue, SSAValue] = {loops.indices[0]: new.indices[0]}
    inside = builder.into(new.body.block)
    for needed in [*_needed(loops, op), op]:
        inside.move(needed.clone(values))
    last = new.body.block.last_op
    widened = builder.widened(last, new.indices[0], size) if isinstance(last, GenericOp) else None
    if widened is not None:
        new.detach()
        new.erase()


def _needed(loops: ForallOp, op: Operation) -> list[Operation]:
    """Returns the ops of a loop's body that an op takes values from, in order."""
    needed = {operand for inner in op.walk() for operand in inner.operands}
    chosen: list[Operation] = []
    for other in reversed([*loops.body.block.ops]):
        if isinstance(other, (*INDICES, memref.AllocaOp)) and needed.intersection(other.results):
            needed.update(other.operands)
            chosen.append(other)
    return chosen[::-1]
