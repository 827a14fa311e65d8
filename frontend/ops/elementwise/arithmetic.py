"""Arithmetic, comparison, selection and bits, with NumPy's broadcasting and the Array API's names."""

from __future__ import annotations

from typing import Any, TypeVar, overload

import numpy as np
from xdsl.dialects.builtin import StringAttr

from tensorgrad.dialects.tg.base import NumpyArray, TensorOp
from tensorgrad.dialects.tg.elementwise import arithmetic
from tensorgrad.errors import DTypeError
from tensorgrad.ops.promotion import (
    as_float,
    as_tensor,
    bitcast,
    broadcast_shapes,
    broadcast_to,
    cast,
    check_numbers,
    common,
    in_dtype,
    in_full,
)
from tensorgrad.ops.recorded import recorded_operator, recorded_whole
from tensorgrad.runtime.conversion import kind_of
from tensorgrad.tracing import trees
from tensorgrad.tracing.dtypes import NAMES, SHORT, is_float
from tensorgrad.tracing.likes import TensorLike
from tensorgrad.tracing.tensor import Array, Tensor
from tensorgrad.tracing.tracer import emit

Tree = TypeVar("Tree")


def _binary(what: str, kind: type[TensorOp], x: Any, y: Any) -> Tensor:
    left, right = common(what, x, y)
    check_numbers(what, left.dtype)
    return emit(kind, [left, right])


def _compare(what: str, predicate: str, x: Any, y: Any) -> Tensor:
    operands = common(what, x, y)
    if operands[0].dtype == NAMES["bool"] and predicate not in ("eq", "ne"):
        operands = [cast(operand, NAMES["i32"]) for operand in operands]
    return emit(arithmetic.CompareOp, operands, predicate=StringAttr(predicate))


@recorded_operator
def add(x: TensorLike, y: TensorLike) -> Tensor:
    """`x + y`.

    Example:
        >>> tg.add([[1.0], [2.0]], [10.0, 20.0])
        Array([[11., 21.],
         [12., 22.]], dtype=f32)
    """
    return _binary("add", arithmetic.AddOp, x, y)


@recorded_operator
def subtract(x: TensorLike, y: TensorLike) -> Tensor:
    """`x - y`.

    Example:
        >>> tg.subtract([[1.0], [2.0]], [10.0, 20.0])
        Array([[ -9., -19.],
         [ -8., -18.]], dtype=f32)
    """
    return _binary("subtract", arithmetic.SubOp, x, y)


@recorded_operator
def multiply(x: TensorLike, y: TensorLike) -> Tensor:
    """`x * y`.

    Example:
        >>> tg.multiply([[1.0], [2.0]], [10.0, 20.0])
        Array([[10., 20.],
         [20., 40.]], dtype=f32)
    """
    return _binary("multiply", arithmetic.MulOp, x, y)


@recorded_operator
def divide(x: TensorLike, y: TensorLike) -> Tensor:
    """`x / y` as floats; integers divide as f32.

    Example:
        >>> tg.divide([1, 3], 2)
        Array([0.5, 1.5], dtype=f32)
    """
    left, right = common("divide", x, y)
    if not is_float(left.dtype):
        left, right = cast(left, NAMES["f32"]), cast(right, NAMES["f32"])
    return emit(arithmetic.DivOp, [left, right])


@recorded_whole
def power(x: TensorLike, y: TensorLike) -> Tensor:
    """`x` to the power of `y`, as C's pow. A constant whole exponent from -17 to 16 takes multiplications, compiled.

    Integers wrap, and a non-constant integer exponent costs one product for each of its bits; a negative one gives 0,
    unless the base has magnitude 1. With a float exponent integers are converted to f32.

    Raises:
        DTypeError: The operands are integers and the exponent is a negative constant, or they are boolean.
        ShapeError: They don't broadcast.

    Example:
        >>> tg.power([2.0, 3.0], [3.0, 2.0])
        Array([8., 9.], dtype=f32)
    """
    if isinstance(y, (int, float)) and not isinstance(y, bool):
        base = as_tensor(x)
        if isinstance(y, float) and base.dtype.kind in "iu":
            base = cast(base, NAMES["f32"])
        exact = _whole_power(base, int(y)) if y == y // 1 else None
        if exact is not None:
            return exact
        x = base
    left, right = common("power", x, y)
    if is_float(left.dtype):
        return emit(arithmetic.PowOp, [left, right])
    if isinstance(y, int) or left.dtype == NAMES["bool"]:
        raise DTypeError("power: integers take a constant exponent that is not negative; cast first")
    return _integer_power(left, right)


