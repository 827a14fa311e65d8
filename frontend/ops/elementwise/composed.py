"""Elementwise functions that are compositions of others, and need no op of their own."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from ml_dtypes import finfo

from tensorgrad.dialects.tg.elementwise import functions
from tensorgrad.errors import OptionError
from tensorgrad.ops.elementwise.arithmetic import (
    abs,
    add,
    clip,
    divide,
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    multiply,
    negative,
    not_equal,
    remainder,
    stop_gradient,
    subtract,
    where,
)
from tensorgrad.ops.elementwise.functions import isfinite, isinf, isnan, log, log1p, sin, sqrt
from tensorgrad.ops.promotion import as_float, as_tensor, bitcast, cast, check_numbers, common, in_full
from tensorgrad.ops.recorded import recorded_whole
from tensorgrad.tracing.dtypes import NAMES, is_float
from tensorgrad.tracing.likes import TensorLike
from tensorgrad.tracing.tensor import Array, Tensor
from tensorgrad.tracing.tracer import emit


def log10(x: TensorLike) -> Tensor:
    """Returns the logarithm to base 10: `-inf` at 0, NaN below.

    Example:
        >>> tg.log10([100.0, 0.1])
        Array([ 2., -1.], dtype=f32)
    """
    return multiply(log(as_float(x)), 1 / math.log(10))


@recorded_whole
def logaddexp(x: TensorLike, y: TensorLike) -> Tensor:
    """`log(exp(x) + exp(y))` as floats, without overflow.

    Raises:
        ShapeError: They don't broadcast.

    Example:
        >>> tg.logaddexp(1000.0, [1000.0, 0.0])
        Array([1000.6932, 1000.    ], dtype=f32)
    """
    left, right = (as_float(part) for part in common("logaddexp", x, y))
    # Either order of the operands is the same smooth function, so derivatives of any order are right at ties.
    ordered = greater_equal(left, right)
    larger, smaller = where(ordered, left, right), where(ordered, right, left)
    infinite = logical_and(equal(left, right), isinf(left))
    distance = where(infinite, 0.0, subtract(smaller, larger))
    return add(larger, emit(functions.SoftplusOp, [distance]))


@recorded_whole
def hypot(x: TensorLike, y: TensorLike) -> Tensor:
    """`sqrt(x * x + y * y)` as floats, without overflow; infinite if either is, even if the other is NaN.

    Its derivatives at the origin are 0.

    Raises:
        ShapeError: They don't broadcast.

    Example:
        >>> tg.hypot([3.0, 5.0], [4.0, 12.0])
        Array([ 5., 13.], dtype=f32)
    """
    return _hypot(*(as_float(part) for part in common("hypot", x, y)))


@in_full
def _hypot(left: Tensor, right: Tensor) -> Tensor:
    largest = stop_gradient(maximum(abs(left), abs(right)))
    scale = where(less(0.0, largest), where(isfinite(largest), largest, 1.0), 1.0)
    first, second = left / scale, right / scale
    squares = add(multiply(first, first), multiply(second, second))
    origin = equal(squares, 0.0)
    length = where(origin, 0.0, sqrt(where(origin, 1.0, squares))) * scale
    return where(logical_or(isinf(left), isinf(right)), math.inf, length)


@recorded_whole
def xlogy(x: TensorLike, y: TensorLike) -> Tensor:
    """`x * log(y)` as floats, and 0 where `x` is 0 and `y` is not NaN, as in entropies.

    Its derivative where `x` is 0 is `log(y)` with respect to `x`, 0 if that is not finite, and 0 with respect to `y`.

    Raises:
        ShapeError: They don't broadcast.

    Example:
        >>> tg.xlogy([0.0, 2.0], [0.0, np.e])
        Array([0., 2.], dtype=f32)
    """
    factor, argument = (as_float(part) for part in common("xlogy", x, y))
    ordinary = logical_and(greater(argument, 0.0), less(argument, math.inf))
    dropped = logical_and(equal(factor, 0.0), logical_not(logical_or(ordinary, isnan(argument))))
    return multiply(factor, log(where(dropped, 1.0, argument)))


@recorded_whole
def logit(x: TensorLike, eps: float | None = None) -> Tensor:
    """Returns `log(x / (1 - x))`, the inverse of `sigmoid`: infinite at 0 and 1, NaN outside.

    Args:
        x: Probabilities; integers and booleans are converted to f32.
        eps: If given, `x` is first clamped to `[eps, 1 - eps]`.

    Raises:
        OptionError: `eps` is not between 0 and 0.5.

    Example:
        >>> tg.logit([0.5, 0.9])
        Array([0.       , 2.1972244], dtype=f32)
    """
    tensor = as_float(x)
    if eps is not None:
        if not 0 <= eps <= 0.5:
            raise OptionError(f"logit: eps must be between 0 and 0.5, got {eps!r}")
        tensor = clip(tensor, eps, 1 - eps)
    return subtract(log(tensor), log1p(negative(tensor)))


@recorded_whole
def sinc(x: TensorLike) -> Tensor:
    """Returns `sin(pi * x) / (pi * x)`, 1 at 0, where its derivative is 0.

    Up to `|x| = 1 / 2` it is the Taylor series, whose derivatives don't cancel as those of the quotient do.

    Example:
        >>> tg.sinc([0.0, 0.5])
        Array([1.        , 0.63661975], dtype=f32)
    """
    return _sinc(as_float(x))


@in_full
def _sinc(x: Tensor) -> Tensor:
    angle = multiply(x, math.pi)
    square = multiply(angle, angle)
    near = less_equal(square, (math.pi / 2) ** 2)
    held = where(near, square, 0.0)
    terms = 14 if angle.dtype == NAMES["f64"] else 9  # a few more than the value needs, for its derivatives
    *rest, last = [(-1) ** term / math.factorial(2 * term + 1) for term in range(terms)]
    series = multiply(held, last)
    for coefficient in reversed(rest[1:]):
        series = multiply(add(series, coefficient), held)
    series = add(series, rest[0])
    far = where(near, 1.0, angle)
    return where(near, series, divide(sin(far), far))


def deg2rad(x: TensorLike) -> Tensor:
    """Converts angles from degrees to radians, as floats.

    Example:
        >>> tg.deg2rad([180.0, 90.0])
        Array([3.1415927, 1.5707964], dtype=f32)
    """
    return multiply(as_float(x), math.pi / 180)


def rad2deg(x: TensorLike) -> Tensor:
    """Converts angles from radians to degrees, as floats.

    Example:
        >>> tg.rad2deg([np.pi, 1.0])
        Array([180.     ,  57.29578], dtype=f32)
    """
    return multiply(as_float(x), 180 / math.pi)


def fmod(x: TensorLike, y: TensorLike) -> Tensor:
    """Returns the remainder of a division rounded towards zero: it has the sign of `x`, as C's `fmod`.

    Floats divided by 0 give NaN, integers 0. For the remainder with the sign of `y` see `remainder`.

    Raises:
        DTypeError: The operands are boolean, or have no common dtype.
        ShapeError: They don't broadcast.

    Example:
        >>> tg.fmod([7.0, -7.0], 3.0)
        Array([ 1., -1.], dtype=f32)
    """
    left, right = common("fmod", x, y)
    check_numbers("fmod", left.dtype)
    if left.dtype.kind == "u":
        return remainder(left, right)
    if not is_float(left.dtype):
        rest = remainder(left, right)  # has the sign of `y`; the least integer has no magnitude to divide
        is_other = logical_and(not_equal(rest, 0), not_equal(less(rest, 0), less(left, 0)))
        return where(is_other, rest - right, rest)
    is_negative = signbit(left)
    size = where(is_negative, negative(left), left)  # unlike that of `abs`, its derivative at 0 is not 0
    magnitude = remainder(size, abs(right))
    unchanged = logical_and(isinf(right), isfinite(left))
    return where(unchanged, left, where(is_negative, negative(magnitude), magnitude))


@recorded_whole
def fmax(x: TensorLike, y: TensorLike) -> Tensor:
    """Returns the larger of two elements, or the other one if one is NaN; see `maximum`.

    Example:
        >>> tg.fmax([1.0, np.nan], [0.5, 2.0])
        Array([1., 2.], dtype=f32)
    """
    left, right = common("fmax", x, y)
    return _ignoring_nan(left, right, maximum)


@recorded_whole
def fmin(x: TensorLike, y: TensorLike) -> Tensor:
    """Returns the smaller of two elements, or the other one if one is NaN; see `minimum`.

    Example:
        >>> tg.fmin([1.0, np.nan], [0.5, 2.0])
        Array([0.5, 2. ], dtype=f32)
    """
    left, right = common("fmin", x, y)
    return _ignoring_nan(left, right, minimum)


def _ignoring_nan(x: Tensor, y: Tensor, choose: Callable[[Any, Any], Tensor]) -> Tensor:
    if not is_float(x.dtype):
        return choose(x, y)
    return where(isnan(x), y, where(isnan(y), x, choose(where(isnan(x), 0, x), where(isnan(y), 0, y))))


@recorded_whole
def heaviside(x: TensorLike, values: TensorLike) -> Tensor:
    """Returns 0 where `x` is negative, 1 where it is positive, `values` where it is 0, NaN where it is NaN.

    Without derivative with respect to `x`.

    Raises:
        ShapeError: They don't broadcast.
        DTypeError: They have no common dtype.

    Example:
        >>> tg.heaviside([-1.0, 0.0, 2.0], 0.5)
        Array([0. , 0.5, 1. ], dtype=f32)
    """
    tensor, middle = common("heaviside", x, values)
    check_numbers("heaviside", tensor.dtype)
    step = cast(greater(stop_gradient(tensor), 0), tensor.dtype)
    result = where(equal(tensor, 0), middle, step)
    return where(isnan(tensor), math.nan, result) if is_float(tensor.dtype) else result


@recorded_whole
def nan_to_num(x: TensorLike, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """Replaces NaN and infinities by numbers; the derivative there is 0.

    Args:
        x: A tensor; integers and booleans are returned as they are.
        nan: Replaces NaN.
        posinf: Replaces infinity; by default the largest number of the dtype.
        neginf: Replaces negative infinity; by default the lowest number of the dtype.

    Example:
        >>> tg.nan_to_num([np.nan, np.inf, 1.0], posinf=9.0)
        Array([0., 9., 1.], dtype=f32)
    """
    tensor = as_tensor(x)
    if not is_float(tensor.dtype):
        return tensor.clone()
    limits = finfo(tensor.dtype)
    numbers = (nan, limits.max if posinf is None else posinf, limits.min if neginf is None else neginf)
    undefined, highest, lowest = (Array(np.asarray(number, tensor.dtype)) for number in numbers)
    infinite = where(greater(tensor, 0), highest, lowest)
    return where(isfinite(tensor), tensor, where(isnan(tensor), undefined, infinite))


@recorded_whole
def isclose(x: TensorLike, y: TensorLike, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Returns whether `|x - y| <= atol + rtol * |y|`, elementwise; equal infinities are close.

    Args:
        x: A tensor.
        y: The reference, to which `rtol` is relative.
        rtol: The relative tolerance.
        atol: The absolute tolerance.
        equal_nan: Whether NaN is close to NaN.

    Raises:
        ShapeError: They don't broadcast.
        DTypeError: They have no common dtype.
        OptionError: A tolerance is negative.

    Example:
        >>> tg.isclose([1.0, 1.1], [1.000001, 1.0])
        Array([ True, False], dtype=bool)
    """
    if not (rtol >= 0 and atol >= 0):
        raise OptionError(f"isclose: tolerances must not be negative, got rtol={rtol!r}, atol={atol!r}")
    left, right = (as_float(stop_gradient(part)) for part in common("isclose", x, y))
    near = less_equal(abs(subtract(left, right)), add(multiply(abs(right), rtol), atol))
    close = logical_or(equal(left, right), logical_and(isfinite(right), near))
    return logical_or(close, logical_and(isnan(left), isnan(right))) if equal_nan else close


