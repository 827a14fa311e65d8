"""Elementary functions, rounding, bits, and whole quotients: element by element, with the Array API's names.

Functions of floats take integers and booleans as f32. The docstrings of the ops (`dialects/tg/elementary.py`) state
error bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tensorgrad.dialects.tg import binary, elementary, integer, unary
from tensorgrad.dialects.tg.base import TensorOp
from tensorgrad.errors import DTypeError
from tensorgrad.ops.elementwise import (
    as_tensor,
    cast,
    common,
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
    not_equal,
    sqrt,
    stop_gradient,
    subtract,
    where,
)
from tensorgrad.tracing.dtypes import NAMES, SHORT, is_float
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tensor import Array, Tensor
from tensorgrad.tracing.tracer import emit


def as_float(x: Any) -> Tensor:
    """`x` as a tensor of floats; integers and booleans become f32."""
    tensor = as_tensor(x)
    return tensor if is_float(tensor.dtype) else cast(tensor, NAMES["f32"])


def _float(kind: type[TensorOp], x: Any) -> Tensor:
    return emit(kind, [as_float(x)])


def _whole(kind: type[TensorOp], x: Any) -> Tensor:
    """Rounding, which leaves integers and booleans as they are."""
    tensor = as_tensor(x)
    return emit(kind, [tensor]) if is_float(tensor.dtype) else tensor


def _same(what: str, kind: type[TensorOp], x: Any, y: Any, allowed: Callable[[str], bool], takes: str) -> Tensor:
    left, right = common(what, x, y)
    if not allowed(left.dtype.kind):
        raise DTypeError(f"{user_line()}: {what}: takes {takes}, not {SHORT[left.dtype]}; cast first")
    return emit(kind, [left, right])


# Exponentials and logarithms


def exp2(x: Any) -> Tensor:
    """`2` to the power of `x`, exact at integers."""
    return _float(elementary.Exp2Op, x)


def expm1(x: Any) -> Tensor:
    """`exp(x) - 1`, exact near 0 too."""
    return _float(elementary.Expm1Op, x)


def log2(x: Any) -> Tensor:
    """The logarithm to base 2, exact at powers of two; `-inf` at 0, NaN below."""
    return _float(elementary.Log2Op, x)


def log1p(x: Any) -> Tensor:
    """`log(1 + x)`, exact near 0 too; `-inf` at -1, NaN below."""
    return _float(elementary.Log1pOp, x)


def rsqrt(x: Any) -> Tensor:
    """`1 / sqrt(x)`: infinity at 0, NaN below."""
    return divide(1.0, sqrt(x))


def reciprocal(x: Any) -> Tensor:
    """`1 / x` as floats; infinite at 0."""
    return divide(1.0, as_float(x))


# Trigonometric and hyperbolic functions, and their inverses


def tan(x: Any) -> Tensor:
    """The tangent of `x` in radians."""
    return _float(elementary.TanOp, x)


def asin(x: Any) -> Tensor:
    """The inverse sine; NaN outside [-1, 1]."""
    return _float(elementary.AsinOp, x)


def acos(x: Any) -> Tensor:
    """The inverse cosine; NaN outside [-1, 1]."""
    return _float(elementary.AcosOp, x)


def atan(x: Any) -> Tensor:
    """The inverse tangent."""
    return _float(elementary.AtanOp, x)


def atan2(y: Any, x: Any) -> Tensor:
    """The angle of the point (`x`, `y`) in (-pi, pi], as C's; its derivative at the origin is 0."""
    left, right = common("atan2", y, x)
    return emit(elementary.Atan2Op, [as_float(left), as_float(right)])


def sinh(x: Any) -> Tensor:
    """The hyperbolic sine."""
    return _float(elementary.SinhOp, x)


def cosh(x: Any) -> Tensor:
    """The hyperbolic cosine."""
    return _float(elementary.CoshOp, x)


def asinh(x: Any) -> Tensor:
    """The inverse hyperbolic sine."""
    return _float(elementary.AsinhOp, x)