def _integer_power(base: Tensor, exponent: Tensor) -> Tensor:
    """Repeated squaring, by the bits of each exponent."""
    unsigned = base.dtype.kind == "u"
    result, squared = emit_full_like(base, 1), base
    for bit in range(8 * base.dtype.itemsize - (not unsigned)):
        is_set = not_equal(_bit_of(exponent, bit), 0)
        result = where(is_set, multiply(result, squared), result)
        squared = multiply(squared, squared)
    if unsigned:
        return result
    odd = not_equal(_bit_of(exponent, 0), 0)
    reciprocal = where(equal(base, 1), 1, where(equal(base, -1), where(odd, -1, 1), 0))
    return where(less(exponent, 0), cast(reciprocal, base.dtype), result)


def _bit_of(number: Tensor, bit: int) -> Tensor:
    return emit(arithmetic.AndOp, [number, emit_full_like(number, 1 << bit)])


def _whole_power(base: Tensor, exponent: int) -> Tensor | None:
    """Repeated squaring, for exponents from -1 to 16 of floats, and from 0 on of integers; `None` otherwise.

    Not for further negative ones: the derivative of `1 / x**n` divides by `x**n` twice, which exceeds the range of
    floats where the derivative, `-n / x**(n + 1)`, does not. For n = 1 it is that.
    """
    floats = is_float(base.dtype)
    if base.dtype == NAMES["bool"] or (not -1 <= exponent <= 16 if floats else exponent < 0):
        return None
    if exponent == -1:
        return divide(1.0, base)
    if exponent == 0:
        ones = emit_full_like(base, 1)
        return where(True, ones, base) if floats else ones  # which depends on the base, so it has a derivative: 0
    result: Tensor | None = None
    square, count = base, exponent
    while count:
        if count & 1:
            result = square if result is None else multiply(result, square)
        count >>= 1
        if count:
            square = multiply(square, square)
    assert result is not None
    return result


def emit_full_like(x: Tensor, number: float) -> Tensor:
    """Returns a concrete tensor of `x`'s shape and dtype filled with `number`."""
    return Array(np.broadcast_to(np.asarray(number, x.dtype), x.shape))


def _extreme(what: str, kind: type[TensorOp], of_truths: type[TensorOp], x: Any, y: Any) -> Tensor:
    left, right = common(what, x, y)
    return emit(of_truths if left.dtype == NAMES["bool"] else kind, [left, right])


@recorded_operator
def maximum(x: TensorLike, y: TensorLike) -> Tensor:
    """Returns the larger of two elements; NaN if either is NaN. Equal elements share the derivative by halves.

    If one is NaN, each gets the whole derivative, as in PyTorch. False is smaller than True.

    Example:
        >>> tg.maximum([1.0, 5.0], [4.0, 2.0])
        Array([4., 5.], dtype=f32)
    """
    return _extreme("maximum", arithmetic.MaximumOp, arithmetic.OrOp, x, y)


@recorded_operator
def minimum(x: TensorLike, y: TensorLike) -> Tensor:
    """Returns the smaller of two elements; NaN if either is NaN. Equal elements share the derivative by halves.

    If one is NaN, each gets the whole derivative, as in PyTorch. False is smaller than True.

    Example:
        >>> tg.minimum([1.0, 5.0], [4.0, 2.0])
        Array([1., 2.], dtype=f32)
    """
    return _extreme("minimum", arithmetic.MinimumOp, arithmetic.AndOp, x, y)


def _truths(what: str, x: Any, y: Any) -> list[Tensor]:
    return common(what, cast(x, NAMES["bool"]), cast(y, NAMES["bool"]))


