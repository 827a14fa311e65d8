"""Norms of vectors and matrices."""

from __future__ import annotations

import math

from tensorgrad.errors import OptionError, ShapeError
from tensorgrad.ops import reduce
from tensorgrad.ops.linalg.arguments import float_matrices
from tensorgrad.ops.linalg.decompositions import svdvals
from tensorgrad.ops.promotion import as_tensor
from tensorgrad.ops.shape import expand_dims, reshape
from tensorgrad.tracing.likes import Axes, TensorLike
from tensorgrad.tracing.tensor import Tensor

MATRIX_NORMS = ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)


def matrix_norm(x: TensorLike, /, *, keepdims: bool = False, ord: float | str = "fro") -> Tensor:
    """Returns matrix norms.

    Args:
        x: Matrices of shape (..., m, n).
        keepdims: Whether the last two axes remain, with extent 1.
        ord: "fro" for the Frobenius norm; 1 or -1 for the largest or smallest column sum of magnitudes; inf or -inf for
            the same of rows; 2 or -2 for the largest or smallest singular value; "nuc" for the sum of singular values.

    Raises:
        OptionError: `ord` is unknown.
        ShapeError: `x` has fewer than two axes.
        DTypeError: `x` is f16 and the norm needs singular values.

    Example:
        >>> tg.linalg.matrix_norm([[3.0, 0.0], [0.0, 4.0]])
        Array(5., dtype=f32)
    """
    tensor = as_tensor(x)
    if tensor.ndim < 2:
        raise ShapeError(f"matrix_norm: takes an array of two axes or more, not {tensor.shape}")
    if ord not in MATRIX_NORMS:
        raise OptionError(f"matrix_norm: ord {ord!r} is not one of {', '.join(map(str, MATRIX_NORMS))}")
    if ord == "fro":
        return reduce.norm(tensor, axis=(-2, -1), keepdims=keepdims)
    if ord in ("nuc", 2, -2):
        values = svdvals(float_matrices("matrix_norm", tensor))
        norms = (reduce.sum if ord == "nuc" else reduce.max if ord > 0 else reduce.min)(values, -1)
        return expand_dims(expand_dims(norms, -1), -1) if keepdims else norms
    along = -2 if abs(ord) == 1 else -1
    sums = reduce.norm(tensor, 1, axis=along, keepdims=True)
    norms = (reduce.max if ord > 0 else reduce.min)(sums, (-2, -1), True)
    return norms if keepdims else reshape(norms, tensor.shape[:-2])


def vector_norm(x: TensorLike, /, *, axis: Axes | None = None, keepdims: bool = False, ord: float = 2) -> Tensor:
    """Returns vector norms: `sum(|x| ** ord) ** (1 / ord)`.

    Args:
        x: The array.
        axis: An axis, or several, over which the norm is computed; `None` for all.
        keepdims: Whether these axes remain, with extent 1.
        ord: The order. 0 counts elements that are not 0; inf and -inf give the largest and the smallest magnitude.

    Raises:
        ShapeError: `x` has no such axis, or `ord` is infinite and an axis is empty.
        OptionError: `ord` is NaN.

    Example:
        >>> tg.linalg.vector_norm([[3.0, 4.0], [6.0, 8.0]], axis=1)
        Array([ 5., 10.], dtype=f32)
    """
    return reduce.norm(x, ord, axis, keepdims)
