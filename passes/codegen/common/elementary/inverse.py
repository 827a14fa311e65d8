"""Inverse trigonometric and hyperbolic functions."""

from __future__ import annotations

from math import inf, nan, pi

from tensorgrad.passes.codegen.common.elementary.logarithms import log
from tensorgrad.passes.codegen.common.elementary.parts import LN_2
from tensorgrad.passes.scalars import Formula, Value

ASIN = (4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2, 1.6666752422e-1)
ATAN = (8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1)
ASINH = (2.0122003309e-2, -4.2699340972e-2, 7.4847586088e-2, -1.6666288134e-1)
ACOSH = (1.7596881071e-3, -7.5272886713e-3, 2.6454905019e-2, -1.1784741703e-1, 1.4142135263)
ATANH = (1.81740078349e-1, 8.24370301058e-2, 1.46691431730e-1, 1.99782164500e-1, 3.33337300303e-1)


def _asin_small(f: Formula, s: Value, square: Value) -> Value:
    """Asin of s in [-0.5, 0.5], given its square."""
    return f.polynomial(square, ASIN) * square * s + s


def asin(f: Formula, x: Value) -> Value:
    """Asin within 3 ulp; NaN outside [-1, 1]."""
    size = abs(x)
    outer = 0.5 * (1.0 - size)
    large = (pi / 2 - 2.0 * _asin_small(f, outer.sqrt(), outer)).signed_as(x)
    value = f.select(size <= 0.5, _asin_small(f, x, x * x), large)
    return f.select(x.magnitude_bits() > 0x3F800000, nan, value)


def acos(f: Formula, x: Value) -> Value:
    """Acos within 2 ulp; NaN outside [-1, 1]."""
    outer = 0.5 * (1.0 - abs(x))
    half = _asin_small(f, outer.sqrt(), outer)
    large = f.select(x < 0.0, pi - 2.0 * half, 2.0 * half)
    value = f.select(abs(x) <= 0.5, pi / 2 - _asin_small(f, x, x * x), large)
    return f.select(x.magnitude_bits() > 0x3F800000, nan, value)


def _atan_positive(f: Formula, x: Value) -> Value:
    far, middle = x > 2.414213562373095, x > 0.4142135623730950
    offset = f.select(far, pi / 2, f.select(middle, pi / 4, 0.0))
    r = f.select(far, -1.0 / x, f.select(middle, (x - 1.0) / (x + 1.0), x))
    square = r * r
    return f.polynomial(square, ATAN) * square * r + r + offset


def atan(f: Formula, x: Value) -> Value:
    """Atan within 3 ulp."""
    return f.select(x.is_nan(), x, _atan_positive(f, abs(x)).signed_as(x))


def atan2(f: Formula, y: Value, x: Value) -> Value:
    """Returns the angle of the point (x, y) within 4 ulp, in all quadrants, as C's atan2 at zeros and infinities."""
    width, height = abs(x), abs(y)
    steep = height > width
    ratio = f.select(steep, width, height) / f.select(steep, height, width)
    ratio = f.select(width.equals(height), f.select(width.equals(0.0), 0.0, 1.0), ratio)
    angle = _atan_positive(f, ratio)
    angle = f.select(steep, pi / 2 - angle, angle)
    angle = f.select(x.bits().compare("slt", 0), pi - angle, angle)
    return f.select(x.is_nan() | y.is_nan(), nan, angle.signed_as(y))


def asinh(f: Formula, x: Value) -> Value:
    """Asinh within 4 ulp."""
    size, square = abs(x), x * x
    small = f.polynomial(square, ASINH) * square * size + size
    # From 1500 on, sqrt(x * x + 1) rounds to x, and x * x may overflow.
    huge = size > 1500.0
    grown = f.select(huge, size, size + (square + 1.0).sqrt())
    large = log(f, grown) + f.select(huge, LN_2, 0.0)
    value = f.select(size < 0.5, small, large).signed_as(x)
    return f.select(x.is_nan(), x, value)


def acosh(f: Formula, x: Value) -> Value:
    """Acosh within 4 ulp; NaN below one."""
    z = x - 1.0
    small = f.polynomial(z, ACOSH) * z.sqrt()
    huge = x > 1500.0
    grown = f.select(huge, x, x + (z * (x + 1.0)).sqrt())
    large = log(f, grown) + f.select(huge, LN_2, 0.0)
    value = f.select(z < 0.5, small, large)
    return f.select((x < 1.0) | x.is_nan(), nan, value)


def atanh(f: Formula, x: Value) -> Value:
    """Atanh within 4 ulp; infinite at one and minus one, NaN beyond."""
    size, square = abs(x), x * x
    small = f.polynomial(square, ATANH) * square * size + size
    large = 0.5 * log(f, (1.0 + size) / (1.0 - size))
    value = f.select(size < 0.5, small, large)
    bits = x.magnitude_bits()
    value = f.select(bits.equals(0x3F800000), inf, value).signed_as(x)
    return f.select(bits > 0x3F800000, nan, value)
