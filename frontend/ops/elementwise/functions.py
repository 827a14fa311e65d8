"""Elementary functions, rounding and tests for finite numbers: elementwise, with the Array API's names.

Functions of floats convert integers and booleans to f32. The docstrings of the ops, in the module of the same name of
`dialects/tg`, state error bounds.
"""

from __future__ import annotations

from typing import Any

from tensorgrad.dialects.tg.base import TensorOp, integer
from tensorgrad.dialects.tg.elementwise import arithmetic, functions, gamma
from tensorgrad.ops.elementwise.arithmetic import divide, equal, logical_not, not_equal
from tensorgrad.ops.promotion import as_float, as_tensor, common
from tensorgrad.ops.recorded import recorded_whole
from tensorgrad.tracing.checks import checked_integer
from tensorgrad.tracing.dtypes import is_float
from tensorgrad.tracing.likes import TensorLike
from tensorgrad.tracing.tensor import Tensor
from tensorgrad.tracing.tracer import emit


def _float(kind: type[TensorOp], x: Any) -> Tensor:
    return emit(kind, [as_float(x)])


def _whole(kind: type[TensorOp], x: Any) -> Tensor:
    """Applies a rounding op; integers and booleans are returned unchanged."""
    tensor = as_tensor(x)
    return emit(kind, [tensor]) if is_float(tensor.dtype) else tensor


@recorded_whole
def exp(x: TensorLike) -> Tensor:
    """`e` to the power of `x`; 0 or infinity beyond the range.

    Example:
        >>> tg.exp([0.0, 1.0])
        Array([1.      , 2.718282], dtype=f32)
    """
    return _float(functions.ExpOp, x)


@recorded_whole
def log(x: TensorLike) -> Tensor:
    """Returns the natural logarithm; `-inf` at 0, NaN below.

    Example:
        >>> tg.log([1.0, np.e, 0.0])
        Array([  0.,   1., -inf], dtype=f32)
    """
    return _float(functions.LogOp, x)


@recorded_whole
def sqrt(x: TensorLike) -> Tensor:
    """Returns the square root; NaN below 0.

    Example:
        >>> tg.sqrt([4.0, 2.0])
        Array([2.       , 1.4142135], dtype=f32)
    """
    return _float(functions.SqrtOp, x)


@recorded_whole
def sin(x: TensorLike) -> Tensor:
    """Returns the sine of `x` in radians.

    Example:
        >>> tg.sin([0.0, np.pi / 2])
        Array([0., 1.], dtype=f32)
    """
    return _float(functions.SinOp, x)


@recorded_whole
def cos(x: TensorLike) -> Tensor:
    """Returns the cosine of `x` in radians.

    Example:
        >>> tg.cos([0.0, np.pi])
        Array([ 1., -1.], dtype=f32)
    """
    return _float(functions.CosOp, x)


@recorded_whole
def tanh(x: TensorLike) -> Tensor:
    """Returns the hyperbolic tangent.

    Example:
        >>> tg.tanh([0.0, 1.0])
        Array([0.       , 0.7615942], dtype=f32)
    """
    return _float(functions.TanhOp, x)


@recorded_whole
def relu(x: TensorLike) -> Tensor:
    """`x` where it is positive, else 0; its derivative at 0 is 0.

    Example:
        >>> tg.relu([-1.0, 2.0])
        Array([0., 2.], dtype=f32)
    """
    return emit(functions.ReluOp, [as_tensor(x)])


@recorded_whole
def sigmoid(x: TensorLike) -> Tensor:
    """`1 / (1 + exp(-x))`, without overflow for either sign.

    Example:
        >>> tg.sigmoid([0.0, 2.0])
        Array([0.5     , 0.880797], dtype=f32)
    """
    return _float(functions.SigmoidOp, x)


def exp2(x: TensorLike) -> Tensor:
    """`2` to the power of `x`, exact at integers.

    Example:
        >>> tg.exp2([3, -1])
        Array([8. , 0.5], dtype=f32)
    """
    return _float(functions.Exp2Op, x)


def expm1(x: TensorLike) -> Tensor:
    """`exp(x) - 1`, exact near 0 too.

    Example:
        >>> tg.expm1([0.0, 1e-6])
        Array([0.0000000e+00, 1.0000005e-06], dtype=f32)
    """
    return _float(functions.Expm1Op, x)


