"""Reverse mode over one block: walks the ops backwards and appends their derivatives."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, SSAValue
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.tg.base import TensorOp, is_float
from tensorgrad.dialects.tg.build import TensorBuilder, element_of
from tensorgrad.passes.grad.rules import NO_DERIVATIVE, RULES


def cotangents(
    block: Block, seeds: dict[SSAValue, SSAValue], wrt: Sequence[SSAValue], builder: TensorBuilder
) -> list[SSAValue | None]:
    """The cotangents of `wrt` from those of the values in `seeds`.

    Only the ops that are in `block` now are differentiated, so values from outside it count as constants. A zero
    cotangent is `None` and never becomes a tensor.

    Args:
        block: Holds the ops between `wrt` and the seeded values; the builder appends behind them.
        seeds: The cotangent of each result.
        wrt: The values to differentiate by.
        builder: Where the derivative goes.
    """
    active: set[SSAValue] = set(wrt)
    path: list[TensorOp] = []
    for op in block.ops:
        if not isinstance(op, TensorOp) or not any(operand in active for operand in op.operands):
            continue
        if type(op) not in NO_DERIVATIVE and is_float(element_of(op.results[0])):
            active.add(op.results[0])
            path.append(op)
    found: dict[SSAValue, SSAValue] = dict(seeds)
    for op in reversed(path):
        cotangent = found.get(op.results[0])
        if cotangent is None:
            continue
        rule = RULES.get(type(op))
        if rule is None:
            raise DiagnosticException(f"{op.name} has no derivative rule")
        builder.location = op.location
        for operand, piece in zip(op.operands, rule(builder, op, cotangent), strict=True):
            if piece is None or operand not in active:
                continue
            before = found.get(operand)
            found[operand] = piece if before is None else builder.add(before, piece)
    return [found.get(value) for value in wrt]


def gradients(block: Block, result: SSAValue, wrt: Sequence[SSAValue], builder: TensorBuilder) -> list[SSAValue]:
    """The gradient of a float scalar by each of `wrt`; one that it doesn't depend on is a constant 0."""
    seed = builder.full_like(result, 1)
    found = cotangents(block, {result: seed}, wrt, builder)
    return [
        builder.full_like(value, 0) if gradient is None else gradient
        for value, gradient in zip(wrt, found, strict=True)
    ]
