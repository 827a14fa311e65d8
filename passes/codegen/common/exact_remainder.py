"""Remainders of f32 in native code, exact as C's `fmod`, by vectors: LLVM calls the C library for each element."""

from __future__ import annotations

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import f64

from tensorgrad.passes.scalars import Formula, Value

DIGIT_BITS = 48
"""The bits of a digit of the quotient: few enough that a rounded product with a reciprocal is off by less than 1."""
DIGITS = 6
"""The digits of a quotient, which is less than 2**277, that of 2**128 by the smallest subnormal number."""


def remainder(f: Formula, x: Value, y: Value) -> Value:
    """The dividend less the quotient, rounded toward zero, times the divisor: the long division of f32 in f64.

    What a step leaves is a multiple of the unit in the last place of `x` or of the multiple of `y`, and smaller than
    both: it has at most 24 bits, and a fused multiplication and addition is exact. An infinite divisor is taken as one
    that is larger than any f32.
    """
    divisor = abs(y.cast(arith.ExtFOp, f64))
    divisor = f.select(divisor > 2.0**130, 2.0**130, divisor)
    reciprocal = 1.0 / divisor
    rest = abs(x.cast(arith.ExtFOp, f64))
    for place in reversed(range(DIGITS)):
        unit = 2.0 ** (DIGIT_BITS * place)
        digit = (rest * (reciprocal * (1.0 / unit))).floor()
        multiple = divisor * unit
        rest = f.apply(math.FmaOp, -digit, multiple, rest)
        rest = f.select(rest < 0.0, rest + multiple, rest)
        rest = f.select(rest >= multiple, rest - multiple, rest)
    return f.apply(math.CopySignOp, rest.cast(arith.TruncFOp, x.type), x)
