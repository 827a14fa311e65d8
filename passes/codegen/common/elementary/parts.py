"""What several elementary functions share: constants, powers of two, and the exponential near 0."""

from __future__ import annotations

from tensorgrad.passes.scalars import Formula, Value

INFINITY_BITS = 0x7F800000
NEAREST = 12582912.0
"""1.5 * 2**23: the low mantissa bits of a sum with it are an integer."""
LOG2_E = 1.4426950408889634
LN_2 = 0.6931471805599453
# ln 2 in two parts, the first with few enough bits that its product with an exponent is exact.
LN_2_HIGH, LN_2_LOW = 0.693359375, -2.12194440e-4

EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)


def power_of_two(exponent: Value) -> Value:
    """2**exponent for an exponent in [-126, 127]."""
    return ((exponent + 127) << 23).as_real()


def scaled(x: Value, exponent: Value) -> Value:
    """x * 2**exponent for an exponent in [-252, 254], in two steps that overflow only if the result does."""
    half = exponent.shifted_with_sign(1)
    return x * power_of_two(half) * power_of_two(exponent - half)


def nearest(x: Value) -> Value:
    """Returns the integer nearest to x in [-2**22, 2**22], from the bits of x + 1.5 * 2**23."""
    return (x + NEAREST).bits() - 0x4B400000


def clamp(f: Formula, x: Value, low: float, high: float) -> Value:
    """Returns x, or the nearest bound; NaN stays what it is."""
    return f.select(x < low, low, f.select(x > high, high, x))


def exp_minus_one(f: Formula, r: Value) -> Value:
    """e**r - 1 for |r| <= 0.35."""
    return f.polynomial(r, EXP) * (r * r) + r
