"""Systems of equations, determinants, decompositions and norms of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import tensorgrad as tg
from tensorgrad.errors import OptionError
from tensorgrad.importers import linear_algebra as lapack
from tensorgrad.importers.torch.table import rule
from tensorgrad.tracing.tensor import Tensor

# Systems of equations


@rule("linalg_inv inverse")
def _inv(**matrices: Tensor) -> Tensor:
    (x,) = matrices.values()
    return tg.linalg.inv(x)


@rule("linalg_inv_ex")
def _inv_with_failures(A: Tensor) -> tuple[Tensor, Tensor]:
    return _with_failures(tg.linalg.inv(A))


def _with_failures(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Returns matrices, and of each a number that isn't 0 where computing it failed."""
    is_finite = tg.all(tg.isfinite(matrices), (-2, -1))
    return matrices, tg.where(is_finite, 0, 1)


@rule("linalg_solve")
def _solve(A: Tensor, B: Tensor, left: bool = True) -> Tensor:
    if B.ndim == 1 or B.shape == A.shape[:-1]:  # vectors
        return tg.linalg.solve(A, tg.expand_dims(B, -1))[..., 0]
    return tg.linalg.solve(A, B) if left else tg.linalg.solve(A.mT, B.mT).mT


@rule("linalg_solve_triangular")
def _solve_triangular(self: Tensor, B: Tensor, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    return lapack.solve_triangular(self, B, upper, left, unitriangular)


@rule("triangular_solve")
def _triangular_solve(
    self: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Tensor, Tensor]:
    return lapack.solve_triangular(A.mT if transpose else A, self, upper != transpose, True, unitriangular), A


@rule("linalg_cholesky cholesky")
def _cholesky(self: Tensor, upper: bool = False) -> Tensor:
    return tg.linalg.cholesky(lapack.symmetric(self, not upper), upper=upper)


@rule("linalg_cholesky_ex")
def _cholesky_with_failures(self: Tensor, upper: bool = False) -> tuple[Tensor, Tensor]:
    return _with_failures(_cholesky(self, upper))


@rule("cholesky_solve")
def _cholesky_solve(self: Tensor, input2: Tensor, upper: bool = False) -> Tensor:
    first, second = (input2.mT, input2) if upper else (input2, input2.mT)
    return tg.linalg.solve_triangular(second, tg.linalg.solve_triangular(first, self), upper=True)


@rule("cholesky_inverse")
def _cholesky_inverse(self: Tensor, upper: bool = False) -> Tensor:
    return _cholesky_solve(tg.eye(self.shape[-1], dtype=self.dtype), self, upper)


# Determinants


@rule("linalg_det det")
def _det(**matrices: Tensor) -> Tensor:
    (x,) = matrices.values()
    return tg.linalg.det(x)


@rule("linalg_slogdet slogdet")
def _slogdet(**matrices: Tensor) -> tuple[Tensor, Tensor]:
    (x,) = matrices.values()
    return tg.linalg.slogdet(x)


@rule("logdet")
def _logdet(self: Tensor) -> Tensor:
    sign, logarithm = tg.linalg.slogdet(self)
    return tg.where(sign < 0, float("nan"), logarithm)


# Decompositions


@rule("linalg_lu")
def _lu(A: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    lu, _, permutation = tg.linalg.lu_factor(A)
    return (_permuting(permutation, A), *_triangles(lu))


def _permuting(permutation: Tensor, like: Tensor) -> Tensor:
    """Returns the matrices that take rows in the order of permutations back to their places."""
    return tg.one_hot(permutation, permutation.shape[-1], dtype=like.dtype).mT


def _triangles(lu: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the two factors that are packed into one array."""
    rows, count = lu.shape[-2], min(lu.shape[-2:])
    lower = tg.tril(lu[..., :count], k=-1) + tg.eye(rows, count, dtype=lu.dtype)
    return lower, tg.triu(lu[..., :count, :])


@rule("linalg_lu_factor")
def _lu_factor(A: Tensor, pivot: bool = True) -> tuple[Tensor, Tensor]:
    if not pivot:
        raise OptionError("from_torch: factors without pivots are computed on GPUs only, in PyTorch too")
    lu, pivots, _ = tg.linalg.lu_factor(A)
    return lu, pivots + 1


@rule("linalg_lu_factor_ex")
def _lu_factor_with_failures(A: Tensor, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    lu, pivots = _lu_factor(A, pivot)
    is_zero = tg.linalg.diagonal(lu) == 0
    return lu, pivots, tg.where(tg.any(is_zero, -1), tg.cast(tg.argmax(is_zero, -1), "i32") + 1, 0)


@rule("linalg_lu_solve")
def _lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, left: bool = True, adjoint: bool = False) -> Tensor:
    if not left:
        return _lu_solve(LU, pivots, B.mT, True, not adjoint).mT
    order = tg.expand_dims(lapack.permutation(pivots - 1, LU.shape[-1]), -1)
    if adjoint:
        half = tg.linalg.solve_triangular(LU.mT, B)
        solved = tg.linalg.solve_triangular(LU.mT, half, upper=True, unit_diagonal=True)
        return tg.take_along_axis(solved, tg.argsort(order, -2), -2)
    half = tg.linalg.solve_triangular(LU, tg.take_along_axis(B, order, -2), unit_diagonal=True)
    return tg.linalg.solve_triangular(LU, half, upper=True)


@rule("lu_unpack")
def _lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    none = tg.zeros((0,), LU_data.dtype)
    permuting = _permuting(lapack.permutation(LU_pivots - 1, LU_data.shape[-2]), LU_data) if unpack_pivots else none
    return (permuting, *(_triangles(LU_data) if unpack_data else (none, none)))


@rule("linalg_householder_product")
def _householder_product(input: Tensor, tau: Tensor) -> Tensor:
    rows, columns = input.shape[-2:]
    normals = tg.tril(input, k=-1) + tg.eye(rows, columns, dtype=input.dtype)
    parts = [tg.moveaxis(part, -1, 0) for part in (normals[..., : tau.shape[-1]], tau)]

    def reflect(product: Tensor, part: Sequence[Tensor]) -> tuple[Tensor, None]:
        normal, factor = tg.expand_dims(part[0], -1), part[1][..., None, None]
        return product - factor * (normal @ (normal.mT @ product)), None

    identity = tg.broadcast_to(tg.eye(rows, columns, dtype=input.dtype), input.shape)
    return tg.scan(reflect, identity, tuple(parts), reverse=True)[0]


@rule("linalg_qr")
def _qr(A: Tensor, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    q, r = lapack.qr(A, "complete" if mode == "complete" else "reduced")
    return tg.zeros((0,), A.dtype) if mode == "r" else q, r


@rule("linalg_eigh")
def _eigh(self: Tensor, UPLO: str = "L") -> tuple[Tensor, Tensor]:
    return tg.linalg.eigh(lapack.symmetric(self, UPLO == "L"))


@rule("linalg_eigvalsh")
def _eigvalsh(self: Tensor, UPLO: str = "L") -> Tensor:
    return tg.linalg.eigvalsh(lapack.symmetric(self, UPLO == "L"))


@rule("linalg_svd")
def _svd(A: Tensor, full_matrices: bool = True, driver: str | None = None) -> tuple[Tensor, Tensor, Tensor]:
    return tg.linalg.svd(A, full_matrices=full_matrices)


@rule("linalg_svdvals")
def _svdvals(A: Tensor, driver: str | None = None) -> Tensor:
    return tg.linalg.svdvals(A)


@rule("linalg_pinv")
def _pinv(self: Tensor, rtol: Tensor | float | None = None, rcond: float | None = None) -> Tensor:
    return tg.linalg.pinv(self, rtol=rtol if rcond is None else rcond)


@rule("pinverse")
def _pinverse(self: Tensor, rcond: float = 1e-15) -> Tensor:
    return tg.linalg.pinv(self, rtol=rcond)


# Products and norms


@rule("linalg_matrix_power matrix_power")
def _matrix_power(self: Tensor, n: int) -> Tensor:
    return tg.linalg.matrix_power(self, n)


@rule("linalg_multi_dot")
def _multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    return reduce(tg.matmul, tensors)


@rule("linalg_matrix_norm")
def _matrix_norm(
    self: Tensor, ord: float | str = "fro", dim: Sequence[int] = (-2, -1), keepdim: bool = False
) -> Tensor:
    norms = tg.linalg.matrix_norm(tg.moveaxis(self, tuple(dim), (-2, -1)), keepdims=keepdim, ord=ord)
    return tg.moveaxis(norms, (-2, -1), tuple(dim)) if keepdim else norms