def logical_and(x: TensorLike, y: TensorLike) -> Tensor:
    """Returns whether both elements are true; a number is true if it is nonzero, so NaN is true.

    Example:
        >>> tg.logical_and([True, True, False], [1, 0, 1])
        Array([ True, False, False], dtype=bool)
    """
    return emit(arithmetic.AndOp, _truths("logical_and", x, y))


def logical_or(x: TensorLike, y: TensorLike) -> Tensor:
    """Returns whether either element is true; a number is true if it is nonzero, so NaN is true.

    Example:
        >>> tg.logical_or([True, False, False], [0, 0, 1])
        Array([ True, False,  True], dtype=bool)
    """
    return emit(arithmetic.OrOp, _truths("logical_or", x, y))


def logical_not(x: TensorLike) -> Tensor:
    """Returns whether an element is false; a number is false if it is 0.

    Example:
        >>> tg.logical_not([0.0, 2.0])
        Array([ True, False], dtype=bool)
    """
    return emit(arithmetic.NotOp, [cast(x, NAMES["bool"])])


@recorded_operator
def equal(x: TensorLike, y: TensorLike) -> Tensor:
    """Returns whether elements are equal.

    Example:
        >>> tg.equal([1, 2, 3], [1, 0, 3])
        Array([ True, False,  True], dtype=bool)
    """
    return _compare("equal", "eq", x, y)


@recorded_operator
def not_equal(x: TensorLike, y: TensorLike) -> Tensor:
    """Returns whether elements differ; NaN differs from everything.

    Example:
        >>> tg.not_equal([1, 2, 3], [1, 0, 3])
        Array([False,  True, False], dtype=bool)
    """
    return _compare("not_equal", "ne", x, y)


@recorded_operator
def less(x: TensorLike, y: TensorLike) -> Tensor:
    """Returns whether `x < y`.

    Example:
        >>> tg.less([1.0, 2.0, 3.0], 2.0)
        Array([ True, False, False], dtype=bool)
    """
    return _compare("less", "lt", x, y)


@recorded_operator
def less_equal(x: TensorLike, y: TensorLike) -> Tensor:
    """Returns whether `x <= y`.

    Example:
        >>> tg.less_equal([1.0, 2.0, 3.0], 2.0)
        Array([ True,  True, False], dtype=bool)
    """
    return _compare("less_equal", "le", x, y)


@recorded_operator
def greater(x: TensorLike, y: TensorLike) -> Tensor:
    """Returns whether `x > y`.

    Example:
        >>> tg.greater([1.0, 2.0, 3.0], 2.0)
        Array([False, False,  True], dtype=bool)
    """
    return _compare("greater", "gt", x, y)


@recorded_operator
def greater_equal(x: TensorLike, y: TensorLike) -> Tensor:
    """Returns whether `x >= y`.

    Example:
        >>> tg.greater_equal([1.0, 2.0, 3.0], 2.0)
        Array([False,  True,  True], dtype=bool)
    """
    return _compare("greater_equal", "ge", x, y)


@recorded_whole
def where(condition: TensorLike, x: TensorLike, y: TensorLike) -> Tensor:
    """Selects each element from `x` where `condition` is true, else from `y`.

    Both sides are computed; the derivative selects cotangents, so `where(x > 0, sqrt(x), 0)` has derivative NaN at
    0, as in PyTorch and JAX: the infinite slope of the unselected side is multiplied by a cotangent of 0.

    A Python number takes the other side's dtype; two of them are converted as by `tg.array`, to f32, i32 or bool.

    Raises:
        DTypeError: `condition` is not boolean.

    Example:
        >>> tg.where([True, False], [1.0, 2.0], 0.0)
        Array([1., 0.], dtype=f32)
    """
    test = as_tensor(condition)
    if test.dtype != NAMES["bool"]:
        raise DTypeError(f"where: the condition must be bool, not {SHORT[test.dtype]}")
    left, right = common("where", x, y)
    extents = broadcast_shapes(test.shape, left.shape, what="where")
    return emit(arithmetic.SelectOp, [broadcast_to(part, extents) for part in (test, left, right)])


