"""Forward mode from reverse mode: `u -> vjp(f)(u)` is linear in `u`, and its own transpose is `jvp(f)`."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.tg.base import is_float
from tensorgrad.dialects.tg.build import TensorBuilder, element_of
from tensorgrad.dialects.tg.call import returned
from tensorgrad.dialects.tg.control import CondOp, ScanOp
from tensorgrad.passes.tensors.control import erase_unneeded
from tensorgrad.passes.tensors.grad.reverse import cotangents, differentiated
from tensorgrad.passes.tensors.grad.rules import NO_DERIVATIVE
from tensorgrad.passes.tensors.moving import moved


def tangents(
    block: Block,
    results: Sequence[SSAValue],
    wrt: Sequence[SSAValue],
    directions: Sequence[SSAValue],
    builder: TensorBuilder,
) -> list[SSAValue | None]:
    """Returns the derivatives of `results` along `directions`, which have the same number and types as `wrt`.

    Reverse mode runs twice, first over `block` with placeholder cotangents, then over the result with respect to these
    cotangents. Everything that depends on them is dead afterwards, and the rest goes to the builder. So there is no
    second table of rules, and the cost is that of forward mode.

    Returns:
        One tangent for each result; `None` is zero.

    Raises:
        DiagnosticException: A custom derivative is not linear in its cotangent.
    """
    scratch = Block()
    inner = TensorBuilder(scratch, location=builder.location)
    chosen = list(dict.fromkeys(result for result in results if is_float(element_of(result))))
    holder = Block(arg_types=[result.type for result in chosen])
    back = cotangents(block, dict(zip(chosen, holder.args, strict=True)), wrt, inner)
    _check_linear(scratch, holder.args, [value for value in back if value is not None])
    seeds: dict[SSAValue, SSAValue] = {}
    for value, direction in zip(back, directions, strict=True):
        if value is not None:
            seeds[value] = inner.add(seeds[value], direction) if value in seeds else direction
    tangents_ = dict(zip(chosen, cotangents(scratch, seeds, list(holder.args), inner), strict=True))
    erase_unneeded(scratch, [value for value in tangents_.values() if value is not None])
    if any(argument.uses for argument in holder.args):
        raise DiagnosticException(_NOT_LINEAR)
    moved(scratch, [], [], builder)
    return [tangents_.get(result) for result in results]


_NOT_LINEAR = "forward mode needs a custom derivative that is linear in its cotangent"


def _check_linear(block: Block, arguments: Sequence[SSAValue], results: Sequence[SSAValue]) -> None:
    """Refuses results that depend on the given cotangents through an op without a derivative."""
    dependent, broken = set(arguments), set[Operation]()
    for op in block.ops:
        if any(operand in dependent for operand in op.operands):
            _check_region(op, dependent)
            dependent.update(op.results)
            smooth = any(is_float(element_of(result)) for result in op.results)
            if type(op) in NO_DERIVATIVE or not smooth:
                broken.add(op)
    needed: set[SSAValue] = set(results)
    for op in reversed(list(block.ops)) if broken else ():
        if any(result in needed for result in op.results):
            if op in broken:
                raise DiagnosticException(_NOT_LINEAR)
            needed.update(op.operands)


def _check_region(op: Operation, dependent: set[SSAValue]) -> None:
    """Refuses results of a loop or branch that depend on its operands through an op without a derivative."""
    if isinstance(op, CondOp):
        for block in op.branches:
            inside = [a for a, operand in zip(block.args, op.inputs, strict=True) if operand in dependent]
            _check_linear(block, inside, returned(block))
    elif isinstance(op, ScanOp):
        block, values, (_, carries, _) = op.body.block, returned(op.body.block), op.arguments
        inside = {a for a, operand in zip(block.args, op.operands, strict=True) if operand in dependent}
        size = -1
        while size != len(inside):
            size = len(inside)
            active, _ = differentiated(block, list(inside))
            inside |= {carry for carry, value in zip(carries, values, strict=False) if value in active}
        _check_linear(block, list(inside), values)
