"""`keep-ieee`: protects arithmetic that shader compilers fold as if there were no NaN, infinity or rounding.

WGSL allows it, and Mesa does it: `x * 0` becomes 0, so does `x - x`, `(x + 1e20) - 1e20` becomes x, and the NaN that
training should have stopped at is lost. Compilers fold what they can see: a constant operand, or the same value on both
sides of an op. Such ops are rare in programs. They are rewritten here on the bits of their operand, or with an inner
value that passes through an integer identity op; all others are unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from xdsl.context import Context
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr, ModuleOp, f16, f32
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tensorgrad.passes.analyses.walking import operations
from tensorgrad.passes.levels import Level, LevelPass
from tensorgrad.passes.scalars import Formula, Value

SIGN, INFINITY, NAN = 0x80000000, 0x7F800000, 0x7FC00000
LARGEST_BITS = 0xFFFFFFFE
"""The bits of a NaN; only one other NaN has larger bits."""

Written: TypeAlias = Callable[[Formula, Value], Value]
"""Builds a result from one operand."""

SUMS = (arith.AddfOp, arith.SubfOp)
PRODUCTS = (arith.MulfOp, arith.DivfOp)


def opaque(f: Formula, x: Value) -> Value:
    """Returns x, opaquely to compilers."""
    return x.bits().at_most(LARGEST_BITS).as_real()


def _signed(f: Formula, x: Value, magnitude: int, negated: bool) -> Value:
    """Returns the bits of a number with x's sign, or the opposite."""
    bits = x.bits() ^ SIGN if negated else x.bits()
    return (bits & SIGN) | magnitude if magnitude else bits & SIGN


def times_zero(negated: bool) -> Written:
    """x * 0: zero with x's sign, NaN for infinities and NaN."""

    def write(f: Formula, x: Value) -> Value:
        special = x.magnitude_bits() >= INFINITY
        return f.select(special, NAN, _signed(f, x, 0, negated)).as_real()

    return write


def zero_over(negated: bool) -> Written:
    """0 / x: zero with x's sign, NaN for zeros and NaN."""

    def write(f: Formula, x: Value) -> Value:
        size = x.magnitude_bits()
        special = size.equals(0) | (size > INFINITY)
        return f.select(special, NAN, _signed(f, x, 0, negated)).as_real()

    return write


def over_zero(negated: bool) -> Written:
    """x / 0: infinity with x's sign, NaN for zeros and NaN."""

    def write(f: Formula, x: Value) -> Value:
        size = x.magnitude_bits()
        special = size.equals(0) | (size > INFINITY)
        return f.select(special, NAN, _signed(f, x, INFINITY, negated)).as_real()

    return write


def less_itself(f: Formula, x: Value) -> Value:
    """x - x: zero, NaN for infinities and NaN."""
    return f.select(x.magnitude_bits() >= INFINITY, NAN, 0).as_real()


@dataclass(frozen=True)
class Rewrite:
    """The rewrite of an op.

    Attributes:
        operand: The operand that the result depends on, or that is made opaque.
        write: Builds the result from that operand; `None` if the op stays and takes the operand opaquely.
    """

    operand: int
    write: Written | None = None


def _constant(value: SSAValue) -> float | None:
    owner = value.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, FloatAttr):
        return float(owner.value.value.data)
    return None


def _is_negative(number: float) -> bool:
    return bool(np.signbit(number))


def _signed_term(value: SSAValue, sign: int = 1) -> tuple[SSAValue, int]:
    """Returns a negation's operand, or the value itself, and its sign."""
    while isinstance(value.owner, arith.NegfOp):
        value, sign = value.owner.operand, -sign
    return value, sign


def _terms(op: Operation, sign: int = 1) -> list[tuple[SSAValue, int]]:
    """Returns the two terms of a sum or difference, and their signs."""
    left, right = op.operands
    return [_signed_term(left, sign), _signed_term(right, -sign if isinstance(op, arith.SubfOp) else sign)]


def _of_sum(op: Operation) -> Rewrite | None:
    """x - x, and a sum minus one of its terms, or with two constants: (x + y) - x, (x + 1e20) - 1e20."""
    terms = _terms(op)
    (left, left_sign), (right, right_sign) = terms
    if left is right and left_sign != right_sign:
        return Rewrite(0, less_itself)
    for place, (value, sign) in enumerate(terms):
        inner, (other, other_sign) = value.owner, terms[1 - place]
        if not isinstance(inner, SUMS):
            continue
        parts = _terms(inner, sign)
        both_constant = _constant(other) is not None and any(_constant(part) is not None for part, _ in parts)
        if both_constant or (other, -other_sign) in parts:
            return Rewrite(place)
    return None