def log2(x: TensorLike) -> Tensor:
    """Returns the logarithm to base 2, exact at powers of two; `-inf` at 0, NaN below.

    Example:
        >>> tg.log2([8.0, 0.5])
        Array([ 3., -1.], dtype=f32)
    """
    return _float(functions.Log2Op, x)


def log1p(x: TensorLike) -> Tensor:
    """`log(1 + x)`, exact near 0 too; `-inf` at -1, NaN below.

    Example:
        >>> tg.log1p([0.0, 1e-6])
        Array([0.000000e+00, 9.999995e-07], dtype=f32)
    """
    return _float(functions.Log1pOp, x)


@recorded_whole
def rsqrt(x: TensorLike) -> Tensor:
    """`1 / sqrt(x)`: infinity at 0, NaN below.

    Example:
        >>> tg.rsqrt([4.0, 16.0])
        Array([0.5 , 0.25], dtype=f32)
    """
    return divide(1.0, sqrt(x))


@recorded_whole
def reciprocal(x: TensorLike) -> Tensor:
    """`1 / x` as floats; infinite at 0.

    Example:
        >>> tg.reciprocal([2, 4])
        Array([0.5 , 0.25], dtype=f32)
    """
    return divide(1.0, as_float(x))


def tan(x: TensorLike) -> Tensor:
    """Returns the tangent of `x` in radians.

    Example:
        >>> tg.tan([0.0, 1.0])
        Array([0.       , 1.5574077], dtype=f32)
    """
    return _float(functions.TanOp, x)


def asin(x: TensorLike) -> Tensor:
    """Returns the inverse sine; NaN outside [-1, 1].

    Example:
        >>> tg.asin([0.0, 1.0])
        Array([0.       , 1.5707964], dtype=f32)
    """
    return _float(functions.AsinOp, x)


def acos(x: TensorLike) -> Tensor:
    """Returns the inverse cosine; NaN outside [-1, 1].

    Example:
        >>> tg.acos([1.0, 0.0])
        Array([0.       , 1.5707964], dtype=f32)
    """
    return _float(functions.AcosOp, x)


def atan(x: TensorLike) -> Tensor:
    """Returns the inverse tangent.

    Example:
        >>> tg.atan([0.0, 1.0])
        Array([0.       , 0.7853982], dtype=f32)
    """
    return _float(functions.AtanOp, x)


def atan2(y: TensorLike, x: TensorLike) -> Tensor:
    """Returns the angle of the point (`x`, `y`) in (-pi, pi], as C's; its derivative at the origin is 0.

    Example:
        >>> tg.atan2([1.0, -1.0], [0.0, -1.0])
        Array([ 1.5707964, -2.3561945], dtype=f32)
    """
    left, right = common("atan2", y, x)
    return emit(functions.Atan2Op, [as_float(left), as_float(right)])


def sinh(x: TensorLike) -> Tensor:
    """Returns the hyperbolic sine.

    Example:
        >>> tg.sinh([0.0, 1.0])
        Array([0.       , 1.1752012], dtype=f32)
    """
    return _float(functions.SinhOp, x)


def cosh(x: TensorLike) -> Tensor:
    """Returns the hyperbolic cosine.

    Example:
        >>> tg.cosh([0.0, 1.0])
        Array([1.       , 1.5430806], dtype=f32)
    """
    return _float(functions.CoshOp, x)


def asinh(x: TensorLike) -> Tensor:
    """Returns the inverse hyperbolic sine.

    Example:
        >>> tg.asinh([0.0, 1.0])
        Array([0.       , 0.8813736], dtype=f32)
    """
    return _float(functions.AsinhOp, x)


def acosh(x: TensorLike) -> Tensor:
    """Returns the inverse hyperbolic cosine; NaN below 1.

    Example:
        >>> tg.acosh([1.0, 2.0])
        Array([0.      , 1.316958], dtype=f32)
    """
    return _float(functions.AcoshOp, x)


def atanh(x: TensorLike) -> Tensor:
    """Returns the inverse hyperbolic tangent; infinite at -1 and 1, NaN beyond.

    Example:
        >>> tg.atanh([0.0, 0.5])
        Array([0.        , 0.54930615], dtype=f32)
    """
    return _float(functions.AtanhOp, x)


def erf(x: TensorLike) -> Tensor:
    """Returns the error function.

    Example:
        >>> tg.erf([0.0, 1.0])
        Array([0.       , 0.8427008], dtype=f32)
    """
    return _float(functions.ErfOp, x)


