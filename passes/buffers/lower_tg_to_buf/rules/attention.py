"""Composite attentions: one kernel forward, two backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.attention import FORWARD, KEYS, QUERIES, Attention, AttentionOp
from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.tg.base import int_list
from tensorgrad.dialects.tg.build import element_of, shape_of
from tensorgrad.dialects.tg.call import CallOp
from tensorgrad.dialects.tg.shape import ReshapeOp, TransposeOp
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.buffers.lower_tg_to_buf.kernels import alloc, set_location
from tensorgrad.passes.buffers.lower_tg_to_buf.scalars import storage
from tensorgrad.passes.buffers.lower_tg_to_buf.views import View
from tensorgrad.passes.tensors.attention import BACKWARD_NAME, FORWARD_NAME, parameters_of


def lower_attention(call: CallOp, operands: Sequence[View], emit: Callable[[Operation], None]) -> dict[SSAValue, View]:
    """Emits the kernels of a composite attention whose results are used.

    Args:
        call: The call.
        operands: The views of its operands.
        emit: Appends allocations and kernels in order.

    Returns:
        The views of the results that have uses.

    Raises:
        DiagnosticException: The composite call is not an attention.
    """
    if call.function not in (FORWARD_NAME, BACKWARD_NAME):
        raise DiagnosticException(f"lower-tg-to-buf has no rule for the composite @{call.function}")
    results = list(call.results)
    if call.function == FORWARD_NAME:
        written = results if results[1].uses else results[:1]
        parts = {FORWARD: written} if any(result.uses for result in results) else {}
    else:
        parts = {QUERIES: results[:1]} if results[0].uses else {}
        if results[1].uses or results[2].uses:
            parts[KEYS] = results[1:]
    views: dict[SSAValue, View] = {}
    for part, outputs in parts.items():
        for output in outputs:
            extents, place = _stored(output)
            buffer = alloc(extents, storage(element_of(output)), call.location)
            buffer.memref.name_hint = output.name_hint
            emit(buffer)
            views[output] = View(buffer.memref, place)
        emit(_kernel(part, parameters_of(call), operands, [views[output] for output in outputs], call))
    return views


def _stored(output: SSAValue) -> tuple[Sequence[int], AffineMap]:
    """Returns the shape in which a result is stored, and its index map into that shape.

    While its only use is a reshape or a transpose, the result is stored as that op would arrange it.
    """
    place = affine.identity(len(shape_of(output)))
    extents, axes = shape_of(output), shape_of(output)
    while len(list(output.uses)) == 1:
        user = next(iter(output.uses)).operation
        if isinstance(user, ReshapeOp):
            back = affine.reshape_map(extents, user.shape)
        elif isinstance(user, TransposeOp):
            permutation = int_list(user.properties, "permutation")
            back = AffineMap(len(extents), 0, tuple(AffineDimExpr(axis) for axis in permutation))
        else:
            break
        place = affine.composed(back, place, axes)
        output, extents = user.results[0], user.shape
    return extents, place


def _kernel(
    part: str, attention: Attention, operands: Sequence[View], outputs: Sequence[View], call: CallOp
) -> KernelOp:
    inputs = list(dict.fromkeys(view.buffer for view in operands))
    block = Block(arg_types=[value.type for value in (*inputs, *(view.buffer for view in outputs))])
    inside = dict(zip(inputs, block.args, strict=False))
    views = [*operands, *outputs]
    maps = [_placed(view.map, space) for view, space in zip(views, attention.spaces(part), strict=False)]
    stage = AttentionOp.of(
        part, attention, [inside[view.buffer] for view in operands], list(block.args[len(inputs) :]), maps
    )
    block.add_op(stage)
    kernel = KernelOp.build_kernel(stage.grid, inputs, [view.buffer for view in outputs], block)
    set_location(kernel, call.location)
    return kernel


def _placed(access: AffineMap, space: Sequence[int]) -> AffineMap:
    """Returns a map over the axes of an operand as a map over the loops (group, query, key, feature)."""
    loops = [AffineDimExpr(loop) for loop in space]
    return AffineMap(4, 0, tuple(result.replace_dims_and_symbols(loops, ()) for result in access.results))
