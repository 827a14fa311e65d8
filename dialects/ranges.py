"""Ranges of integers, and those of index expressions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias, cast

import numpy as np
from xdsl.ir.affine import AffineBinaryOpExpr, AffineBinaryOpKind, AffineConstantExpr, AffineDimExpr, AffineExpr

Range: TypeAlias = tuple[int, int]
"""The minimum and the maximum of an integer, or of a condition (0 and 1)."""

MOST_POINTS = 1 << 22
"""The most points of loops at which an index is computed; beyond, it is taken for valid unless its range says so."""


def is_index(expression: AffineExpr) -> bool:
    """Returns whether an expression is an index: of sums, multiples, and floordivs and mods by positive constants."""
    binary = [part for part in expression.dfs() if isinstance(part, AffineBinaryOpExpr)]
    divisors = [part.rhs for part in binary if part.kind in (AffineBinaryOpKind.FloorDiv, AffineBinaryOpKind.Mod)]
    is_positive = all(isinstance(divisor, AffineConstantExpr) and divisor.value > 0 for divisor in divisors)
    return expression.is_pure_affine() and is_positive and all(p.kind != AffineBinaryOpKind.CeilDiv for p in binary)


@lru_cache(maxsize=1 << 12)  # kernels are verified after each pass
def stays_within(index: AffineExpr, loops: tuple[Range, ...], extent: int) -> bool:
    """Returns whether an index lies in an axis of some extent at all points of loops, as far as it is computed."""
    low, high = range_of_expression(index, loops)
    if low >= 0 and high < extent:
        return True
    lengths = {loop: loops[loop][1] - loops[loop][0] + 1 for loop in index.used_dims()}
    if math.prod(lengths.values()) > MOST_POINTS:
        return True
    ranges = (np.arange(low, high + 1 if loop in lengths else low + 1) for loop, (low, high) in enumerate(loops))
    places = index.eval(cast("Sequence[int]", np.ix_(*ranges)), ())
    return bool(np.all(np.greater_equal(places, 0) & np.less(places, extent)))


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