@recorded_whole
def masked_fill(x: TensorLike, mask: TensorLike, value: TensorLike) -> Tensor:
    """`x` with `value` where `mask` is true: `where(mask, value, x)`, in `x`'s shape and dtype.

    Args:
        x: A tensor.
        mask: Booleans that broadcast to `x`.
        value: A number that fits `x`'s dtype, or a tensor that broadcasts to `x`, which is cast to that dtype.

    Raises:
        DTypeError: `mask` is not boolean, or `value` doesn't fit.
        ShapeError: `mask` or `value` does not broadcast to `x`'s shape.

    Example:
        >>> tg.masked_fill([1.0, 2.0, 3.0], [False, True, False], -1.0)
        Array([ 1., -1.,  3.], dtype=f32)
    """
    tensor, test = as_tensor(x), as_tensor(mask)
    if test.dtype != NAMES["bool"]:
        raise DTypeError(f"masked_fill: the mask must be bool, not {SHORT[test.dtype]}")
    return where(broadcast_to(test, tensor.shape), broadcast_to(in_dtype(value, tensor.dtype), tensor.shape), tensor)


@recorded_whole
def negative(x: TensorLike) -> Tensor:
    """`-x`.

    Example:
        >>> tg.negative([1, -2])
        Array([-1,  2], dtype=i32)
    """
    return emit(arithmetic.NegOp, [as_tensor(x)])


@recorded_whole
def abs(x: TensorLike) -> Tensor:
    """`|x|`; its derivative at 0 is 0.

    Example:
        >>> tg.abs([-2.0, 3.0])
        Array([2., 3.], dtype=f32)
    """
    return emit(arithmetic.AbsOp, [as_tensor(x)])


@recorded_whole
def copysign(x: TensorLike, y: TensorLike) -> Tensor:
    """`|x|` with the sign of `y`, zeros and NaN included, as floats; the derivatives at `x = 0` and by `y` are 0.

    Raises:
        ShapeError: They don't broadcast.

    Example:
        >>> tg.copysign([1.0, 2.0], [-3.0, 3.0])
        Array([-1.,  2.], dtype=f32)
    """
    size, sign = (as_float(part) for part in common("copysign", x, y))
    magnitude = abs(size)
    return where(
        less(bitcast(cast(stop_gradient(sign), NAMES["f32"]), NAMES["i32"]), 0), negative(magnitude), magnitude
    )


@recorded_whole
def square(x: TensorLike) -> Tensor:
    """`x * x`.

    Example:
        >>> tg.square([-2.0, 3.0])
        Array([4., 9.], dtype=f32)
    """
    tensor = as_tensor(x)
    return multiply(tensor, tensor)


@overload
def stop_gradient(x: NumpyArray | complex) -> Tensor: ...


@overload
def stop_gradient(x: Tree) -> Tree: ...


def stop_gradient(x: Any) -> Any:
    """`x`, as a constant for derivatives.

    Args:
        x: A tensor, or a pytree of them: a dict, list, tuple, dataclass or module, such as a target network.

    Returns:
        The same tree with constants for tensors. A module computes with constants for its parameters, and is
        otherwise unchanged.

    Example:
        >>> tg.grad(lambda x: x * tg.stop_gradient(x))(3.0)
        Array(3., dtype=f32)
    """
    return trees.tree_map(lambda leaf: emit(arithmetic.StopGradientOp, [as_tensor(leaf)]), x)


def astype(x: TensorLike, dtype: object) -> Tensor:
    """`x` with elements of `dtype`; see `cast`.

    Example:
        >>> tg.array([1.7, -1.7]).astype("i32")
        Array([ 1, -1], dtype=i32)
    """
    return cast(x, dtype)


def emit_of_kinds(what: str, kind: type[TensorOp], x: Any, y: Any, kinds: str, takes: str) -> Tensor:
    """Appends an op on two operands of a common dtype, which must be of one of NumPy's kinds.

    Raises:
        DTypeError: There is none, or it is of another kind; names `what`, and what that `takes`.
    """
    left, right = common(what, x, y)
    if kind_of(left.dtype) not in kinds:
        raise DTypeError(f"{what}: takes {takes}, not {SHORT[left.dtype]}; cast first")
    return emit(kind, [left, right])


