"""`expand-math`: expands elementary functions to polynomials and bit tests, where WGSL's builtins guarantee too little.

The error bounds below are in units in the last place (ulp) of f32, against float64, measured on a Vulkan
device over every 4099th bit pattern and dense samples of the interesting ranges. The methods are Cephes'
(S. Moshier, single-precision library: expf, logf, sinf, tanf, tanhf, asinf, atanf, sinhf, asinhf, acoshf, atanhf,
ndtrf), and for `powf` that of fdlibm's e_powf.c (I. Taylor).

A shader compiler may reassociate sums: `(a + b) - a` becomes `b`. Where a rounding error is computed, the sum is masked
bitwise, which no compiler sees through.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import inf, nan, pi

from xdsl.context import Context
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32, f64
from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import PassFailedException

from tensorgrad.dialects.locations import line_of
from tensorgrad.dialects.wgsl import RemFOp
from tensorgrad.passes.analyses.walking import operations
from tensorgrad.passes.codegen.common.bf16_bits import converts_bf16, expand_bf16, extends_vector
from tensorgrad.passes.codegen.common.exact_remainder import remainder
from tensorgrad.passes.levels import Level, LevelPass
from tensorgrad.passes.scalars import Formula, Value
from tensorgrad.runtime.target import WEBGPU_DEFAULT, Target

INFINITY_BITS = 0x7F800000
NEAREST = 12582912.0
"""1.5 * 2**23: the low mantissa bits of a sum with it are an integer."""
LARGEST_EXPONENT = 88.722840
"""The smallest f32 whose exponential overflows."""
LOG2_E = 1.4426950408889634
LN_2 = 0.6931471805599453
# ln 2 in two parts, the first with few enough bits that its product with an exponent is exact.
LN_2_HIGH, LN_2_LOW = 0.693359375, -2.12194440e-4

EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
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
# e**r for |r| <= 0.347: a minimax fit, whose relative error is 4e-9, with the first two coefficients of the series.
NATIVE_EXP = (1.38404039542e-3, 8.36880335299e-3, 4.16679556221e-2, 1.6666520234e-1, 4.99999949776e-1, 1.0, 1.0)
TANH = (-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1)
SINH = (2.03721912945e-4, 8.33028376239e-3, 1.66667160211e-1)
ASIN = (4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2, 1.6666752422e-1)
ATAN = (8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1)
SIN = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
COS = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
TAN = (
    9.38540185543e-3,
    3.11992232697e-3,
    2.44301354525e-2,
    5.34112807005e-2,
    1.33387994085e-1,
    3.33331568548e-1,
)
ASINH = (2.0122003309e-2, -4.2699340972e-2, 7.4847586088e-2, -1.6666288134e-1)
ACOSH = (1.7596881071e-3, -7.5272886713e-3, 2.6454905019e-2, -1.1784741703e-1, 1.4142135263)
ATANH = (1.81740078349e-1, 8.24370301058e-2, 1.46691431730e-1, 1.99782164500e-1, 3.33337300303e-1)
# The bits of 2/pi, preceded by 32 zeros.
TWO_OVER_PI = (0, 0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB)
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
POW_LOG = (
    2.0697501302e-1,
    2.3066075146e-1,
    2.7272811532e-1,
    3.3333334327e-1,
    4.2857143283e-1,
    6.0000002384e-1,
)


# Exponentials


def _power_of_two(exponent: Value) -> Value:
    """2**exponent for an exponent in [-126, 127]."""
    return ((exponent + 127) << 23).as_real()


def _scaled(x: Value, exponent: Value) -> Value:
    """x * 2**exponent for an exponent in [-252, 254], in two steps that overflow only if the result does."""
    half = exponent.shifted_with_sign(1)
    return x * _power_of_two(half) * _power_of_two(exponent - half)


def _nearest(x: Value) -> Value:
    """Returns the integer nearest to x in [-2**22, 2**22], from the bits of x + 1.5 * 2**23."""
    return (x + NEAREST).bits() - 0x4B400000


def _clamped(f: Formula, x: Value, low: float, high: float) -> Value:
    return f.select(x < low, low, f.select(x > high, high, x))


def _exp_minus_one(f: Formula, r: Value) -> Value:
    """e**r - 1 for |r| <= 0.35."""
    return f.polynomial(r, EXP) * (r * r) + r


def _reduced(x: Value) -> tuple[Value, Value]:
    """n and r with x = n ln 2 + r, |r| <= 0.35."""
    n = _nearest(x * LOG2_E)
    whole = n.to_real()
    return n, x - whole * LN_2_HIGH - whole * LN_2_LOW


def _exp_times(f: Formula, x: Value, doublings: int) -> Value:
    """e**x * 2**doublings, for a small number of doublings."""
    n, r = _reduced(_clamped(f, x, -105.0, 91.0))
    value = _scaled(_exp_minus_one(f, r) + 1.0, n + doublings if doublings else n)
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
    clamped = _clamped(f, x, -151.0, 129.0)
    n = _nearest(clamped)
    value = _scaled(_exp_minus_one(f, (clamped - n.to_real()) * LN_2) + 1.0, n)
    return f.select(x.is_nan(), x, value)


def expm1(f: Formula, x: Value) -> Value:
    """e**x - 1 within 2 ulp, also near zero."""
    n, r = _reduced(_clamped(f, x, -20.0, 20.0))
    scale = _power_of_two(n)
    near = scale * _exp_minus_one(f, r) + (scale - 1.0)
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


# Logarithms


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


# Powers


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
    n = _nearest(_clamped(f, total, -151.0, 129.0))
    value = _scaled(_exp_minus_one(f, ((p_high - n.to_real()) + p_low) * LN_2) + 1.0, n)
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


# Trigonometric functions


def _high_product(x: Value, y: Value) -> Value:
    """Returns the high 32 bits of a 64-bit unsigned product, for x below 2**24."""
    x_high, x_low = x >> 16, x & 0xFFFF
    y_high, y_low = y >> 16, y & 0xFFFF
    first_cross, second_cross = x_high * y_low, x_low * y_high
    middle = ((x_low * y_low) >> 16) + (first_cross & 0xFFFF) + (second_cross & 0xFFFF)
    return x_high * y_high + (first_cross >> 16) + (second_cross >> 16) + (middle >> 16)


def _word(f: Formula, place: Value, first: int) -> Value:
    """Returns the word of `TWO_OVER_PI` at `place`, from 0 to 4, plus `first`."""
    word = f.whole(TWO_OVER_PI[first])
    for distance in range(1, 5):
        word = f.select(place.equals(distance), TWO_OVER_PI[first + distance], word)
    return word


def _quarter_turns(f: Formula, size: Value) -> tuple[Value, Value]:
    """Returns n modulo 4 and r with `size` = n pi/2 + r, |r| <= pi/4, for positive finite `size`, by integers alone.

    The method is M. Payne's and R. Hanek's: only those bits of 2/pi matter whose product with the mantissa is neither a
    multiple of 4 nor too small.
    """
    bits = size.bits()
    mantissa = (bits & 0x7FFFFF) | 0x800000
    offset = (bits >> 23) - 120
    place, shift = offset >> 5, offset & 31
    words = [_word(f, place, first) for first in range(4)]
    first, second, third = ((high << shift) | (low >> 1 >> (shift ^ 31)) for high, low in pairwise(words))
    # The product modulo 4, as a fixed-point number: 2 integer bits, 62 fraction bits.
    middle = mantissa * second
    low = middle + _high_product(mantissa, third)
    carry = f.select(low < middle, 1, 0)
    high = mantissa * first + _high_product(mantissa, second) + carry
    n = (high + 0x20000000) >> 30
    rest = high - (n << 30)
    mask = rest.shifted_with_sign(31)
    fraction = (rest ^ mask).to_real() * 2.0**-30 + ((low ^ mask) >> 1).to_real() * 2.0**-61
    r = fraction * (pi / 2)
    near = size < 0.5
    r = f.select(near, size, f.select(mask.differs(0), -r, r))
    return f.select(near, 0, n), r


def _sine(f: Formula, r: Value, square: Value) -> Value:
    return f.polynomial(square, SIN) * square * r + r


def _cosine(f: Formula, square: Value) -> Value:
    return f.polynomial(square, COS) * square * square - 0.5 * square + 1.0


def _wave(f: Formula, x: Value, quarter: int, negative: Value | None) -> Value:
    """Returns the sine of |x| plus `quarter` quarter turns, negated where `negative`; NaN for infinities."""
    n, r = _quarter_turns(f, abs(x))
    n, square = n + quarter, r * r
    value = f.select((n & 1).equals(0), _sine(f, r, square), _cosine(f, square))
    value = f.select((n & 2).equals(0), value, -value)
    if negative is not None:
        value = f.select(negative, -value, value)
    return f.select(x.magnitude_bits() >= INFINITY_BITS, nan, value)


def sin(f: Formula, x: Value) -> Value:
    """Returns the sine within 3 ulp, for numbers of any magnitude."""
    return _wave(f, x, 0, x.bits().compare("slt", 0))


def cos(f: Formula, x: Value) -> Value:
    """Returns the cosine within 3 ulp, for numbers of any magnitude."""
    return _wave(f, x, 1, None)


def tan(f: Formula, x: Value) -> Value:
    """Returns the tangent within 5 ulp, for numbers of any magnitude."""
    n, r = _quarter_turns(f, abs(x))
    square = r * r
    value = f.polynomial(square, TAN) * square * r + r
    value = f.select((n & 1).equals(0), value, -1.0 / value)
    value = f.select(x.bits().compare("slt", 0), -value, value)
    return f.select(x.magnitude_bits() >= INFINITY_BITS, nan, value)


# Inverse trigonometric and hyperbolic functions


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


EXPANSIONS: dict[type[Operation], Callable[..., Value]] = {
    math.ExpOp: exp,
    math.Exp2Op: exp2,
    math.ExpM1Op: expm1,
    math.LogOp: log,
    math.Log2Op: log2,
    math.Log1pOp: log1p,
    math.PowFOp: powf,
    math.SinOp: sin,
    math.CosOp: cos,
    math.TanOp: tan,
    math.TanhOp: tanh,
    math.SinhOp: sinh,
    math.CoshOp: cosh,
    math.ErfOp: erf,
    math.AsinOp: asin,
    math.AcosOp: acos,
    math.AtanOp: atan,
    math.AsinhOp: asinh,
    math.AcoshOp: acosh,
    math.AtanhOp: atanh,
    math.Atan2Op: atan2,
}
"""The expansion of each op: a function from a formula and the operands to the result."""

NATIVE_EXPANSIONS: dict[type[Operation], Callable[..., Value]] = {**EXPANSIONS, RemFOp: remainder}
"""The expansions for CPUs, which have f64."""


def expand(op: Operation, native: bool = False) -> None:
    """Expands an op on f32 or, through f32, on f16; `native` selects the expansion for CPUs."""
    type_ = op.results[0].type
    formula = Formula(op.location, native)
    operands = [formula.value(operand) for operand in op.operands]
    if type_ != f32:
        operands = [operand.cast(arith.ExtFOp, f32) for operand in operands]
    result = (NATIVE_EXPANSIONS if native else EXPANSIONS)[type(op)](formula, *operands)
    if type_ == f16:
        result = result.cast(arith.TruncFOp, f16)
    Rewriter.insert_op(formula.ops, InsertPoint.before(op))
    Rewriter.replace_op(op, [], [result.ssa])


@dataclass(frozen=True)
class ExpandMathPass(LevelPass):
    """Expands the `math` ops whose WGSL builtin is less accurate than guaranteed here to `arith`, and bf16 to its bits.

    Expects scalar f32 and f16 ops, anywhere in the module. Guarantees that none of `EXPANSIONS` (in native code, of
    `NATIVE_EXPANSIONS`) is left, nor a conversion to or from bf16, that each result is within the bound stated in its
    function's docstring where the device keeps subnormals, that NaN, infinities and signed zeros are as in C, and that
    the new ops have the location of the old one. Left to the builtins: sqrt, rsqrt, floor and the like. In native code,
    f64 is left to the C library.

    Attributes:
        target: A device or a CPU.
    """

    name = "expand-math"
    levels = (Level.PLANNED, Level.WGSL, Level.CPU)

    target: Target = WEBGPU_DEFAULT

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        """Expands every op in `op` that has an expansion.

        Raises:
            PassFailedException: one has a type other than f32 and f16, or bf16 is converted from or to another type
                than f32; the module is unchanged then.
        """
        ops = list(operations(op.body.block))
        expansions = NATIVE_EXPANSIONS if self.target.native else EXPANSIONS
        expandable = [inner for inner in ops if type(inner) in expansions]
        if self.target.native:
            expandable = [inner for inner in expandable if inner.results[0].type != f64]
        for inner in expandable:
            type_ = inner.results[0].type
            if type_ not in (f32, f16):
                problem = f"expand-math supports f32 and f16, got {type_}"
                raise PassFailedException(f"{inner.name} at {line_of(inner.location)}: {problem}")
        conversions = [inner for inner in ops if converts_bf16(inner) and not extends_vector(inner)]
        for inner in conversions:
            types = {inner.operands[0].type, inner.results[0].type}
            if types != {bf16, f32}:
                problem = f"expand-math converts scalars between f32 and bf16, got {', '.join(sorted(map(str, types)))}"
                raise PassFailedException(f"{inner.name} at {line_of(inner.location)}: {problem}")
        for inner in expandable:
            expand(inner, self.target.native)
        for inner in reversed(conversions):  # extensions before what they extend
            expand_bf16(inner)
