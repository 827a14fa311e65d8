"""Ranges of integers, and those of index expressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from xdsl.ir.affine import AffineBinaryOpExpr, AffineBinaryOpKind, AffineConstantExpr, AffineDimExpr, AffineExpr

Range: TypeAlias = tuple[int, int]
"""The minimum and the maximum of an integer, or of a condition (0 and 1)."""


def range_of_expression(expression: AffineExpr, operands: Sequence[Range]) -> Range:
    """Returns the range of an index expression, of integers that don't wrap."""
    if isinstance(expression, AffineConstantExpr):
        return expression.value, expression.value
    if isinstance(expression, AffineDimExpr):
        return operands[expression.position]
    assert isinstance(expression, AffineBinaryOpExpr)
    x, y = (range_of_expression(part, operands) for part in (expression.lhs, expression.rhs))
    if expression.kind == AffineBinaryOpKind.Add:
        return x[0] + y[0], x[1] + y[1]
    if expression.kind == AffineBinaryOpKind.Mul:
        ends = [a * b for a in x for b in y]
        return min(ends), max(ends)
    divisor = y[0]
    if expression.kind == AffineBinaryOpKind.FloorDiv:
        return x[0] // divisor, x[1] // divisor
    if expression.kind == AffineBinaryOpKind.CeilDiv:
        return -(-x[0] // divisor), -(-x[1] // divisor)
    return (x[0] % divisor, x[1] % divisor) if x[0] // divisor == x[1] // divisor else (0, divisor - 1)
