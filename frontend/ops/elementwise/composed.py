"""Elementwise functions that are composed of others, so that they need no op of their own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tensorgrad.ops.elementwise.arithmetic import (
    abs,
    add,
    bitwise_and,
    equal,
    greater,
    less,
    logical_or,
    maximum,
    multiply,
    negative,
    not_equal,
    stop_gradient,
    subtract,
    where,
)
from tensorgrad.ops.elementwise.functions import exp, isfinite, isinf, isnan, log, log1p, sqrt
from tensorgrad.ops.promotion import as_float, as_tensor, bitcast, cast, common
from tensorgrad.tracing.dtypes import NAMES
from tensorgrad.tracing.tensor import Array, Tensor

ROUNDING_64 = 2.0**-53 * (1 + 2.0**-52)
"""A little over half the distance of two numbers of f64, relative to the lower one."""

TINY_64 = 2.0**-900
"""What numbers of f64 are scaled up below, lest the step to the next one be rounded."""

SCALE_64 = 2.0**100


def log10(x: Any) -> Tensor:
    """Returns the logarithm to base 10: `-inf` at 0, NaN below."""
    return multiply(log(as_float(x)), 1 / math.log(10))


def logaddexp(x: Any, y: Any) -> Tensor:
    """`log(exp(x) + exp(y))` as floats, without overflow.

    Raises:
        ShapeError: They don't broadcast.
    """
    left, right = (as_float(part) for part in common("logaddexp", x, y))
    distance = where(equal(left, right), 0.0, subtract(left, right))  # of two infinities as well
    return add(maximum(left, right), log1p(exp(subtract(0.0, abs(distance)))))


def hypot(x: Any, y: Any) -> Tensor:
    """`sqrt(x * x + y * y)` as floats, without overflow; infinite where one is, even beside NaN. Its derivative at the
    origin is 0.

    Raises:
        ShapeError: They don't broadcast.
    """
    left, right = (as_float(part) for part in common("hypot", x, y))
    largest = stop_gradient(maximum(abs(left), abs(right)))
    scale = where(less(0.0, largest), where(isfinite(largest), largest, 1.0), 1.0)
    first, second = left / scale, right / scale
    squares = add(multiply(first, first), multiply(second, second))
    origin = equal(squares, 0.0)
    length = where(origin, squares, sqrt(where(origin, 1.0, squares))) * scale
    return where(logical_or(isinf(left), isinf(right)), math.inf, length)


def signbit(x: Any) -> Tensor:
    """Returns whether an element's sign is negative, that of a zero or NaN included; unsigned ones have none."""
    tensor = as_tensor(x)
    if tensor.dtype.kind != "f":
        return less(tensor, 0) if tensor.dtype.kind == "i" else cast(multiply(cast(tensor, "u32"), 0), "bool")
    return less(bitcast(cast(stop_gradient(tensor), NAMES["f32"]), NAMES["i32"]), 0)


def nextafter(x: Any, y: Any) -> Tensor:
    """Returns the float next to `x` towards `y`, `y` where they are equal; without derivative.

    Raises:
        ShapeError: They don't broadcast.
        DTypeError: They have no common dtype.
    """
    start, end = (stop_gradient(as_float(part)) for part in common("nextafter", x, y))
    stepped = _NEXT[start.dtype](start, greater(end, start))
    unordered = logical_or(isnan(start), isnan(end))
    return where(unordered, add(start, end), where(equal(start, end), end, stepped))


def _next_single(x: Tensor, upwards: Tensor) -> Tensor:
    """The bits of floats of one sign are in the order of the floats."""
    bits = bitcast(x, NAMES["i32"])
    outwards = equal(upwards, less(0.0, x))
    stepped = bitcast(add(bits, where(outwards, 1, -1)), NAMES["f32"])
    smallest = float(np.finfo(np.float32).smallest_subnormal)
    return where(equal(bitwise_and(bits, 2**31 - 1), 0), where(upwards, smallest, -smallest), stepped)


def _next_half(x: Tensor, upwards: Tensor) -> Tensor:
    """In f32, where numbers of f16 are 2 ** 13 apart in their bits, and subnormal ones 2 ** -24 in value."""
    wide = cast(x, NAMES["f32"])
    outwards = equal(upwards, less(0.0, wide))
    bits = add(bitcast(wide, NAMES["i32"]), where(outwards, 2**13, -(2**13)))
    normal = bitcast(bits, NAMES["f32"])
    subnormal = add(wide, where(upwards, 2.0**-24, -(2.0**-24)))
    smallest = float(np.finfo(np.float16).smallest_normal)
    large = less(smallest, abs(wide)) | (equal(abs(wide), smallest) & outwards)
    infinite = where(outwards, wide, where(less(wide, 0.0), -65504.0, 65504.0))
    return cast(where(isinf(wide), infinite, where(large, normal, subnormal)), NAMES["f16"])


def _next_double(x: Tensor, upwards: Tensor) -> Tensor:
    """By arithmetic, since there are no integers of 64 bits.

    Adding a little over half of the distance to the next number rounds to that number (S. Rump, P. Zimmermann, S. Boldo
    and G. Melquiond, Computing predecessor and successor in rounding to nearest, 2009).
    """
    limits = np.finfo(np.float64)
    largest, smallest = (Array(np.asarray(limit)) for limit in (limits.max, limits.smallest_subnormal))
    small = less(abs(x), TINY_64)
    scaled = where(small, multiply(x, SCALE_64), x)
    step = multiply(abs(scaled), ROUNDING_64)
    stepped = add(scaled, where(upwards, step, negative(step)))
    normal = where(small, multiply(stepped, 1 / SCALE_64), stepped)
    subnormal = add(x, where(upwards, smallest, negative(smallest)))
    close = less(abs(x), float(limits.smallest_normal) * 2)
    infinite = where(less(x, 0.0), negative(largest), largest)
    inwards = not_equal(upwards, less(0.0, x))
    return where(isinf(x), where(inwards, infinite, x), where(close, subnormal, normal))


_NEXT = {NAMES["f16"]: _next_half, NAMES["f32"]: _next_single, NAMES["f64"]: _next_double}
