"""Logarithms and powers."""

from __future__ import annotations

from math import inf, nan

from tensorgrad.passes.codegen.common.elementary.parts import (
    INFINITY_BITS,
    LN_2,
    LN_2_HIGH,
    LN_2_LOW,
    LOG2_E,
    clamp,
    exp_minus_one,
    nearest,
    scaled,
)
from tensorgrad.passes.scalars import Formula, Value

LOG = (
    7.0376836292e-2,
    -1.1514610310e-1,
    1.1676998740e-1,
    -1.2420140846e-1,
    1.4249322787e-1,
    -1.6668057665e-1,
    2.0000714765e-1,
    -2.4999993993e-1,
    3.3333331174e-1,
)
POW_LOG = (
    2.0697501302e-1,
    2.3066075146e-1,
    2.7272811532e-1,
    3.3333334327e-1,
    4.2857143283e-1,
    6.0000002384e-1,
)


def _split(f: Formula, x: Value) -> tuple[Value, Value]:
    """Returns k and m with x = m * 2**k and m in [sqrt(1/2), sqrt(2)), for positive finite x."""
    subnormal = x.bits().compare("slt", 0x00800000)
    normal = f.select(subnormal, x * 2.0**23, x)
    offset = normal.bits() - 0x3F3504F3
    exponent = offset.shifted_with_sign(23) + f.select(subnormal, -23, 0)
    return exponent, ((offset & 0x7FFFFF) + 0x3F3504F3).as_real()


def _log_tail(f: Formula, d: Value) -> Value:
    """ln(1 + d) - d + d**2 / 2 for 1 + d in [sqrt(1/2), sqrt(2)]."""
    return f.polynomial(d, LOG) * d * (d * d)


def _log_or_special(f: Formula, x: Value, value: Value) -> Value:
    """Returns `value`, or the logarithm of x if x is zero, infinite, NaN or negative."""
    bits = x.bits()
    value = f.select(bits.equals(INFINITY_BITS), inf, value)
    value = f.select(bits > INFINITY_BITS, nan, value)
    return f.select(x.magnitude_bits().equals(0), -inf, value)


def log(f: Formula, x: Value) -> Value:
    """Returns the natural logarithm within 1 ulp, also near one."""
    k, m = _split(f, x)
    d, exponent = m - 1.0, k.to_real()
    tail = _log_tail(f, d) + exponent * LN_2_LOW - 0.5 * (d * d)
    return _log_or_special(f, x, d + tail + exponent * LN_2_HIGH)


def log2(f: Formula, x: Value) -> Value:
    """Returns the logarithm to base two within 2 ulp, exact at powers of two."""
    k, m = _split(f, x)
    d = m - 1.0
    tail = _log_tail(f, d) - 0.5 * (d * d)
    extra = LOG2_E - 1.0
    return _log_or_special(f, x, tail * extra + d * extra + tail + d + k.to_real())


def log1p(f: Formula, x: Value) -> Value:
    """ln(1 + x) within 3 ulp, also near zero."""
    near = _log_tail(f, x) - 0.5 * (x * x) + x
    inside = (x > -0.29289) & (x < 0.41421)
    value = f.select(inside, near, log(f, x + 1.0))
    return f.select(x.equals(0.0), x, value)


def _log2_in_two(f: Formula, x: Value) -> tuple[Value, Value]:
    """log2 of a positive finite x as a sum of two floats, the first with 12 bits: about 34 bits in total."""
    subnormal = x.bits().compare("slt", 0x00800000)
    bits = f.select(subnormal, x * 2.0**24, x).bits()
    fraction = bits & 0x7FFFFF
    # The mantissa is taken relative to 1, to 3/2, or to 2, whichever is near.
    above = fraction.compare("sgt", 0x5DB3D6)
    middle = fraction.compare("sgt", 0x1CC471) & fraction.compare("sle", 0x5DB3D6)
    n = (bits.shifted_with_sign(23) - 127) + f.select(subnormal, -24, 0) + f.select(above, 1, 0)
    a = ((fraction | 0x3F800000) - f.select(above, 0x00800000, 0)).as_real()
    base = f.select(middle, 1.5, 1.0)
    base_high, base_low = f.select(middle, 5.84960938e-1, 0.0), f.select(middle, 1.56322085e-6, 0.0)

    # s = (a - base) / (a + base) in two parts.
    u, total = a - base, a + base
    v = 1.0 / total
    s = u * v
    s_high = s.truncated()
    t_high = total.truncated()
    t_low = a - (t_high - base)
    s_low = v * ((u - s_high * t_high) - s_high * t_low)

    # log(a / base) = 2 s + 2/3 s**3 + ..., as 2/3 of s (3 + s**2 + r).
    square = s * s
    r = square * square * f.polynomial(square, POW_LOG) + s_low * (s_high + s)
    square = s_high * s_high
    t_high = (3.0 + square + r).truncated()
    t_low = r - ((t_high - 3.0) - square)
    u, v = s_high * t_high, s_low * t_high + t_low * s
    p_high = (u + v).truncated()
    p_low = v - (p_high - u)

    # ... times 2 / (3 ln 2) in two parts, and the exponent.
    z_high = p_high * 9.6191406250e-1
    z_low = p_high * -1.1736857402e-4 + p_low * 9.6179670095e-1 + base_low
    exponent = n.to_real()
    high = (((z_high + z_low) + base_high) + exponent).truncated()
    low = z_low - (((high - exponent) - base_high) - z_high)
    return high, low


def _exp2_of_product(f: Formula, y: Value, high: Value, low: Value) -> Value:
    """2**(y (high + low)) for a finite y."""
    y_high = y.truncated()
    p_low = (y - y_high) * high + y * low
    p_high = y_high * high
    total = p_high + p_low
    n = nearest(clamp(f, total, -151.0, 129.0))
    value = scaled(exp_minus_one(f, ((p_high - n.to_real()) + p_low) * LN_2) + 1.0, n)
    value = f.select(total > 129.0, inf, value)
    return f.select(total < -151.0, 0.0, value)


def powf(f: Formula, x: Value, y: Value) -> Value:
    """x**y within 2 ulp, as C's pow: x may be negative if y is an integer; x**0 and 1**y are 1 even for NaN."""
    size, size_bits, y_bits = abs(x), x.magnitude_bits(), y.magnitude_bits()
    value = _exp2_of_product(f, y, *_log2_in_two(f, size))

    # x is zero or infinite.
    grows = y > 0.0
    huge_or_zero = size_bits.equals(0) | size_bits.equals(INFINITY_BITS)
    up = f.select(grows, inf, 0.0)
    down = f.select(grows, 0.0, inf)
    above_one = size > 1.0
    value = f.select(huge_or_zero | y_bits.equals(INFINITY_BITS), f.select(above_one, up, down), value)

    # The sign, and powers that are not real.
    half = y * 0.5
    integer = y.floor().equals(y)
    odd = integer & half.floor().differs(half) & (abs(y) < 2.0**24)
    negative = x.bits().compare("slt", 0)
    value = f.select(negative & odd, -value, value)
    finite_negative = negative & size_bits.differs(0) & (size_bits < INFINITY_BITS)
    fractional = y.floor().differs(y) & (y_bits < INFINITY_BITS)
    value = f.select(finite_negative & fractional, nan, value)
    value = f.select(x.is_nan() | y.is_nan(), nan, value)
    minus_one = x.equals(-1.0) & y_bits.equals(INFINITY_BITS)
    return f.select(x.equals(1.0) | y_bits.equals(0) | minus_one, 1.0, value)
