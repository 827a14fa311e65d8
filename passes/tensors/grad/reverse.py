"""Reverse mode over one block: walks the ops backwards and appends their derivatives."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, SSAValue
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.tg.base import TensorOp, is_float
from tensorgrad.dialects.tg.build import TensorBuilder, element_of
from tensorgrad.dialects.tg.call import CallOp, ReturnOp, returned
from tensorgrad.dialects.tg.control import CondOp, RegionOp, ScanOp
from tensorgrad.passes.tensors.grad.control import ScanDerivative, cond_derivative
from tensorgrad.passes.tensors.grad.registry import Cotangents
from tensorgrad.passes.tensors.grad.rules import NO_DERIVATIVE, RULES
from tensorgrad.passes.tensors.moving import copied, inlined, moved
from tensorgrad.passes.tensors.simplify import erase_dead


def cotangents(
    block: Block, seeds: dict[SSAValue, SSAValue], wrt: Sequence[SSAValue], builder: TensorBuilder
) -> list[SSAValue | None]:
    """Returns the cotangents of `wrt` from those of the values in `seeds`.

    Only the ops that are currently in `block` are differentiated, so values from outside are constants. A zero
    cotangent is `None` and never becomes a tensor.

    Args:
        block: Has the ops between `wrt` and the seeded values; the builder appends after them.
        seeds: The cotangent of each result.
        wrt: The values to differentiate by.
        builder: The insertion point of the derivative.
    """
    active, path = differentiated(block, wrt)
    accumulated: dict[SSAValue, SSAValue] = dict(seeds)
    for op in reversed(path):
        result_cotangents = [accumulated.get(result) for result in op.results]
        if all(cotangent is None for cotangent in result_cotangents):
            continue
        builder.location = op.location
        needed = [operand in active for operand in op.operands]
        for operand, piece in zip(op.operands, _cotangents_of(builder, op, result_cotangents, needed), strict=True):
            if piece is None or operand not in active:
                continue
            before = accumulated.get(operand)
            accumulated[operand] = piece if before is None else builder.add(before, piece)
    return [accumulated.get(value) for value in wrt]


def differentiated(block: Block, wrt: Sequence[SSAValue]) -> tuple[set[SSAValue], list[TensorOp | RegionOp]]:
    """Returns the values of a block that depend on `wrt` differentiably, and the ops that compute them, in order."""
    active: set[SSAValue] = set(wrt)
    path: list[TensorOp | RegionOp] = []
    for op in block.ops:
        if not isinstance(op, TensorOp | RegionOp) or not any(operand in active for operand in op.operands):
            continue
        floats = [result for result in op.results if is_float(element_of(result))]
        if floats and type(op) not in NO_DERIVATIVE:
            active.update(floats)
            path.append(op)
    return active, path


def _cotangents_of(
    builder: TensorBuilder, op: TensorOp | RegionOp, result_cotangents: Cotangents, needed: Sequence[bool]
) -> Cotangents:
    """Returns the cotangents of an op's operands, at least of the needed ones, from those of its results."""
    if isinstance(op, CallOp):
        if op.recompute is not None:
            return _again(builder, op, result_cotangents, needed)
        return _of_call(builder, op, op.operands, result_cotangents, needed)
    if isinstance(op, ScanOp):
        return ScanDerivative(op, result_cotangents, needed, cotangents, differentiated, summed).emit(builder)
    if isinstance(op, CondOp):
        return cond_derivative(builder, op, result_cotangents, needed, cotangents, summed)
    rule = RULES.get(type(op))
    if rule is None:
        raise DiagnosticException(f"{op.name} has no derivative rule")
    assert result_cotangents[0] is not None
    return rule(builder, op, result_cotangents[0])


def _of_call(
    builder: TensorBuilder,
    call: CallOp,
    operands: Sequence[SSAValue],
    result_cotangents: Cotangents,
    needed: Sequence[bool],
) -> Cotangents:
    """Repeats the call together with the values that its derivative needs; duplicates are merged later."""
    if call.derivative:
        return _custom(builder, call, operands, result_cotangents)
    body = copied(call.body)
    inner = TensorBuilder(body, before=body.last_op, location=call.location)
    seeds = summed(returned(body), result_cotangents, inner)
    wrt = [argument for argument, is_needed in zip(body.args, needed, strict=True) if is_needed]
    by_argument = dict(zip(wrt, cotangents(body, seeds, wrt, inner), strict=True))
    pieces = [by_argument.get(argument) for argument in body.args]
    copies = iter(moved(body, operands, [piece for piece in pieces if piece is not None], builder))
    return [None if piece is None else next(copies) for piece in pieces]