def signbit(x: TensorLike) -> Tensor:
    """Returns whether an element's sign bit is set, also for zeros and NaN; unsigned elements have none.

    Example:
        >>> tg.signbit([-0.0, 0.0, -2.0])
        Array([ True, False,  True], dtype=bool)
    """
    tensor = as_tensor(x)
    if not is_float(tensor.dtype):
        return less(tensor, 0) if tensor.dtype.kind == "i" else not_equal(tensor, tensor)
    return less(bitcast(cast(stop_gradient(tensor), NAMES["f32"]), NAMES["i32"]), 0)


@recorded_whole
def nextafter(x: TensorLike, y: TensorLike) -> Tensor:
    """Returns the next float after `x` towards `y`, or `y` if they are equal; without derivative.

    Raises:
        ShapeError: They don't broadcast.
        DTypeError: They have no common dtype.

    Example:
        >>> tg.nextafter(1.0, 2.0) - 1.0
        Array(1.1920929e-07, dtype=f32)
    """
    start, end = (stop_gradient(as_float(part)) for part in common("nextafter", x, y))
    stepped = _stepped(start, greater(end, start))
    unordered = logical_or(isnan(start), isnan(end))
    return where(unordered, add(start, end), where(equal(start, end), end, stepped))


def _stepped(x: Tensor, upwards: Tensor) -> Tensor:
    """Returns the next float: within one sign, the bits of floats are integers in the order of the floats."""
    bits = bitcast(x, NAMES[f"i{8 * x.dtype.itemsize}"])
    step = Array(np.ones((), bits.dtype))
    outwards = equal(upwards, less(0.0, x))
    following = bitcast(add(bits, where(outwards, step, negative(step))), x.dtype)
    smallest = Array(np.asarray(finfo(x.dtype).smallest_subnormal))
    return where(equal(x, 0.0), where(upwards, smallest, negative(smallest)), following)
