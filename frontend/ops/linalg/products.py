"""Products and powers of vectors and matrices, transposes, diagonals and traces."""

from __future__ import annotations

from collections.abc import Sequence

from tensorgrad.errors import ShapeError
from tensorgrad.ops import contract, joining, reduce
from tensorgrad.ops.elementwise import arithmetic
from tensorgrad.ops.linalg.arguments import square_matrices, transposed
from tensorgrad.ops.linalg.systems import inv
from tensorgrad.ops.promotion import as_tensor, broadcast_to, common
from tensorgrad.ops.recorded import recorded_whole
from tensorgrad.ops.shape import normalized_axis
from tensorgrad.tracing.checks import checked_integer
from tensorgrad.tracing.likes import Axes, TensorLike
from tensorgrad.tracing.tensor import Tensor


def matmul(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """Returns the matrix product.

    Args:
        x1: Matrices of shape (..., m, k), or a vector of shape (k,), which is a row.
        x2: Matrices of shape (..., k, n), or a vector of shape (k,), which is a column. Batch axes broadcast.

    Raises:
        ShapeError: The shapes don't match.
        DTypeError: They have no common dtype.

    Example:
        >>> tg.linalg.matmul(tg.ones((5, 2, 3)), tg.ones((5, 3, 4))).shape
        (5, 2, 4)
    """
    return reduce.matmul(x1, x2)


def matrix_power(x: TensorLike, n: int, /) -> Tensor:
    """Returns powers of square matrices, by repeated squaring.

    Args:
        x: Matrices of shape (..., m, m).
        n: The exponent; if it is negative, powers of the inverses are returned.

    Raises:
        ShapeError: The matrices are not square.
        OptionError: The exponent is not an integer.

    Example:
        >>> tg.linalg.matrix_power([[1.0, 1.0], [0.0, 1.0]], 5)
        Array([[1., 5.],
         [0., 1.]], dtype=f32)
    """
    tensor, n = square_matrices("matrix_power", x), checked_integer(n, "matrix_power: n")
    if n < 0:
        return matrix_power(inv(tensor), -n)
    result = broadcast_to(joining.eye(tensor.shape[-1], dtype=tensor.dtype), tensor.shape)
    squared = tensor
    while n:
        if n & 1:
            result = reduce.matmul(result, squared)
        n >>= 1
        if n:
            squared = reduce.matmul(squared, squared)
    return result


def matrix_transpose(x: TensorLike, /) -> Tensor:
    """Returns `x` with its last two axes exchanged.

    Args:
        x: Matrices of shape (..., m, n).

    Raises:
        ShapeError: `x` has fewer than two axes.

    Example:
        >>> tg.linalg.matrix_transpose(tg.ones((5, 2, 3))).shape
        (5, 3, 2)
    """
    tensor = as_tensor(x)
    if tensor.ndim < 2:
        raise ShapeError(f"matrix_transpose: takes an array of two axes or more, not {tensor.shape}")
    return transposed(tensor)


@recorded_whole
def outer(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """Returns the outer product of two vectors, of shape (m, n).

    Args:
        x1: A vector of shape (m,); other arrays are flattened.
        x2: A vector of shape (n,); other arrays are flattened.

    Raises:
        DTypeError: They have no common dtype.

    Example:
        >>> tg.linalg.outer([1, 2], [10, 20])
        Array([[10, 20],
         [20, 40]], dtype=i32)
    """
    return contract.outer(x1, x2)


def tensordot(x1: TensorLike, x2: TensorLike, /, *, axes: Axes | Sequence[Sequence[int]] = 2) -> Tensor:
    """Returns sums of products over pairs of axes, each one axis of `x1` and one of `x2`.

    Args:
        x1: The first array.
        x2: The second array.
        axes: The number of axes, the last of `x1` and the first of `x2`; or two lists, the axes of `x1` and of `x2`.

    Raises:
        ShapeError: Paired axes have different extents, or there are no such axes.
        DTypeError: The arrays have no common dtype.

    Example:
        >>> tg.linalg.tensordot(tg.ones((2, 3)), tg.ones((3, 4)), axes=1).shape
        (2, 4)
    """
    return contract.tensordot(x1, x2, axes)


def vecdot(x1: TensorLike, x2: TensorLike, /, *, axis: int = -1) -> Tensor:
    """Returns the sums of products along an axis.

    Args:
        x1: The first array.
        x2: The second array; the other axes broadcast.
        axis: The axis, which counts from the end.

    Raises:
        ShapeError: The arrays have different extents along it.
        DTypeError: They have no common dtype.

    Example:
        >>> tg.linalg.vecdot([[1.0, 2.0], [3.0, 4.0]], [1.0, 10.0])
        Array([21., 43.], dtype=f32)
    """
    left, right = as_tensor(x1), as_tensor(x2)
    places = [normalized_axis(axis, x.ndim, "vecdot") for x in (left, right)]
    first, second = (joining.moveaxis(x, place, -1) for x, place in zip((left, right), places, strict=True))
    if first.shape[-1] != second.shape[-1]:
        raise ShapeError(f"vecdot: {left.shape} and {right.shape} differ along axis {axis}")
    products = arithmetic.multiply(first, second)
    return reduce.sum(products, -1, dtype=products.dtype)


@recorded_whole
def cross(x1: TensorLike, x2: TensorLike, /, *, axis: int = -1) -> Tensor:
    """Returns the cross products of vectors of three elements.

    Args:
        x1: The first array.
        x2: The second array; the other axes broadcast.
        axis: The axis of extent 3; it counts from the end if the arrays differ in rank.

    Raises:
        ShapeError: The axis has another extent, or the other axes don't broadcast.
        DTypeError: The arrays have no common dtype.

    Example:
        >>> tg.linalg.cross([1.0, 0.0, 0.0], [0.0, 1.0, 0.0])
        Array([0., 0., 1.], dtype=f32)
    """
    rank = max(as_tensor(x1).ndim, as_tensor(x2).ndim)
    if axis >= 0 and as_tensor(x1).ndim != as_tensor(x2).ndim:
        raise ShapeError(f"cross: the axis counts from the end where the arrays differ in rank, not {axis}")
    place = normalized_axis(axis, rank, "cross") - rank
    extents = [x.shape[place] for x in map(as_tensor, (x1, x2))]
    if extents != [3, 3]:
        raise ShapeError(f"cross: axis {axis} is of extent 3, not {extents[0]} and {extents[1]}")
    left, right = (joining.moveaxis(x, place, 0) for x in common("cross", x1, x2))
    parts = [left[(i + 1) % 3] * right[(i + 2) % 3] - left[(i + 2) % 3] * right[(i + 1) % 3] for i in range(3)]
    return joining.stack(parts, place)


def diagonal(x: TensorLike, /, *, offset: int = 0) -> Tensor:
    """Returns the diagonals of matrices, along a new last axis.

    Args:
        x: Matrices of shape (..., m, n).
        offset: How far the diagonal is above the main one; negative if it is below.

    Raises:
        ShapeError: `x` has fewer than two axes.

    Example:
        >>> tg.linalg.diagonal([[1, 2], [3, 4]])
        Array([1, 4], dtype=i32)
    """
    return joining.diagonal(x, offset, -2, -1)


def trace(x: TensorLike, /, *, offset: int = 0, dtype: object = None) -> Tensor:
    """Returns the sums of the diagonals of matrices.

    Args:
        x: Matrices of shape (..., m, n).
        offset: How far the diagonal is above the main one; negative if it is below.
        dtype: The dtype of the sum; by default that of `sum`.

    Raises:
        ShapeError: `x` has fewer than two axes.

    Example:
        >>> tg.linalg.trace([[1, 2], [3, 4]])
        Array(5, dtype=i32)
    """
    return reduce.sum(diagonal(x, offset=offset), -1, dtype=dtype)
