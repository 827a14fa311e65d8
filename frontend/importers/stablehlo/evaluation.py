"""Applies a function on `tg` to tensors, inside a trace or outside, op by op."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from xdsl.ir import Block, Operation, Region, SSAValue

import tensorgrad as tg
from tensorgrad.dialects.locations import line_in
from tensorgrad.dialects.tg.base import TensorOp
from tensorgrad.dialects.tg.call import CallOp
from tensorgrad.dialects.tg.control import CondOp, ScanOp
from tensorgrad.tracing.location import at_line
from tensorgrad.tracing.tensor import Tensor
from tensorgrad.tracing.tracer import emit

Calls: TypeAlias = Callable[[CallOp, Sequence[Tensor]], Sequence[Tensor]]
"""Returns the results of a call for its operands."""


def _inlined(call: CallOp, operands: Sequence[Tensor]) -> Sequence[Tensor]:
    return applied(call.body.block, operands)


def applied(block: Block, arguments: Sequence[Tensor], calls: Calls = _inlined) -> list[Tensor]:
    """Returns what a block returns for these arguments; ops have the lines of their author.

    Args:
        block: A block of ops on `tg`.
        arguments: Its arguments.
        calls: Computes calls, wherever they are nested; by default by their bodies.

    Raises:
        ShapeError: An argument has another shape than the block's.
    """
    values: dict[SSAValue, Tensor] = dict(zip(block.args, arguments, strict=True))
    for op in block.ops:
        operands = [values[operand] for operand in op.operands]
        if op is block.last_op:
            return operands
        line = line_in(op.location)
        if line is None:
            results = _results(op, operands, calls)
        else:
            with at_line(line.filename.data, line.line.data):
                results = _results(op, operands, calls)
        values.update(zip(op.results, results, strict=True))
    return []


def _results(op: Operation, operands: Sequence[Tensor], calls: Calls) -> Sequence[Tensor]:
    if isinstance(op, TensorOp):
        properties: Mapping[str, Any] = op.properties
        return [emit(type(op), operands, **properties)]
    if isinstance(op, CondOp):
        predicate, *inputs = operands
        return tg.cond(predicate, _function(op.then, calls), _function(op.otherwise, calls), *inputs)
    if isinstance(op, CallOp):
        return calls(op, operands)
    assert isinstance(op, ScanOp)
    return _scanned(op, operands, calls)


def _function(region: Region, calls: Calls) -> Any:
    return lambda *arguments: applied(region.block, arguments, calls)


def _scanned(op: ScanOp, operands: Sequence[Tensor], calls: Calls) -> Sequence[Tensor]:
    consts, init, sequences = op.split(operands)

    def body(carry: Sequence[Tensor], elements: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        results = applied(op.body.block, [*consts, *carry, *elements], calls)
        return results[: op.carries], results[op.carries :]

    carry, stacks = tg.scan(body, list(init), list(sequences), op.count, reverse=op.reverse is not None)
    return [*carry, *stacks]
