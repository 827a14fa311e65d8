"""Composite attentions: one kernel forward, two backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.attention import FORWARD, KEYS, QUERIES, Attention, AttentionOp
from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.short_floats import SHORT_FLOATS
from tensorgrad.dialects.tg.base import TensorOp
from tensorgrad.dialects.tg.build import TensorBuilder, element_of, shape_of
from tensorgrad.dialects.tg.call import CallOp
from tensorgrad.dialects.tg.elementwise.arithmetic import CastOp
from tensorgrad.dialects.tg.shape import ReshapeOp, TransposeOp
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.buffers.lower_tg_to_buf.kernels import alloc, set_location
from tensorgrad.passes.buffers.lower_tg_to_buf.registry import VIEWS
from tensorgrad.passes.buffers.lower_tg_to_buf.scalars import storage
from tensorgrad.passes.buffers.lower_tg_to_buf.views import View
from tensorgrad.passes.tensors.attention import BACKWARD_NAME, FORWARD_NAME, parameters_of
from tensorgrad.passes.tensors.simplify import erase_dead


def read_narrow(block: Block) -> None:
    """Makes attentions read operands that were extended from 16 bits as they were, which kernels extend again."""
    changed = False
    for call in block.ops:
        if isinstance(call, CallOp) and call.composite is not None:
            operands = [_narrow(operand, call) for operand in call.operands]
            changed |= operands != list(call.operands)
            call.operands = operands
    if changed:
        erase_dead(block)


def _narrow(value: SSAValue, call: CallOp) -> SSAValue:
    """Returns the value that one extends, through views, or the value itself; new views come before a call."""
    moves: list[TensorOp] = []
    source = value
    while isinstance(source.owner, TensorOp) and type(source.owner) in VIEWS:
        moves.append(source.owner)
        source = source.owner.operands[0]
    extended = source.owner
    if not isinstance(extended, CastOp) or element_of(source) != f32 or not _is_short(element_of(extended.operand)):
        return value
    b = TensorBuilder(cast(Block, call.parent), before=call, location=call.location)
    moved = extended.operand
    for move in reversed(moves):
        moved = b.emit(type(move), [moved], **move.properties)
    return moved


def _is_short(element: Attribute) -> bool:
    return element in SHORT_FLOATS.values()


def lower_attention(
    call: CallOp, operands: Sequence[View], emit: Callable[[Operation], None], native: bool
) -> dict[SSAValue, View]:
    """Emits the kernels of a composite attention whose results are used.

    Args:
        call: The call.
        operands: The views of its operands.
        emit: Appends allocations and kernels in order.
        native: Whether the target has buffers of bf16, to which kernels round.

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
            rounds = native and part == FORWARD and output is results[0] and element_of(output) == f32
            extents, place, element = _stored(output, rounds)
            buffer = alloc(extents, storage(element), call.location)
            buffer.memref.name_hint = output.name_hint
            emit(buffer)
            views[output] = View(buffer.memref, place)
        emit(_kernel(part, parameters_of(call), operands, [views[output] for output in outputs], call))
    return views


def _stored(output: SSAValue, rounds: bool) -> tuple[Sequence[int], AffineMap, Attribute]:
    """Returns the shape in which a result is stored, its index map into that shape, and the element type.

    While its only use is a reshape or a transpose, the result is stored as that op would arrange it; and if the only
    use then rounds to 16 bits, and `rounds` allows it, in these.
    """
    element = element_of(output)
    place = affine.identity(len(shape_of(output)))
    extents, axes = shape_of(output), shape_of(output)
    while len(list(output.uses)) == 1:
        user = next(iter(output.uses)).operation
        if isinstance(user, ReshapeOp):
            back = affine.reshape_map(extents, user.shape)
        elif isinstance(user, TransposeOp):
            permutation = user.permutation.get_values()
            back = AffineMap(len(extents), 0, tuple(AffineDimExpr(axis) for axis in permutation))
        else:
            if rounds and isinstance(user, CastOp) and _is_short(element_of(user.result)):
                element = element_of(user.result)
            break
        place = affine.composed(back, place, axes)
        output, extents = user.results[0], user.shape
    return extents, place, element


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
