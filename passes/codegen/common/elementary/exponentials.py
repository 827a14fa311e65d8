"""Exponentials, hyperbolic functions, and the error function."""

from __future__ import annotations

from math import inf

from tensorgrad.passes.codegen.common.elementary.parts import (
    LN_2,
    LN_2_HIGH,
    LN_2_LOW,
    LOG2_E,
    NEAREST,
    clamp,
    exp_minus_one,
    nearest,
    power_of_two,
    scaled,
)
from tensorgrad.passes.scalars import Formula, Value

LARGEST_EXPONENT = 88.722840
"""The smallest f32 whose exponential overflows."""

# e**r for |r| <= 0.347: a minimax fit, whose relative error is 4e-9, with the first two coefficients of the series.
NATIVE_EXP = (1.38404039542e-3, 8.36880335299e-3, 4.16679556221e-2, 1.6666520234e-1, 4.99999949776e-1, 1.0, 1.0)
TANH = (-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1)
SINH = (2.03721912945e-4, 8.33028376239e-3, 1.66667160211e-1)
ERF = (
    7.853861353153693e-5,
    -8.010193625184903e-4,
    5.188327685732524e-3,
    -2.685381193529856e-2,
    1.128358514861418e-1,
    -3.761262582423300e-1,
    1.128379165726710,
)
# ln(erfc(x)) for x from 1 to 4, where 1 - erfc(x) needs ever fewer bits of it; a minimax fit.
LOG_ERFC = (
    -2.169761501e-5,
    4.414726613e-4,
    -4.205284640e-3,
    2.521033958e-2,
    -1.084221005e-1,
    -6.332163811e-1,
    -1.129580259,
    1.884679950e-4,
)


def _reduced(x: Value) -> tuple[Value, Value]:
    """n and r with x = n ln 2 + r, |r| <= 0.35."""
    n = nearest(x * LOG2_E)
    whole = n.to_real()
    return n, x - whole * LN_2_HIGH - whole * LN_2_LOW


def _exp_times(f: Formula, x: Value, doublings: int) -> Value:
    """e**x * 2**doublings, for a small number of doublings."""
    n, r = _reduced(clamp(f, x, -105.0, 91.0))
    value = scaled(exp_minus_one(f, r) + 1.0, n + doublings if doublings else n)
    return f.select(x.is_nan(), x, value)


def exp(f: Formula, x: Value) -> Value:
    """e**x within 2 ulp; infinity or zero out of range, with gradual underflow."""
    return _native_exp(f, x) if f.native else _exp_times(f, x, 0)


def _native_exp(f: Formula, x: Value) -> Value:
    """As `exp` in two thirds of the instructions, for targets that preserve NaN and infinities.

    The exponent is added to the bits of e**r. Where the result may be subnormal, it is biased by 32, and the product
    with 2**-32 rounds once.
    """
    clamped = f.select(x < -105.0, -105.0, x)
    shifted = f.fused(clamped, LOG2_E, NEAREST)
    whole = shifted - NEAREST
    r = f.fused(whole, -LN_2_LOW, f.fused(whole, -LN_2_HIGH, clamped))
    power = f.real(NATIVE_EXP[0])
    for coefficient in NATIVE_EXP[1:]:
        power = f.fused(power, r, coefficient)
    tiny = clamped < -87.0
    exponent = (shifted.bits() << 23) + f.select(tiny, 32 << 23, 0)
    value = (power.bits() + exponent).as_real() * f.select(tiny, 2.0**-32, 1.0)
    # e**88.7228394 overflows; anything not below, including NaN, becomes x + infinity.
    return f.select(x < LARGEST_EXPONENT, value, x + inf)


def exp2(f: Formula, x: Value) -> Value:
    """2**x within 2 ulp, exact at integers."""
    clamped = clamp(f, x, -151.0, 129.0)
    n = nearest(clamped)
    value = scaled(exp_minus_one(f, (clamped - n.to_real()) * LN_2) + 1.0, n)
    return f.select(x.is_nan(), x, value)


def expm1(f: Formula, x: Value) -> Value:
    """e**x - 1 within 2 ulp, also near zero."""
    n, r = _reduced(clamp(f, x, -20.0, 20.0))
    scale = power_of_two(n)
    near = scale * exp_minus_one(f, r) + (scale - 1.0)
    value = f.select(abs(x) < 20.0, near, exp(f, x) - 1.0)
    return f.select(x.equals(0.0), x, value)


def sinh(f: Formula, x: Value) -> Value:
    """Sinh within 2 ulp."""
    half = _exp_times(f, abs(x), -1)
    large = (half - 0.25 / half).signed_as(x)
    square = x * x
    small = f.polynomial(square, SINH) * square * x + x
    return f.select(abs(x) < 1.0, small, large)


def cosh(f: Formula, x: Value) -> Value:
    """Cosh within 2 ulp."""
    half = _exp_times(f, abs(x), -1)
    return half + 0.25 / half


def tanh(f: Formula, x: Value) -> Value:
    """Tanh within 2 ulp; one and minus one from 9.1 on."""
    size = abs(x)
    large = 1.0 - 2.0 / (exp(f, size + size) + 1.0)
    square = size * size
    small = f.polynomial(square, TANH) * square * size + size
    return f.select(size < 0.625, small, large).signed_as(x)


def erf(f: Formula, x: Value) -> Value:
    """Returns the error function within 3 ulp: a polynomial up to one, one minus erfc above; one from 4 on."""
    size, square = abs(x), x * x
    clamped = f.select(size < 4.0, size, 4.0)
    large = (1.0 - exp(f, f.polynomial(clamped, LOG_ERFC))).signed_as(x)
    small = x * f.polynomial(square, ERF)
    value = f.select(size <= 1.0, small, large)
    return f.select(x.is_nan(), x, value)
