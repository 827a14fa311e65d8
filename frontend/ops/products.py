"""Products of vectors and matrices other than contractions, and distances between points."""

from __future__ import annotations

from tensorgrad.errors import OptionError, ShapeError
from tensorgrad.ops.elementwise.arithmetic import multiply, subtract
from tensorgrad.ops.joining import moveaxis, stack
from tensorgrad.ops.promotion import as_float, common, promoted
from tensorgrad.ops.recorded import recorded_whole
from tensorgrad.ops.reduce import norm
from tensorgrad.ops.shape import expand_dims, normalized_axis, reshape
from tensorgrad.tracing.likes import TensorLike
from tensorgrad.tracing.tensor import Tensor


@recorded_whole
def kron(x: TensorLike, y: TensorLike) -> Tensor:
    """Returns the Kronecker product: each element of `x` times all of `y`, in blocks.

    The shorter shape is padded with leading axes of extent 1. Axis `i` of the result has extent `x.shape[i] *
    y.shape[i]`.

    Raises:
        DTypeError: They have no common dtype.

    Example:
        >>> tg.kron([1, 10], [1, 2])
        Array([ 1,  2, 10, 20], dtype=i32)
    """
    left, right = promoted("kron", x, y)
    rank = max(left.ndim, right.ndim)
    left, right = (reshape(part, [*[1] * (rank - part.ndim), *part.shape]) for part in (left, right))
    extents = [a * b for a, b in zip(left.shape, right.shape, strict=True)]
    outer = reshape(left, [n for extent in left.shape for n in (extent, 1)])
    inner = reshape(right, [n for extent in right.shape for n in (1, extent)])
    return reshape(multiply(outer, inner), extents)


@recorded_whole
def cross(x: TensorLike, y: TensorLike, axis: int = -1) -> Tensor:
    """Returns the cross product of vectors of three elements along `axis`.

    Raises:
        ShapeError: They don't broadcast, or the axis does not have three elements.
        DTypeError: They have no common dtype.

    Example:
        >>> tg.cross([1.0, 0.0, 0.0], [0.0, 1.0, 0.0])
        Array([0., 0., 1.], dtype=f32)
    """
    left, right = common("cross", x, y)
    place = normalized_axis(axis, left.ndim, "cross")
    if left.shape[place] != 3:
        raise ShapeError(f"cross: axis {place} of {left.shape} must have 3 elements")
    a, b = (moveaxis(part, place, 0) for part in (left, right))
    parts = [subtract(multiply(a[i - 2], b[i - 1]), multiply(a[i - 1], b[i - 2])) for i in range(3)]
    return stack(parts, place)


@recorded_whole
def cdist(x: TensorLike, y: TensorLike, p: float = 2.0) -> Tensor:
    """Returns the distances between all pairs of points: `norm(x[..., i, :] - y[..., j, :], p)`.

    Differences are taken before they are squared, to avoid cancellation for near points; their derivative for equal
    points is 0.

    Args:
        x: `[..., n, features]`.
        y: `[..., m, features]`; leading axes broadcast.
        p: The order of the norm, positive; may be infinite.

    Returns:
        `[..., n, m]`.

    Raises:
        ShapeError: The shapes don't match.
        OptionError: `p` is not positive.

    Example:
        >>> tg.cdist([[0.0, 0.0], [3.0, 4.0]], [[0.0, 0.0]])
        Array([[0.],
         [5.]], dtype=f32)
    """
    left, right = as_float(x), as_float(y)
    if not p > 0:
        raise OptionError(f"cdist: p must be positive, got {p!r}")
    if left.ndim < 2 or right.ndim < 2 or left.shape[-1] != right.shape[-1]:
        raise ShapeError(
            f"cdist: needs points [..., n, features] and [..., m, features], got {left.shape} and {right.shape}"
        )
    return norm(subtract(expand_dims(left, -2), expand_dims(right, -3)), p, -1)