def sign(x: TensorLike) -> Tensor:
    """-1, 0 or 1 in `x`'s dtype, NaN for NaN; without derivative.

    Raises:
        DTypeError: `x` is boolean.

    Example:
        >>> tg.sign([-2.0, 0.0, 3.0])
        Array([-1.,  0.,  1.], dtype=f32)
    """
    tensor = stop_gradient(as_tensor(x))
    check_numbers("sign", tensor.dtype)
    zero, one = (Array(np.full((), number, tensor.dtype)) for number in (0, 1))
    rest = where(equal(tensor, 0), 0, tensor) if is_float(tensor.dtype) else zero
    below = rest if tensor.dtype.kind == "u" else where(less(tensor, 0), -1, rest)
    return where(greater(tensor, 0), one, below)


@recorded_whole
def clip(x: TensorLike, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
    """`x` clamped between `min` and `max`, each of which may be None, a number or a tensor; NaN stays NaN.

    If `min` is above `max`, the result is `max`. The derivative is as in PyTorch: within the bounds, inclusive, it
    flows to `x`, otherwise to the active bound; there is none if the result is NaN.

    Example:
        >>> tg.clip([-2.0, 0.5, 3.0], -1.0, 1.0)
        Array([-1. ,  0.5,  1. ], dtype=f32)
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
    """Returns `held`, with the derivatives of the operand that it equals."""
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


@recorded_whole
def clamp(x: TensorLike, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
    """`x` between `min` and `max`, like `clip`; this is PyTorch's name.

    Example:
        >>> tg.array([-2.0, 0.5, 3.0]).clamp(min=0.0)
        Array([0. , 0.5, 3. ], dtype=f32)
    """
    return clip(x, min, max)


@recorded_whole
def lerp(x: TensorLike, y: TensorLike, weight: TensorLike) -> Tensor:
    """`x + weight * (y - x)` as floats, computed from the nearer end, so that weight 1 gives exactly `y`.

    Example:
        >>> tg.lerp([0.0, 10.0], [1.0, 20.0], 0.25)
        Array([ 0.25, 12.5 ], dtype=f32)
    """
    return _between(*(as_float(part) for part in common("lerp", x, y, weight)))


@in_full
def _between(start: Tensor, end: Tensor, share: Tensor) -> Tensor:
    step = subtract(end, start)
    near = start + multiply(share, step)
    return where(less(share, 0.5), near, end - multiply(subtract(1.0, share), step))


def floor_divide(x: TensorLike, y: TensorLike) -> Tensor:
    """`x // y` as in Python, rounded down; integer division by 0 gives 0. Without derivative.

    Raises:
        DTypeError: The operands are boolean, or have no common dtype.
        ShapeError: They don't broadcast.

    Example:
        >>> tg.floor_divide([7, -7], 2)
        Array([ 3, -4], dtype=i32)
    """
    return emit_of_kinds("floor_divide", arithmetic.FloorDivideOp, x, y, "fiu", "numbers")


def remainder(x: TensorLike, y: TensorLike) -> Tensor:
    """`x % y` as in Python, with the sign of `y`; modulo 0 integers give 0, floats NaN.

    Raises:
        DTypeError: The operands are boolean, or have no common dtype.
        ShapeError: They don't broadcast.

    Example:
        >>> tg.remainder([7, -7], 3)
        Array([1, 2], dtype=i32)
    """
    return emit_of_kinds("remainder", arithmetic.RemainderOp, x, y, "fiu", "numbers")


def logical_xor(x: TensorLike, y: TensorLike) -> Tensor:
    """Returns whether exactly one of two elements is true; a number is true if it is nonzero, so NaN is true.

    Example:
        >>> tg.logical_xor([True, True, False], [True, False, False])
        Array([False,  True, False], dtype=bool)
    """
    return not_equal(cast(x, "bool"), cast(y, "bool"))