def acosh(x: Any) -> Tensor:
    """The inverse hyperbolic cosine; NaN below 1."""
    return _float(elementary.AcoshOp, x)


def atanh(x: Any) -> Tensor:
    """The inverse hyperbolic tangent; infinite at -1 and 1, NaN beyond."""
    return _float(elementary.AtanhOp, x)


def erf(x: Any) -> Tensor:
    """The error function."""
    return _float(elementary.ErfOp, x)


def erfc(x: Any) -> Tensor:
    """`1 - erf(x)`, accurate in its tail too."""
    return _float(elementary.ErfcOp, x)


# Rounding, signs, and tests


def floor(x: Any) -> Tensor:
    """The largest integer that is not above `x`, in `x`'s dtype; without derivative."""
    return _whole(elementary.FloorOp, x)


def ceil(x: Any) -> Tensor:
    """The smallest integer that is not below `x`, in `x`'s dtype; without derivative."""
    return _whole(elementary.CeilOp, x)


def round(x: Any) -> Tensor:
    """The nearest integer, halves to the even one, in `x`'s dtype; without derivative."""
    return _whole(elementary.RoundOp, x)


def trunc(x: Any) -> Tensor:
    """The integer next to `x` towards 0, in `x`'s dtype; without derivative."""
    return _whole(elementary.TruncOp, x)


def sign(x: Any) -> Tensor:
    """-1, 0 or 1 in `x`'s dtype, NaN for NaN; without derivative.

    Raises:
        DTypeError: `x` is boolean.
    """
    tensor = stop_gradient(as_tensor(x))
    if tensor.dtype == NAMES["bool"]:
        raise DTypeError(f"{user_line()}: sign: takes numbers, not bool; cast first")
    rest = where(equal(tensor, 0), 0, tensor) if is_float(tensor.dtype) else 0
    below = rest if tensor.dtype == NAMES["u32"] else where(less(tensor, 0), -1, rest)
    return where(greater(tensor, 0), Array(np.ones((), tensor.dtype)), below)


def isnan(x: Any) -> Tensor:
    """Whether an element is NaN; no integer is."""
    tensor = as_tensor(x)
    return not_equal(tensor, tensor)


def isfinite(x: Any) -> Tensor:
    """Whether an element is neither infinite nor NaN; every integer is finite."""
    tensor = as_tensor(x)
    return emit(elementary.IsFiniteOp, [tensor]) if is_float(tensor.dtype) else equal(tensor, tensor)


def isinf(x: Any) -> Tensor:
    """Whether an element is infinite; no integer is."""
    tensor = as_tensor(x)
    if not is_float(tensor.dtype):
        return not_equal(tensor, tensor)
    return logical_not(emit(binary.OrOp, [isfinite(tensor), isnan(tensor)]))


# Ranges


def clip(x: Any, min: Any = None, max: Any = None) -> Tensor:
    """`x` held between `min` and `max`, each of which may be absent, a number or a tensor; NaN stays NaN.

    Where `min` is above `max`, it is `max`. The derivative is as PyTorch's: that of `x` between the bounds and at them,
    else that of the bound that holds it; none where the result is NaN.
    """
    tensor = held = as_tensor(x)
    if min is not None:
        held = maximum(held, min)
    if max is not None:
        held = minimum(held, max)
    if held is tensor or not is_float(held.dtype):
        return held
    return _with_slopes_of_clip(tensor, min, max, stop_gradient(held))


def _with_slopes_of_clip(x: Tensor, low: Any, high: Any, held: Tensor) -> Tensor:
    """`held`, with the derivatives of what it is equal to."""
    result = held
    if isinstance(high, Tensor):
        above = greater(x, high) if low is None else logical_and(greater(x, high), equal(low, low))
        crossed = above if low is None else logical_or(above, logical_and(greater(low, high), equal(x, x)))
        result = where(crossed, high, result)
    if isinstance(low, Tensor):
        below = less(x, low) if high is None else logical_and(less(x, low), less_equal(low, high))
        result = where(below, low, result)
    bounds = [greater_equal(x, low)] if low is not None else []
    bounds += [less_equal(x, high)] if high is not None else []
    return where(bounds[0] if len(bounds) == 1 else logical_and(*bounds), x, result)


