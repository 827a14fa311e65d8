"""The primitives of JAX that are functions here, and that `jax.export` writes as calls of LAPACK."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorgrad as tg
from tensorgrad.importers.linear_algebra import qr, solve_triangular, symmetric
from tensorgrad.tracing.tensor import Tensor


def _cholesky(x: Tensor, **_: Any) -> Sequence[Tensor]:
    return [tg.linalg.cholesky(symmetric(x, True))]


def _lu(x: Tensor, **_: Any) -> Sequence[Tensor]:
    return tg.linalg.lu_factor(x)


def _qr(x: Tensor, full_matrices: bool, **_: Any) -> Sequence[Tensor]:
    return qr(x, "complete" if full_matrices else "reduced")


def _eigh(x: Tensor, lower: bool, **_: Any) -> Sequence[Tensor]:
    values, vectors = tg.linalg.eigh(symmetric(x, lower))
    return vectors, values


def _svd(x: Tensor, compute_uv: bool, full_matrices: bool, **_: Any) -> Sequence[Tensor]:
    if not compute_uv:
        return [tg.linalg.svdvals(x)]
    left, values, right = tg.linalg.svd(x, full_matrices=full_matrices)
    return values, left, right


def _triangular_solve(
    x: Tensor, right: Tensor, left_side: bool, lower: bool, transpose_a: bool, unit_diagonal: bool, **_: Any
) -> Sequence[Tensor]:
    matrices = x.mT if transpose_a else x
    return [solve_triangular(matrices, right, lower == transpose_a, left_side, unit_diagonal)]


def _cumlogsumexp(x: Tensor, axis: int, reverse: bool, **_: Any) -> Sequence[Tensor]:
    sums = tg.logcumsumexp(tg.flip(x, axis) if reverse else x, axis)
    return [tg.flip(sums, axis) if reverse else sums]


FUNCTIONS: Mapping[str, Callable[..., Sequence[Tensor]]] = {
    "cholesky": _cholesky,
    "cumlogsumexp": _cumlogsumexp,
    "eigh": _eigh,
    "lu": _lu,
    "qr": _qr,
    "svd": _svd,
    "triangular_solve": _triangular_solve,
}
"""For each primitive, the function of its operands and parameters; parameters that choose an algorithm are ignored."""

REFUSED = ("pivoting", "subset_by_index")
"""The parameters that choose what isn't computed here."""


def is_computed_here(equation: Any) -> bool:
    """Returns whether an equation is computed by a function here."""
    return equation.primitive.name in FUNCTIONS and not any(equation.params.get(name) for name in REFUSED)


def computed(equation: Any, operands: Sequence[Tensor]) -> Sequence[Tensor]:
    """Returns the results of an equation that is computed by a function here."""
    return FUNCTIONS[equation.primitive.name](*operands, **equation.params)