def erfc(x: TensorLike) -> Tensor:
    """`1 - erf(x)`, accurate in its tail too.

    Example:
        >>> tg.erfc([0.0, 1.0])
        Array([1.       , 0.1572992], dtype=f32)
    """
    return _float(functions.ErfcOp, x)


def lgamma(x: TensorLike) -> Tensor:
    """Returns the logarithm of the gamma function's magnitude: `log((x - 1)!)` for positive integers.

    It is infinite at 0 and negative integers. Its derivative is `digamma`.

    Example:
        >>> tg.lgamma([0.5, 1.0, 5.0, -0.5])
        Array([0.5723649, 0.       , 3.178054 , 1.2655121], dtype=f32)
    """
    return _float(gamma.LgammaOp, x)


def digamma(x: TensorLike) -> Tensor:
    """Returns the derivative of `lgamma`: infinite at 0, with the opposite of its sign, NaN at negative integers.

    Example:
        >>> tg.digamma([1.0, 0.5, -0.5])
        Array([-0.5772157 , -1.9635099 ,  0.03648998], dtype=f32)
    """
    return emit(gamma.PolygammaOp, [as_float(x)], order=integer(0))


@recorded_whole
def polygamma(n: int, x: TensorLike) -> Tensor:
    """Returns the derivative of order `n` of `digamma`, for any real `x`.

    At 0 and negative integers it is infinite for odd `n`. For even ones it is NaN at negative integers, where the
    limits from both sides differ.

    Args:
        n: The order, from 0 to 100; 0 is `digamma` itself.
        x: A tensor of any shape.

    Raises:
        OptionError: `n` is not such an integer.

    Example:
        >>> tg.polygamma(1, [1.0, 0.5, -0.5])
        Array([1.644934 , 4.934802 , 8.934802 ], dtype=f32)
    """
    order = checked_integer(n, "polygamma: n", 0, gamma.MOST_ORDER)
    return emit(gamma.PolygammaOp, [as_float(x)], order=integer(order))


def floor(x: TensorLike) -> Tensor:
    """Returns the largest integer not above `x`, in `x`'s dtype; without derivative.

    Example:
        >>> tg.floor([-1.5, 1.2])
        Array([-2.,  1.], dtype=f32)
    """
    return _whole(functions.FloorOp, x)


def ceil(x: TensorLike) -> Tensor:
    """Returns the smallest integer not below `x`, in `x`'s dtype; without derivative.

    Example:
        >>> tg.ceil([-1.5, 1.2])
        Array([-1.,  2.], dtype=f32)
    """
    return _whole(functions.CeilOp, x)


def round(x: TensorLike) -> Tensor:
    """Returns the nearest integer, ties to even, in `x`'s dtype; without derivative.

    Example:
        >>> tg.round([0.5, 1.5, 2.4])
        Array([0., 2., 2.], dtype=f32)
    """
    return _whole(functions.RoundOp, x)


def trunc(x: TensorLike) -> Tensor:
    """Returns `x` rounded towards 0, in `x`'s dtype; without derivative.

    Example:
        >>> tg.trunc([-1.5, 1.2])
        Array([-1.,  1.], dtype=f32)
    """
    return _whole(functions.TruncOp, x)


def isnan(x: TensorLike) -> Tensor:
    """Returns whether an element is NaN; integers never are.

    Example:
        >>> tg.isnan([1.0, np.inf, np.nan])
        Array([False, False,  True], dtype=bool)
    """
    tensor = as_tensor(x)
    return not_equal(tensor, tensor)


def isfinite(x: TensorLike) -> Tensor:
    """Returns whether an element is neither infinite nor NaN; every integer is finite.

    Example:
        >>> tg.isfinite([1.0, np.inf, np.nan])
        Array([ True, False, False], dtype=bool)
    """
    tensor = as_tensor(x)
    return emit(functions.IsFiniteOp, [tensor]) if is_float(tensor.dtype) else equal(tensor, tensor)


def isinf(x: TensorLike) -> Tensor:
    """Returns whether an element is infinite; integers never are.

    Example:
        >>> tg.isinf([1.0, np.inf, np.nan])
        Array([False,  True, False], dtype=bool)
    """
    tensor = as_tensor(x)
    if not is_float(tensor.dtype):
        return not_equal(tensor, tensor)
    return logical_not(emit(arithmetic.OrOp, [isfinite(tensor), isnan(tensor)]))
