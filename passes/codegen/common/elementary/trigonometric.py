"""Trigonometric functions, for numbers of any magnitude."""

from __future__ import annotations

from itertools import pairwise
from math import nan, pi

from tensorgrad.passes.codegen.common.elementary.parts import INFINITY_BITS
from tensorgrad.passes.scalars import Formula, Value

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
# The bits of 2/pi, preceded by 32 zeros.
TWO_OVER_PI = (0, 0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB)


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
