"""Builds index arithmetic."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Attribute, Block
from xdsl.ir.affine import AffineBinaryOpExpr, AffineBinaryOpKind, AffineConstantExpr, AffineDimExpr, AffineExpr

from tensorgrad.passes.analyses import affine
from tensorgrad.passes.codegen.common.stage_loops import Loops
from tensorgrad.passes.scalars import ScalarBuilder, Value

index = IndexType()

OPERATORS: dict[AffineBinaryOpKind, Callable[[Value, Value], Value]] = {
    AffineBinaryOpKind.Mul: lambda x, y: x * y,
    AffineBinaryOpKind.FloorDiv: lambda x, y: x // y,
    AffineBinaryOpKind.Mod: lambda x, y: x % y,
}
MOST_WRAPS = 2
"""The most subtractions that compute a remainder of a number that is bounded by a multiple of its divisor."""


class IndexBuilder(ScalarBuilder):
    """Appends index arithmetic; index constants are uniqued in a block."""

    def __init__(self, block: Block):
        super().__init__(block)
        self._numbers: ChainMap[int, Value] = ChainMap()

    @contextmanager
    def within(self, block: Block) -> Generator[None]:
        around, self._numbers = self._numbers, self._numbers.new_child()
        with super().within(block):
            yield
        self._numbers = around

    def share_numbers(self, other: IndexBuilder) -> None:
        """Takes over the constants of a builder that appends to the same block."""
        self._numbers.update((number, self.value(constant.ssa)) for number, constant in other._numbers.items())

    def constant(self, number: float, element: Attribute) -> Value:
        return self.number(int(number)) if element == index else super().constant(number, element)

    def number(self, value: int) -> Value:
        """Returns a constant index."""
        constant = self._numbers.get(value)
        if constant is None:
            constant = self._numbers[value] = super().constant(value, index)
        return constant

    def expression(self, expression: AffineExpr, bases: Sequence[Value], extents: Sequence[int] | None = None) -> Value:
        """Emits an index expression. Its subexpressions are never negative, as built by `affine.linear`.

        Args:
            expression: An expression over the bases.
            bases: The index values.
            extents: Upper bounds of the bases (exclusive), if known.
        """
        match expression:
            case AffineConstantExpr():
                # Index arithmetic is modulo 2^32, so a negative term is right once it is added.
                return self.number(expression.value)
            case AffineDimExpr():
                return bases[expression.position]
            case _:
                assert isinstance(expression, AffineBinaryOpExpr)
                return self._binary(expression, bases, extents)

    def _binary(self, expression: AffineBinaryOpExpr, bases: Sequence[Value], extents: Sequence[int] | None) -> Value:
        lhs, rhs = self.expression(expression.lhs, bases, extents), expression.rhs
        if expression.kind == AffineBinaryOpKind.Add:
            negative = _negated(rhs)
            if negative is not None:
                return lhs - self.expression(negative, bases, extents)
            return lhs + self.expression(rhs, bases, extents)
        if isinstance(rhs, AffineConstantExpr):
            if expression.kind == AffineBinaryOpKind.Mul and rhs.value < 0:
                return 0 - lhs * -rhs.value
            if expression.kind == AffineBinaryOpKind.Mod and extents is not None:
                wraps = affine.linear(expression.lhs, extents).bounds(extents)[1] // rhs.value
                if wraps <= MOST_WRAPS and rhs.value & (rhs.value - 1):
                    return _wrapped(lhs, rhs.value, wraps)
        return OPERATORS[expression.kind](lhs, self.expression(rhs, bases, extents))

    def place(self, linear: affine.Linear, loops: Loops) -> Value:
        """Emits an index; terms of outer loops are summed first, so that they can be hoisted."""
        by_loop: dict[int, dict[AffineExpr, int]] = {}
        for atom, factor in linear.terms.items():
            by_loop.setdefault(max(atom.used_dims(), default=-1), {})[atom] = factor
        at: Value | None = None
        for loop in sorted(by_loop):
            constant = linear.constant if at is None else 0
            part = affine.Linear(by_loop[loop], constant).expression()
            term = self.expression(part, loops.bases, loops.extents)
            at = term if at is None else at + term
        return self.number(linear.constant) if at is None else at


def _negated(term: AffineExpr) -> AffineExpr | None:
    """Returns the negation of a negative constant, or of a product with one; `None` for any other expression."""
    if isinstance(term, AffineConstantExpr) and term.value < 0:
        return AffineConstantExpr(-term.value)
    if isinstance(term, AffineBinaryOpExpr) and term.kind == AffineBinaryOpKind.Mul:
        factor = term.rhs
        if isinstance(factor, AffineConstantExpr) and factor.value < 0:
            return term.lhs * -factor.value
    return None


def _wrapped(value: Value, divisor: int, times: int) -> Value:
    """Returns the remainder of a number below `(times + 1) * divisor`, by subtractions and unsigned minima."""
    for _ in range(times):
        value = value.at_most(value - divisor)
    return value