def summed(
    results: Sequence[SSAValue], result_cotangents: Cotangents, builder: TensorBuilder
) -> dict[SSAValue, SSAValue]:
    """Returns the cotangent of each value; that of a value returned several times is the sum."""
    seeds: dict[SSAValue, SSAValue] = {}
    for result, cotangent in zip(results, result_cotangents, strict=True):
        if cotangent is not None:
            seeds[result] = builder.add(seeds[result], cotangent) if result in seeds else cotangent
    return seeds


def _custom(
    builder: TensorBuilder, call: CallOp, operands: Sequence[SSAValue], result_cotangents: Cotangents
) -> Cotangents:
    results = inlined(_complete(call, 0).derivative[0], operands, builder)
    residuals = results[len(call.results) :]
    incoming = [
        builder.full_like(result, 0) if cotangent is None else cotangent
        for result, cotangent in zip(call.results, result_cotangents, strict=True)
        if is_float(element_of(result))
    ]
    pieces = inlined(_complete(call, 1).derivative[1], [*residuals, *incoming], builder)
    operand_cotangents: list[SSAValue | None] = [None] * len(call.operands)
    for position, piece in zip(call.differentiable, pieces, strict=True):
        operand_cotangents[position] = piece
    return operand_cotangents


def _complete(call: CallOp, region: int) -> CallOp:
    """Returns a call, or a copy, in one of whose derivative regions recursive calls have the custom derivative."""
    if not any(isinstance(op, CallOp) and op.recursive is not None for op in call.derivative[region].walk()):
        return call
    whole = call.clone()
    whole.operands = []  # It only serves to hold the regions.
    for op in list(whole.derivative[region].walk()):
        if isinstance(op, CallOp) and op.recursive is not None and op.resembles(call) and _belongs(op, whole):
            del op.properties["recursive"]
            op.properties["wrt"] = call.properties["wrt"]
            for part in call.derivative:
                op.add_region(part.clone())
    return whole


def _belongs(op: CallOp, whole: CallOp) -> bool:
    """Returns whether the nearest enclosing call with the derivative of a recursive call is `whole`."""
    around = op.parent_op()
    while around is not whole and around is not None:
        if isinstance(around, CallOp) and around.derivative and around.resembles(op):
            return False
        around = around.parent_op()
    return True


def _again(builder: TensorBuilder, call: CallOp, result_cotangents: Cotangents, needed: Sequence[bool]) -> Cotangents:
    """Returns the derivative as a call that recomputes everything, so that no value of the forward pass is kept."""
    present = [cotangent for cotangent in result_cotangents if cotangent is not None]
    outer = [*call.operands, *present]
    block = Block(arg_types=[value.type for value in outer])
    count = len(call.operands)
    rest = iter(block.args[count:])
    seeds = [None if cotangent is None else next(rest) for cotangent in result_cotangents]
    inner = TensorBuilder(block, location=call.location)
    operand_cotangents = _of_call(inner, call, block.args[:count], seeds, needed)
    pieces = [piece if is_needed else None for piece, is_needed in zip(operand_cotangents, needed, strict=True)]
    end = ReturnOp([piece for piece in pieces if piece is not None])
    end.location = call.location
    block.add_op(end)
    erase_dead(block)
    operands = [value for value, argument in zip(outer, block.args, strict=True) if argument.uses]
    for argument in list(block.args):
        argument.location = call.location
        if not argument.uses:
            block.erase_arg(argument)
    backward_call = CallOp.of(f"{call.function}.backward", operands, block, recompute=True)
    backward_call.location = call.location
    builder.insert(backward_call)
    results = iter(backward_call.results)
    return [None if piece is None else next(results) for piece in pieces]


def gradients(block: Block, result: SSAValue, wrt: Sequence[SSAValue], builder: TensorBuilder) -> list[SSAValue]:
    """Returns the gradient of a float scalar by each of `wrt`; one that it doesn't depend on is a constant 0."""
    seed = builder.full_like(result, 1)
    cotangents_ = cotangents(block, {result: seed}, wrt, builder)
    return [
        builder.full_like(value, 0) if gradient is None else gradient
        for value, gradient in zip(wrt, cotangents_, strict=True)
    ]
