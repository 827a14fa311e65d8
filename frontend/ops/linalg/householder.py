"""QR factors of matrices, by Householder reflections in differentiable loops over columns."""

from __future__ import annotations

from tensorgrad.ops import reduce
from tensorgrad.ops.creation import arange, zeros
from tensorgrad.ops.elementwise.arithmetic import abs as absolute
from tensorgrad.ops.elementwise.arithmetic import equal, greater_equal, less, stop_gradient, where
from tensorgrad.ops.elementwise.functions import sqrt
from tensorgrad.ops.joining import diagonal, eye, pad, triu
from tensorgrad.ops.promotion import broadcast_to
from tensorgrad.ops.shape import expand_dims
from tensorgrad.tracing.tensor import Tensor
from tensorgrad.transforms.control import scan


def householder_qr(matrices: Tensor, complete: bool) -> tuple[Tensor, Tensor]:
    """Returns `Q` with orthonormal columns and upper triangular `R` with `Q @ R = matrices`.

    The diagonal of `R` is nonnegative, which makes the factors unique if the leading columns are linearly independent;
    then the derivatives, which are those of the loops, are exact. A column that is dependent on earlier ones is not
    reflected.

    Source: Golub and Van Loan, Matrix Computations, 4th edition, algorithms 5.1.1 and 5.2.1.

    Args:
        matrices: Shape (..., m, n), f32 or f64.
        complete: Whether `Q` has shape (..., m, m) and `R` (..., m, n), instead of (..., m, k) and (..., k, n) with
            `k = min(m, n)`.
    """
    batch, (rows, columns) = matrices.shape[:-2], matrices.shape[-2:]
    steps = min(rows, columns)
    width = rows if complete else steps
    identity = broadcast_to(eye(rows, width, dtype=matrices.dtype), (*batch, rows, width))
    if not matrices.size:
        return identity, zeros((*batch, width, columns), matrices.dtype)
    row, column = arange(rows), arange(columns)

    def reduced(rest: Tensor, place: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        chosen = reduce.sum(where(equal(column, place), rest, 0.0), -1)
        normal, factor = _reflection(where(greater_equal(row, place), chosen, 0.0), equal(row, place))
        return _reflected(rest, normal, factor), (normal, factor)

    upper, reflections = scan(reduced, matrices, arange(steps))
    orthogonal, _ = scan(lambda q, reflection: (_reflected(q, *reflection), None), identity, reflections, reverse=True)
    signs = where(less(stop_gradient(diagonal(upper, 0, -2, -1)), 0.0), -1.0, 1.0)
    signs = pad(signs, [*((0, 0) for _ in batch), (0, width - steps)], constant_values=1.0)
    return orthogonal * expand_dims(signs, -2), triu(upper[..., :width, :] * expand_dims(signs, -1))


def _reflection(column: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
    """Returns `v` and `t` such that `I - t * v * v.mT` reflects a column to a multiple of `first`; `t` is 0 if it is 0.

    The column is scaled by its largest element, so that squares don't overflow.
    """
    largest = reduce.max(stop_gradient(absolute(column)), -1, keepdims=True)
    zero = equal(largest, 0.0)
    scaled = where(zero, where(first, 1.0, 0.0), column / where(zero, 1.0, largest))
    lead = reduce.sum(where(first, scaled, 0.0), -1, keepdims=True)
    length = sqrt(reduce.sum(scaled * scaled, -1, keepdims=True))
    target = where(less(lead, 0.0), length, -length)
    normal = where(first, 1.0, scaled / (lead - target))
    return normal, where(zero, 0.0, (target - lead) / target)


def _reflected(matrices: Tensor, normal: Tensor, factor: Tensor) -> Tensor:
    across = expand_dims(normal, -1)
    along = reduce.sum(across * matrices, -2, keepdims=True)
    return matrices - expand_dims(factor, -1) * across * along
