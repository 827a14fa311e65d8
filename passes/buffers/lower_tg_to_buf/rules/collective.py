"""Collectives: each becomes a kernel over whole buffers in row-major order."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, BlockArgument
from xdsl.ir.affine import AffineMap

from tensorgrad.dialects import collective as buffers
from tensorgrad.dialects.buf import KernelOp, buffer_type
from tensorgrad.dialects.buf import shape_of as buffer_shape
from tensorgrad.dialects.tg import collective
from tensorgrad.dialects.tg.base import is_unsigned
from tensorgrad.dialects.tg.build import element_of, shape_of
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.buffers.lower_tg_to_buf.kernels import KernelSpec, alloc, set_location
from tensorgrad.passes.buffers.lower_tg_to_buf.registry import Emit, sequence
from tensorgrad.passes.buffers.lower_tg_to_buf.scalars import storage
from tensorgrad.passes.buffers.lower_tg_to_buf.views import Lowered, View

KINDS: dict[type[collective.CollectiveOp], str] = {
    collective.AllReduceOp: buffers.ALL_REDUCE,
    collective.ReduceScatterOp: buffers.REDUCE_SCATTER,
    collective.AllGatherOp: buffers.ALL_GATHER,
    collective.CollectiveBroadcastOp: buffers.BROADCAST,
}
"""The kind of `buf.collective` of each op."""


@sequence(*KINDS, in_memory=(0,))
def _collective(op: collective.CollectiveOp, operands: Sequence[Lowered], emit: Emit) -> Lowered:
    """Emits a collective, over a copy of its operand unless that lies in memory in row-major order.

    In a loop, a function's argument or result may be a slice of memory that differs from iteration to iteration, which
    a collective can't take: there, such an operand is copied too, and so is the result, by a kernel that is fused into
    what reads it.
    """
    (operand,) = operands
    assert isinstance(operand, View)
    axis = op.axis.value.data if isinstance(op, collective.ReduceScatterOp | collective.AllGatherOp) else 0
    root = op.root.value.data if isinstance(op, collective.CollectiveBroadcastOp) else 0
    there, back = _axis_first(len(op.shape), axis)
    operand_shape, result_shape = _permuted(shape_of(op.operand), there), _permuted(op.shape, there)
    source = operand.through(_map(back), operand_shape)
    is_whole = affine.is_identity(source.map) and buffer_shape(source.buffer) == operand_shape
    if not is_whole or (emit.loops and isinstance(source.buffer, BlockArgument)):
        source = _copied(source, operand_shape, op, emit)
    result = alloc(result_shape, storage(element_of(op.result)), op.location)
    result.memref.name_hint = op.result.name_hint
    emit.add(result)
    block = Block(arg_types=[buffer_type(operand_shape, storage(element_of(op.operand))), result.memref.type])
    block.add_op(
        buffers.CollectiveOp.of(
            KINDS[type(op)],
            op.size,
            block.args[:1],
            block.args[1:],
            reduction=_reduction(op),
            root=root,
        )
    )
    kernel = KernelOp.build_kernel((), [source.buffer], [result.memref], block)
    set_location(kernel, op.location)
    emit.add(kernel)
    view = View(result.memref, affine.identity(len(result_shape)))
    if emit.loops:
        view = _copied(view, result_shape, op, emit)
    return view.through(_map(there), op.shape)


def _copied(view: View, shape: tuple[int, ...], op: collective.CollectiveOp, emit: Emit) -> View:
    element = storage(element_of(op.operand))
    return emit(KernelSpec(shape, [view], element, lambda b, args: args[0], location=op.location))


def _reduction(op: collective.CollectiveOp) -> str:
    """Returns the reduction of a collective on buffers, whose name includes the signedness of integers."""
    if not isinstance(op, collective.AllReduceOp):
        return "sum"
    named = op.reduction.data
    return f"{named}ui" if is_unsigned(element_of(op.operand)) and named != "sum" else named


def _axis_first(rank: int, axis: int) -> tuple[list[int], list[int]]:
    """Returns the permutation that moves `axis` to the front, and its inverse."""
    there = [axis, *(other for other in range(rank) if other != axis)] if rank else []
    return there, [there.index(axis_) for axis_ in range(rank)]


def _permuted(shape: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    return tuple(shape[axis] for axis in order)


def _map(order: Sequence[int]) -> AffineMap:
    loops = affine.dims(len(order))
    return AffineMap(len(loops), 0, tuple(loops[axis] for axis in order))