def clamp(x: Any, min: Any = None, max: Any = None) -> Tensor:
    """`x` between `min` and `max`, as `clip` does; this is PyTorch's name."""
    return clip(x, min, max)


def lerp(x: Any, y: Any, weight: Any) -> Tensor:
    """`x + weight * (y - x)` as floats, computed from the nearer end, so that weight 1 gives exactly `y`."""
    start, end, share = (as_float(part) for part in common("lerp", x, y, weight))
    step = subtract(end, start)
    near = start + multiply(share, step)
    return where(less(share, 0.5), near, end - multiply(subtract(1.0, share), step))


# Whole quotients


def floor_divide(x: Any, y: Any) -> Tensor:
    """`x // y` as Python's, rounded down; integers by 0 give 0. Without derivative.

    Raises:
        DTypeError: The operands are boolean, or have no common dtype.
        ShapeError: They don't broadcast.
    """
    return _same("floor_divide", integer.FloorDivideOp, x, y, lambda kind: kind in "fiu", "numbers")


def remainder(x: Any, y: Any) -> Tensor:
    """`x % y` as Python's, with the sign of `y`; integers by 0 give 0, floats NaN.

    Raises:
        DTypeError: The operands are boolean, or have no common dtype.
        ShapeError: They don't broadcast.
    """
    return _same("remainder", integer.RemainderOp, x, y, lambda kind: kind in "fiu", "numbers")


# Bits


def _bits(what: str, kind: type[TensorOp], x: Any, y: Any) -> Tensor:
    return _same(what, kind, x, y, lambda kind: kind in "iub", "integers or bool")


def bitwise_and(x: Any, y: Any) -> Tensor:
    """Bitwise and of integers, logical and of booleans.

    Raises:
        DTypeError: The operands are floats, or have no common dtype.
    """
    return _bits("bitwise_and", binary.AndOp, x, y)


def bitwise_or(x: Any, y: Any) -> Tensor:
    """Bitwise or of integers, logical or of booleans.

    Raises:
        DTypeError: The operands are floats, or have no common dtype.
    """
    return _bits("bitwise_or", binary.OrOp, x, y)


def bitwise_xor(x: Any, y: Any) -> Tensor:
    """Bitwise exclusive or of integers, logical of booleans.

    Raises:
        DTypeError: The operands are floats, or have no common dtype.
    """
    return _bits("bitwise_xor", integer.XorOp, x, y)


def bitwise_invert(x: Any) -> Tensor:
    """Every bit of integers the other way; the negation of booleans.

    Raises:
        DTypeError: `x` is of floats.
    """
    tensor = as_tensor(x)
    if is_float(tensor.dtype):
        raise DTypeError(
            f"{user_line()}: bitwise_invert: takes integers or bool, not {SHORT[tensor.dtype]}; cast first"
        )
    return emit(unary.NotOp, [tensor])


def bitwise_left_shift(x: Any, y: Any) -> Tensor:
    """`x << y` on integers; an amount below 0 or above 31 gives 0.

    Raises:
        DTypeError: The operands are no integers, or of different kinds.
    """
    return _same("bitwise_left_shift", integer.ShiftLeftOp, x, y, lambda kind: kind in "iu", "integers")


def bitwise_right_shift(x: Any, y: Any) -> Tensor:
    """`x >> y` on integers, which keeps the sign; an amount below 0 or above 31 gives 0, or -1 for a negative `x`.

    Raises:
        DTypeError: The operands are no integers, or of different kinds.
    """
    return _same("bitwise_right_shift", integer.ShiftRightOp, x, y, lambda kind: kind in "iu", "integers")


def logical_xor(x: Any, y: Any) -> Tensor:
    """Whether exactly one of two elements is true; a number is true where it is not 0, so NaN is."""
    return not_equal(cast(x, "bool"), cast(y, "bool"))