def _of_product(op: arith.MulfOp) -> Rewrite | None:
    """x * 0, (x * 1e38) * 10, and sqrt(x) * sqrt(x), which is NaN below zero."""
    left, right = op.operands
    if left is right:
        return Rewrite(0) if isinstance(left.owner, math.SqrtOp) else None
    for place, other in ((0, right), (1, left)):
        number = _constant(other)
        if number is not None and number == 0.0:
            return Rewrite(place, times_zero(_is_negative(number)))
        if number is not None and _leaves_range(op.operands[place], number):
            return Rewrite(place)
    return None


def _of_quotient(op: arith.DivfOp) -> Rewrite | None:
    """0 / x, x / 0, and (x / 1e30) / 1e30."""
    numerator, divisor = map(_constant, op.operands)
    if numerator is not None and numerator == 0.0:
        return Rewrite(1, zero_over(_is_negative(numerator)))
    if divisor is not None and divisor == 0.0:
        return Rewrite(0, over_zero(_is_negative(divisor)))
    if divisor is not None and _leaves_range(op.operands[0], 1.0 / divisor):
        return Rewrite(0)
    return None


def _leaves_range(inner: SSAValue, factor: float) -> bool:
    """Returns whether a product's constant factor, times another, is no longer a normal number."""
    owner = _signed_term(inner)[0].owner
    if not isinstance(owner, PRODUCTS):
        return False
    for place, operand in enumerate(owner.operands):
        number = _constant(operand)
        if number is None or number == 0.0 or not np.isfinite(number) or not np.isfinite(factor):
            continue
        size = abs(factor / number if isinstance(owner, arith.DivfOp) and place == 1 else factor * number)
        info = np.finfo(np.float16 if inner.type == f16 else np.float32)
        return not float(info.tiny) <= size <= float(info.max)
    return False


RULES: dict[type[Operation], Callable[..., Rewrite | None]] = {
    arith.AddfOp: _of_sum,
    arith.SubfOp: _of_sum,
    arith.MulfOp: _of_product,
    arith.DivfOp: _of_quotient,
}
"""Ops that may be rewritten. Ops on two constants are not: those are already folded on tensors."""


def rewrite_of(op: Operation) -> Rewrite | None:
    """Returns the rewrite of an op that shader compilers would fold against IEEE 754; `None` keeps it."""
    rule = RULES.get(type(op))
    if rule is None or op.results[0].type not in (f32, f16):
        return None
    if all(_constant(operand) is not None for operand in op.operands):
        return None
    return rule(op)


def keep(op: Operation, rewrite: Rewrite) -> None:
    """Rewrites an op so that no compiler folds it; f16 is computed in f32, which represents every result."""
    formula, half = Formula(op.location), op.results[0].type == f16
    x = formula.value(op.operands[rewrite.operand])
    result = (rewrite.write or opaque)(formula, x.cast(arith.ExtFOp, f32) if half else x)
    if half:
        result = result.cast(arith.TruncFOp, f16)
    Rewriter.insert_op(formula.ops, InsertPoint.before(op))
    if rewrite.write is None:
        op.operands[rewrite.operand] = result.ssa
    else:
        Rewriter.replace_op(op, [], [result.ssa])


class KeepIeeePass(LevelPass):
    """Preserves the values of float arithmetic that shader compilers fold.

    Expects scalar f32 and f16 ops, anywhere in the module, before `expand-math`, whose formulas need no protection.
    Guarantees IEEE 754's NaN, infinities and zeros for `x * 0`, `0 / x`, `x / 0` and `x - x`, and that sums of sums
    with a common term or two constants, products of products with constants whose product leaves the range, and the
    square of a square root are computed as written. Other ops are unchanged.
    """

    name = "keep-ieee"
    levels = (Level.PLANNED, Level.WGSL)

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        rewrites = [(inner, rewrite_of(inner)) for inner in operations(op.body.block) if type(inner) in RULES]
        for inner, rewrite in rewrites:
            if rewrite is not None:
                keep(inner, rewrite)
