"""Reductions, contractions, and what is composed of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorgrad.dialects.tg import contract, reduce
from tensorgrad.dialects.tg.base import ints
from tensorgrad.dtypes import NAMES, is_float, promote
from tensorgrad.elementwise import abs as absolute
from tensorgrad.elementwise import as_tensor, broadcast_shapes, broadcast_to, cast, exp, log, stop_gradient, where
from tensorgrad.errors import DTypeError, ShapeError
from tensorgrad.location import user_line
from tensorgrad.shaping import normalized_axes, reshape
from tensorgrad.tensor import Tensor, method
from tensorgrad.tracer import emit


def _reduce(what: str, kind: type[reduce.ReduceOp], x: Any, axis: Any, keepdims: bool) -> Tensor:
    tensor = as_tensor(x)
    axes = normalized_axes(axis, tensor.ndim, what)
    if tensor.dtype == NAMES["bool"]:
        tensor = cast(tensor, NAMES["i32"])
    result = emit(kind, [tensor], axes=ints(axes)) if axes else tensor
    if not keepdims:
        return result
    return reshape(result, [1 if i in axes else extent for i, extent in enumerate(tensor.shape)])


@method
def sum(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The sum along `axis`: one axis, several, or all (None). Booleans count."""
    return _reduce("sum", reduce.SumOp, x, axis, keepdims)


@method
def max(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The largest element along `axis`, NaN if any is NaN; equal maxima share the derivative evenly.

    Raises:
        ShapeError: A reduced axis is empty.
    """
    return _reduce("max", reduce.MaxOp, x, axis, keepdims)


@method
def min(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The smallest element along `axis`, NaN if any is NaN; equal minima share the derivative evenly.

    Raises:
        ShapeError: A reduced axis is empty.
    """
    return _reduce("min", reduce.MinOp, x, axis, keepdims)


@method
def mean(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The mean along `axis`; integers and booleans average as f32.

    Raises:
        ShapeError: A reduced axis is empty.
    """
    tensor = as_tensor(x)
    tensor = tensor if is_float(tensor.dtype) else cast(tensor, NAMES["f32"])
    axes = normalized_axes(axis, tensor.ndim, "mean")
    count = int(np.prod([tensor.shape[i] for i in axes], dtype=np.int64))
    if count == 0:
        raise ShapeError(f"{user_line()}: mean: axes {axes} of {tensor.shape} are empty")
    return sum(tensor, axes, keepdims) * (1.0 / count)


@method
def matmul(x: Any, y: Any) -> Tensor:
    """The matrix product, by NumPy's rules: leading axes are batches and broadcast, vectors are rows or columns.

    Raises:
        ShapeError: An operand has no axes, or the inner extents differ.
    """
    left, right = as_tensor(x), as_tensor(y)
    if not left.ndim or not right.ndim:
        raise ShapeError(f"{user_line()}: matmul: operands need an axis, got {left.shape} and {right.shape}")
    inner = right.shape[0] if right.ndim == 1 else right.shape[-2]
    if left.shape[-1] != inner:
        raise ShapeError(
            f"{user_line()}: matmul: inner extents differ: {left.shape} @ {right.shape} ({left.shape[-1]} and {inner})"
        )
    try:
        dtype = promote(left.dtype, right.dtype)
    except DTypeError as error:
        raise DTypeError(f"{user_line()}: matmul: {error}") from None
    if dtype == NAMES["bool"]:
        raise DTypeError(f"{user_line()}: matmul: takes numbers, not bool; cast first")
    left, right = cast(left, dtype), cast(right, dtype)
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


@method
def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """`log(sum(exp(x)))` along `axis`, without overflow. All `-inf` gives `-inf`."""
    tensor = as_tensor(x)
    axes = normalized_axes(axis, tensor.ndim, "logsumexp")
    shift = _finite_top(tensor, axes)
    total = log(sum(exp(tensor - shift), axes, keepdims=True)) + shift
    return total if keepdims else reshape(total, [n for i, n in enumerate(tensor.shape) if i not in axes])


def _finite_top(x: Tensor, axes: Any) -> Tensor:
    """The largest elements along `axes`, as constants to derivatives; 0 where they are infinite or NaN."""
    top = stop_gradient(max(x, axes, keepdims=True))
    return where(_is_finite(top), top, 0.0)


def _is_finite(x: Tensor) -> Tensor:
    return absolute(x) <= float(np.finfo(x.dtype).max)


@method
def softmax(x: Any, axis: int = -1) -> Tensor:
    """`exp(x) / sum(exp(x))` along `axis`, without overflow."""
    tensor = as_tensor(x)
    top = stop_gradient(max(tensor, axis, keepdims=True))
    powers = exp(tensor - top)
    return powers / sum(powers, axis, keepdims=True)


@method
def log_softmax(x: Any, axis: int = -1) -> Tensor:
    """The logarithm of `softmax`, without overflow, and as exact for large elements as for small ones."""
    tensor = as_tensor(x)
    shifted = tensor - _finite_top(tensor, axis)
    return shifted - log(sum(exp(shifted), axis, keepdims=True))
