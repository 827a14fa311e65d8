"""Reductions, contractions, and functions composed of them."""

from __future__ import annotations

import math
from typing import Any

from tensorgrad.dialects.tg import contract, reduce
from tensorgrad.dialects.tg.base import ints
from tensorgrad.errors import DTypeError, EmptyAxisWarning, OptionError, ShapeError
from tensorgrad.ops.creation import full
from tensorgrad.ops.elementwise.arithmetic import abs as absolute
from tensorgrad.ops.elementwise.arithmetic import stop_gradient, where
from tensorgrad.ops.elementwise.arithmetic import where as choose
from tensorgrad.ops.elementwise.functions import exp, isfinite, log, sqrt
from tensorgrad.ops.promotion import (
    as_float,
    as_tensor,
    broadcast_shapes,
    broadcast_to,
    cast,
    common_numbers,
    in_full,
)
from tensorgrad.ops.recorded import recorded_whole
from tensorgrad.ops.shape import normalized_axes, normalized_axis, positions, reshape
from tensorgrad.runtime.errors import warn_user
from tensorgrad.tracing.dtypes import NAMES, SHORT, as_dtype, is_float
from tensorgrad.tracing.likes import Axes, TensorLike
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tensor import Tensor
from tensorgrad.tracing.tracer import emit


def _reduce(what: str, kind: type[reduce.ReduceOp], x: Any, axis: Any, keepdims: bool) -> Tensor:
    tensor = as_tensor(x)
    axes = normalized_axes(axis, tensor.ndim, what)
    if tensor.dtype == NAMES["bool"]:
        tensor = cast(tensor, NAMES["i32"])
    result = emit(kind, [tensor], axes=ints(axes)) if axes else tensor
    if not keepdims:
        return result
    return reshape(result, [1 if i in axes else extent for i, extent in enumerate(tensor.shape)])


def numbers(x: TensorLike, dtype: object, what: str, floats: bool = False) -> Tensor:
    """Returns `x` in the dtype that a reduction computes in; its own if that is `None`.

    Raises:
        DTypeError: The dtype is bool, or not a float dtype if the result is one.
    """
    if dtype is None:
        return as_tensor(x)
    target = as_dtype(dtype)
    if not is_float(target) and (floats or target == NAMES["bool"]):
        kinds = "floats" if floats else "numbers"
        raise DTypeError(f"{what}: dtype must be one of {kinds}, got {SHORT[target]}")
    return cast(x, target)


def counted(x: TensorLike, dtype: object, what: str) -> Tensor:
    """Returns `x` in the dtype of its sum or product: booleans become i32, and integers have 32 bits or more.

    This follows the Array API standard, with i32 as the default integer.

    Raises:
        DTypeError: The dtype is bool.
    """
    tensor = numbers(x, dtype, what)
    if dtype is not None or is_float(tensor.dtype) or tensor.dtype.itemsize >= 4:
        return tensor
    return cast(tensor, NAMES["u32" if tensor.dtype.kind == "u" else "i32"])


@recorded_whole
def sum(x: TensorLike, axis: Axes | None = None, keepdims: bool = False, *, dtype: object = None) -> Tensor:
    """Returns the sum along `axis`: one axis, several, or all (None). Booleans count.

    Integers of 8 and 16 bits are added as i32 or u32. With `dtype` elements are converted to that first.

    Raises:
        DTypeError: `dtype` is bool.

    Example:
        >>> tg.sum([[1.0, 2.0], [3.0, 4.0]], axis=0)
        Array([4., 6.], dtype=f32)
        >>> tg.sum(tg.ones((2, 3, 4)), axis=(0, 2), keepdims=True).shape
        (1, 3, 1)
    """
    return _reduce("sum", reduce.SumOp, counted(x, dtype, "sum"), axis, keepdims)


@recorded_whole
def max(x: TensorLike, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """Returns the largest element along `axis`, NaN if any is NaN. False is smaller than True.

    Equal maxima, or all NaN, share the derivative evenly.

    Raises:
        ShapeError: A reduced axis is empty.

    Example:
        >>> tg.max([[1.0, 5.0], [4.0, 2.0]], axis=0)
        Array([4., 5.], dtype=f32)
    """
    return _extreme("max", reduce.MaxOp, x, axis, keepdims)


@recorded_whole
def min(x: TensorLike, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """Returns the smallest element along `axis`, NaN if any is NaN. False is smaller than True.

    Equal minima, or all NaN, share the derivative evenly.

    Raises:
        ShapeError: A reduced axis is empty.

    Example:
        >>> tg.min([[1.0, 5.0], [4.0, 2.0]], axis=0)
        Array([1., 2.], dtype=f32)
    """
    return _extreme("min", reduce.MinOp, x, axis, keepdims)


@recorded_whole
def amax(x: TensorLike, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """Returns the same as `max`, but takes PyTorch's `dim=` too, as PyTorch's `amax` returns no pair.

    Raises:
        ShapeError: A reduced axis is empty.

    Example:
        >>> tg.amax([[1.0, 5.0], [4.0, 2.0]], axis=0)
        Array([4., 5.], dtype=f32)
    """
    return max(x, axis, keepdims)


@recorded_whole
def amin(x: TensorLike, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """Returns the same as `min`, but takes PyTorch's `dim=` too, as PyTorch's `amin` returns no pair.

    Raises:
        ShapeError: A reduced axis is empty.

    Example:
        >>> tg.amin([[1.0, 5.0], [4.0, 2.0]], axis=0)
        Array([1., 2.], dtype=f32)
    """
    return min(x, axis, keepdims)


def _extreme(what: str, kind: type[reduce.ReduceOp], x: Any, axis: Any, keepdims: bool) -> Tensor:
    tensor = as_tensor(x)
    return cast(_reduce(what, kind, tensor, axis, keepdims), tensor.dtype)


@recorded_whole
def mean(x: TensorLike, axis: Axes | None = None, keepdims: bool = False, *, dtype: object = None) -> Tensor:
    """Returns the mean along `axis`; integers and booleans average as f32; f16 is averaged in f32 and rounded once.

    With `dtype` elements are converted to it first. The mean of nothing is NaN, with an `EmptyAxisWarning`.

    Raises:
        DTypeError: `dtype` is not a float dtype.

    Example:
        >>> tg.mean([[1, 2], [3, 4]], axis=0)
        Array([2., 3.], dtype=f32)
    """
    tensor = numbers(x, dtype, "mean", floats=True)
    axes, share = _share("mean", tensor, axis)
    return _scaled_sum(as_float(tensor), axes, keepdims, share)


@in_full
def _scaled_sum(x: Tensor, axes: list[int], keepdims: bool, share: float) -> Tensor:
    total = sum(x, axes, keepdims)
    # Shader compilers fold the product of anything and an empty sum to 0.
    return total * share if _count(x, axes) else total + math.nan


def _share(what: str, x: Tensor, axis: Any, correction: float = 0) -> tuple[list[int], float]:
    """Returns axes, and the reciprocal of the number of elements along them minus a correction.

    If that is not positive, the result is infinite, with a warning. For public functions, whose callers the warning
    names.
    """
    axes = normalized_axes(axis, x.ndim, what)
    count = _count(x, axes) - correction
    if count > 0:
        return axes, 1.0 / count
    few = f"are too short for correction {correction}" if correction else "are empty"
    message = f"{user_line()}: {what}: axes {axes} of {x.shape} {few}; the result is not finite"
    warn_user(message, EmptyAxisWarning)
    return axes, math.inf


def _count(x: Tensor, axes: list[int]) -> int:
    return math.prod(x.shape[axis] for axis in axes)


@recorded_whole
def matmul(x: TensorLike, y: TensorLike) -> Tensor:
    """Returns the matrix product by NumPy's rules: leading axes are batches and broadcast, vectors are rows or columns.

    Raises:
        ShapeError: An operand has no axes, or the inner extents differ.

    Example:
        >>> tg.matmul([[1.0, 2.0], [3.0, 4.0]], [1.0, 10.0])
        Array([21., 43.], dtype=f32)
        >>> tg.matmul(tg.ones((5, 2, 3)), tg.ones((3, 4))).shape
        (5, 2, 4)
    """
    left, right = common_numbers("matmul", x, y)
    if not left.ndim or not right.ndim:
        raise ShapeError(f"matmul: operands need an axis, got {left.shape} and {right.shape}")
    inner = right.shape[0] if right.ndim == 1 else right.shape[-2]
    if left.shape[-1] != inner:
        raise ShapeError(f"matmul: inner extents differ: {left.shape} @ {right.shape} ({left.shape[-1]} and {inner})")
    if right.ndim <= 2:
        return _dot(left, right, 0)
    if left.ndim == 1:
        return reshape(matmul(reshape(left, (1, -1)), right), (*right.shape[:-2], right.shape[-1]))
    batch = broadcast_shapes(left.shape[:-2], right.shape[:-2], what="matmul")
    left = broadcast_to(left, (*batch, *left.shape[-2:]))
    right = broadcast_to(right, (*batch, *right.shape[-2:]))
    return _dot(left, right, len(batch))


def _dot(left: Tensor, right: Tensor, batch: int) -> Tensor:
    axes = ints(range(batch))
    return emit(
        contract.DotGeneralOp,
        [left, right],
        lhs_batch=axes,
        rhs_batch=axes,
        lhs_contracting=ints([left.ndim - 1]),
        rhs_contracting=ints([0 if right.ndim == 1 else right.ndim - 2]),
    )


@recorded_whole
def logsumexp(
    x: TensorLike, axis: Axes | None = None, keepdims: bool = False, where: TensorLike | None = None
) -> Tensor:
    """`log(sum(exp(x)))` along `axis`, without overflow, where `where` is true; `-inf` if nowhere.

    Its derivative where all elements are `-inf` is 0.

    Raises:
        ShapeError: `where` does not broadcast to `x`'s shape.
        DTypeError: `where` is not boolean.

    Example:
        >>> tg.logsumexp([1000.0, 1000.0])
        Array(1000.6932, dtype=f32)
    """
    tensor = as_tensor(x)
    axes = normalized_axes(axis, tensor.ndim, "logsumexp")
    if where is not None:
        tensor = choose(_mask(where, tensor), tensor, -math.inf)
    shift = _finite_top(tensor, axes)
    total = _logarithm(sum(exp(tensor - shift), axes, keepdims=True)) + shift
    return total if keepdims else reshape(total, [n for i, n in enumerate(tensor.shape) if i not in axes])


def _logarithm(total: Tensor) -> Tensor:
    """Returns the logarithm of a sum of exponentials, with derivative 0 where the sum is 0: all terms are `-inf`."""
    nothing = total == 0.0
    return choose(nothing, -math.inf, log(choose(nothing, 1.0, total)))


def _mask(where: Any, x: Tensor) -> Tensor:
    mask = as_tensor(where)
    if mask.dtype != NAMES["bool"]:
        raise DTypeError(f"where must be bool, not {SHORT[mask.dtype]}")
    return broadcast_to(mask, x.shape)


def _finite_top(x: Tensor, axes: Any) -> Tensor:
    """Returns the largest elements along `axes`, as constants for derivatives; 0 if they are infinite or NaN."""
    top = _top(x, axes)
    return choose(isfinite(top), top, 0.0)


def _top(x: Tensor, axes: Any) -> Tensor:
    """Returns the largest elements along `axes`, as constants for derivatives; 0 if there are none."""
    places = normalized_axes(axes, x.ndim, "max")
    if 0 in [x.shape[axis] for axis in places]:
        return full([1 if axis in places else extent for axis, extent in enumerate(x.shape)], 0.0, x.dtype)
    return stop_gradient(max(x, axes, keepdims=True))


def _masked_powers(x: Tensor, axis: Any, where: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Returns `x` minus its largest element, the exponentials, and their sum, or 1 where all of them are 0.

    Masked elements cause no NaN, whatever their values, also in the derivative of the selection. Where nothing is
    masked, nothing is selected.
    """
    mask = None if where is True else _mask(where, x)

    def masked(values: Tensor, otherwise: float) -> Tensor:
        return values if mask is None else choose(mask, values, otherwise)

    shifted = masked(x - _finite_top(masked(x, -math.inf), axis), 0.0)
    powers = masked(exp(shifted), 0.0)
    total = sum(powers, axis, keepdims=True)
    return shifted, powers, choose(total == 0.0, 1.0, total)


@recorded_whole
def softmax(x: TensorLike, axis: Axes = -1, where: TensorLike | None = None) -> Tensor:
    """`exp(x) / sum(exp(x))` along `axis`, one or several, without overflow.

    A row whose elements are all `-inf` is NaN, as in PyTorch and JAX, but its derivative is 0, so that it spoils no
    other gradient if `tg.where` discards the row. With `where`, which may be just True, such a row is all 0.

    Args:
        x: A tensor of floats.
        axis: The axes of the sum.
        where: Booleans that broadcast to `x`: an element where it is false is 0 and is ignored, and a row that is false
            throughout (or true only at `-inf`) is all 0. `causal_mask` makes one for attention.

    Raises:
        ShapeError: `where` does not broadcast to `x`'s shape.
        DTypeError: `where` is not boolean.

    Example:
        >>> tg.softmax([[0.0, 0.0], [0.0, 1000.0]])
        Array([[0.5, 0.5],
         [0. , 1. ]], dtype=f32)
    """
    tensor = as_tensor(x)
    axes = normalized_axes(axis, tensor.ndim, "softmax")
    if where is not None:
        _, powers, total = _masked_powers(tensor, axes, where)
        return powers / total
    top = _top(tensor, axes)
    powers = exp(tensor - choose(top == -math.inf, 0.0, top))
    total = sum(powers, axes, keepdims=True)
    nothing = total == 0.0
    undefined = choose(nothing, full((), math.nan, tensor.dtype), 0.0)
    return powers / choose(nothing, 1.0, total) + undefined


@recorded_whole
def log_softmax(x: TensorLike, axis: Axes = -1, where: TensorLike | None = None) -> Tensor:
    """Returns the logarithm of `softmax`, without overflow, and accurate for large elements as well as for small ones.

    A row whose elements are all `-inf` is NaN, with finite derivatives; with `where`, which may be just True, it is all
    `-inf`.

    Args:
        x: A tensor of floats.
        axis: The axes of the sum.
        where: Booleans that broadcast to `x`: an element where it is false is `-inf` and is ignored.

    Raises:
        ShapeError: `where` does not broadcast to `x`'s shape.
        DTypeError: `where` is not boolean.

    Example:
        >>> tg.log_softmax([0.0, 0.0, 1000.0])
        Array([-1000., -1000.,     0.], dtype=f32)
    """
    tensor = as_tensor(x)
    axes = normalized_axes(axis, tensor.ndim, "log_softmax")
    if where is not None:
        shifted, _, total = _masked_powers(tensor, axes, where)
        likelihoods = shifted - log(total)
        return likelihoods if where is True else choose(_mask(where, tensor), likelihoods, -math.inf)
    shifted = tensor - _finite_top(tensor, axes)
    return shifted - _logarithm(sum(exp(shifted), axes, keepdims=True))


def causal_mask(queries: int, keys: int | None = None, window: int | None = None) -> Tensor:
    """Returns which of `keys` positions each of `queries` positions may attend to: itself and those before it.

    The last query is at the last key, as with cached keys of earlier steps. It compares positions: nothing is stored.

    Args:
        queries: The number of rows.
        keys: The number of columns; by default the number of rows.
        window: How many positions a query may attend to at most, its own and those before it; by default all.

    Returns:
        Booleans of shape `[queries, keys]`.

    Raises:
        OptionError: The window is not positive.

    Example:
        >>> tg.causal_mask(3)
        Array([[ True, False, False],
         [ True,  True, False],
         [ True,  True,  True]], dtype=bool)
    """
    columns = queries if keys is None else keys
    shape = (queries, columns)
    column, row = positions(shape, 1, NAMES["i32"]), positions(shape, 0, NAMES["i32"]) + (columns - queries)
    if window is None:
        return column <= row
    if window < 1:
        raise OptionError(f"{user_line()}: causal_mask: the window must be positive, got {window}")
    return (column <= row) & (column > row - window)


def prod(x: TensorLike, axis: Axes | None = None, keepdims: bool = False, *, dtype: object = None) -> Tensor:
    """Returns the product along `axis`, 1 if it is empty; its derivative is exact where elements are 0.

    Booleans count, and integers of 8 and 16 bits are multiplied as i32 or u32. With `dtype` elements are converted to
    it first.

    Raises:
        DTypeError: `dtype` is bool.

    Example:
        >>> tg.prod([[1.0, 2.0], [3.0, 4.0]], axis=1)
        Array([ 2., 12.], dtype=f32)
    """
    return _reduce("prod", reduce.ProdOp, counted(x, dtype, "prod"), axis, keepdims)


def _truth(x: Any) -> Tensor:
    return cast(cast(x, NAMES["bool"]), NAMES["i32"])


@recorded_whole
def any(x: TensorLike, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """Returns whether any element along `axis` is nonzero (NaN is); False if it is empty.

    Example:
        >>> tg.any([[True, False], [False, False]], axis=1)
        Array([ True, False], dtype=bool)
    """
    return sum(_truth(x), axis, keepdims) != 0


@recorded_whole
def all(x: TensorLike, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """Returns whether every element along `axis` is nonzero (NaN is); True if it is empty.

    Example:
        >>> tg.all([[True, False], [True, True]], axis=1)
        Array([False,  True], dtype=bool)
    """
    return sum(1 - _truth(x), axis, keepdims) == 0


def _root(x: Tensor) -> Tensor:
    """Returns the square root, with derivatives 0 at 0."""
    zero = x == 0.0
    return where(zero, 0.0, sqrt(where(zero, 1.0, x)))


@recorded_whole
def var(x: TensorLike, axis: Axes | None = None, correction: float = 0, keepdims: bool = False) -> Tensor:
    """Returns the variance along `axis`: the mean of the squared distances from the mean; integers and booleans as f32.

    It takes two passes, and is thus accurate if the mean is large relative to the spread. If the correction is not less
    than the number of elements, it is NaN, or infinite if elements differ, with an `EmptyAxisWarning`.

    Args:
        x: The samples.
        axis: One axis, several, or all (None).
        correction: Subtracted from the number of elements; 1 gives the unbiased estimate.
        keepdims: Whether reduced axes stay, with extent 1.

    Example:
        >>> tg.var([1.0, 2.0, 3.0, 4.0], correction=1)
        Array(1.6666667, dtype=f32)
    """
    tensor = as_tensor(x)
    return _spread(as_float(tensor), *_share("var", tensor, axis, correction), keepdims)


@in_full
def _spread(x: Tensor, axes: list[int], share: float, keepdims: bool) -> Tensor:
    """Returns the sum of squared distances from the mean, times a share."""
    distance = x - sum(x, axes, keepdims=True) * (1.0 / (_count(x, axes) or 1))
    return _scaled_sum(distance * distance, axes, keepdims, share)


@recorded_whole
def std(x: TensorLike, axis: Axes | None = None, correction: float = 0, keepdims: bool = False) -> Tensor:
    """Returns the standard deviation along `axis`, the root of `var`; its derivative is 0 where all elements are equal.

    If the correction is not less than the number of elements it is as in `var`, with an `EmptyAxisWarning`.

    Example:
        >>> tg.std([1.0, 2.0, 3.0, 4.0])
        Array(1.118034, dtype=f32)
    """
    tensor = as_tensor(x)
    return _rooted_spread(as_float(tensor), *_share("std", tensor, axis, correction), keepdims)


@in_full
def _rooted_spread(x: Tensor, axes: list[int], share: float, keepdims: bool) -> Tensor:
    return _root(_spread(x, axes, share, keepdims))


@recorded_whole
@in_full
def norm(x: TensorLike, ord: float = 2, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """Returns the vector norm over all axes in `axis`: `sum(|x|^ord)^(1/ord)`; its derivatives at 0 are 0.

    `ord` may be infinite (the largest or smallest magnitude) or 0 (the number of nonzero elements).

    Raises:
        ShapeError: `ord` is infinite and an axis is empty.
        OptionError: `ord` is NaN.

    Example:
        >>> tg.norm([[3.0, 4.0], [6.0, 8.0]], axis=1)
        Array([ 5., 10.], dtype=f32)
    """
    tensor = as_float(x)
    if ord != ord:
        raise OptionError("norm: ord is NaN")
    if ord == 2:
        return _root(sum(tensor * tensor, axis, keepdims))
    size = absolute(tensor)
    if ord == 1:
        return sum(size, axis, keepdims)
    if ord == 0:
        return sum(cast(size != 0.0, tensor.dtype), axis, keepdims)
    if ord in (float("inf"), float("-inf")):
        return max(size, axis, keepdims) if ord > 0 else min(size, axis, keepdims)
    total = sum(_powers(tensor, float(ord)), axis, keepdims)
    zero = total == 0.0
    return where(zero, 0.0 if ord > 0 else math.inf, where(zero, 1.0, total) ** (1.0 / ord))


def _powers(x: Tensor, exponent: float) -> Tensor:
    """Returns powers of magnitudes, with derivative 0 where they have none at 0."""
    if exponent % 2 == 0 and exponent > 0:
        return x**exponent
    zero = x == 0.0
    return where(zero, 0.0 if exponent > 0 else math.inf, absolute(where(zero, 1.0, x)) ** exponent)


def _extreme_position(what: str, kind: Any, x: Any, axis: int | None, keepdims: bool) -> Tensor:
    tensor = as_tensor(x)
    if tensor.dtype == NAMES["bool"]:
        tensor = cast(tensor, NAMES["i32"])
    rank = tensor.ndim
    flat = tensor if axis is not None else reshape(tensor, (-1,))
    place = normalized_axis(0 if axis is None else axis, flat.ndim, what)
    hit = flat == kind(flat, place, keepdims=True)
    if is_float(flat.dtype):
        hit = hit | (flat != flat)
    extent = flat.shape[place]
    first = min(where(hit, positions(flat.shape, place, NAMES["i32"]), extent), place, keepdims)
    return reshape(first, (1,) * rank) if axis is None and keepdims else reshape(first, ()) if axis is None else first


@recorded_whole
def argmax(x: TensorLike, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Returns the position of the largest element along `axis` (of the flattened tensor if `None`), as i32.

    The first among equals; the first NaN if there is one.

    Raises:
        ShapeError: The axis is empty.

    Example:
        >>> tg.argmax([[1.0, 5.0], [4.0, 2.0]], axis=1)
        Array([1, 0], dtype=i32)
    """
    return _extreme_position("argmax", max, x, axis, keepdims)


@recorded_whole
def argmin(x: TensorLike, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Returns the position of the smallest element along `axis` (of the flattened tensor if `None`), as i32.

    The first among equals; the first NaN if there is one.

    Raises:
        ShapeError: The axis is empty.

    Example:
        >>> tg.argmin([[1.0, 5.0], [4.0, 2.0]], axis=1)
        Array([0, 1], dtype=i32)
    """
    return _extreme_position("argmin", min, x, axis, keepdims)
