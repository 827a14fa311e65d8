"""Linear algebra of PyTorch: values and gradients, beside PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import linalg
from torch_comparison import differences
from torch_modules import Function

import tensorgrad as tg
from tensorgrad.errors import OptionError

BOUND = 1e-10
"""In f64, relative to the largest element."""


def positive(x: torch.Tensor) -> torch.Tensor:
    """Returns symmetric positive definite matrices."""
    return x @ x.mT + torch.eye(x.shape[-1], dtype=x.dtype)


def solved(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    """Returns what solves systems of equations."""
    lower = linalg.cholesky(positive(x))
    return [
        *(linalg.inv(x), torch.inverse(x), linalg.inv_ex(x).inverse, linalg.cholesky_ex(positive(x)).L),
        *(linalg.solve(x, y), linalg.solve(x, y[..., 0]), linalg.solve(x, y.mT, left=False)),
        *(torch.cholesky_solve(y, lower), torch.cholesky_inverse(lower)),
        torch.cholesky_solve(y, linalg.cholesky(positive(x), upper=True), upper=True),
        linalg.solve_triangular(x, y, upper=True),
        linalg.solve_triangular(x, y.mT, upper=False, left=False, unitriangular=True),
        torch.triangular_solve(y, x, upper=False, transpose=True).solution,
        *(linalg.pinv(y), torch.pinverse(y, 1e-3), linalg.matrix_power(x, -3), torch.matrix_power(x, 2)),
    ]


def factors(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    """Returns factors, with the signs of LAPACK, and what doesn't depend on signs where those are anybody's choice."""
    values, vectors = linalg.eigh(x, UPLO="U")
    left, singular, right = linalg.svd(y, full_matrices=False)
    return [
        *(*linalg.qr(x), *linalg.qr(y), *linalg.qr(y.mT), *linalg.qr(x, mode="complete")),
        *(linalg.qr(torch.triu(y).detach(), mode="r").R, *linalg.lu(x), *linalg.lu(y), *linalg.lu(y.mT)),
        *(values, vectors**2, linalg.eigvalsh(x), singular, (left * singular[..., None, :]) @ right, linalg.svdvals(y)),
    ]


def packed(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    """Returns factors that share an array, and what is computed with them."""
    lu, pivots = linalg.lu_factor(x)
    singular = linalg.lu_factor_ex(torch.triu(torch.tril(x)) * torch.tensor([1.0, 1.0, 0.0, 1.0])[:, None].double())
    reflections = torch.cat([y, y * 2.0], -1)
    return [
        *(lu, pivots, singular.pivots, singular.info, *torch.lu_unpack(*linalg.lu_factor(y))),
        *(linalg.lu_solve(lu, pivots, y), linalg.lu_solve(lu, pivots, y, adjoint=True)),
        *(linalg.lu_solve(lu, pivots, y.mT, left=False), linalg.lu_solve(lu, pivots, y.mT, left=False, adjoint=True)),
        *(linalg.householder_product(x, y[..., 0]), linalg.householder_product(reflections[..., :3], y[..., :2, 1])),
    ]


def numbers(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    """Returns determinants and norms, and a product of several."""
    return [
        *(linalg.det(x), torch.det(x), *linalg.slogdet(x), *torch.slogdet(x), torch.logdet(positive(x))),
        *(linalg.matrix_norm(y), linalg.matrix_norm(y, 2), linalg.matrix_norm(y, "nuc"), linalg.cond(x)),
        *(linalg.matrix_norm(y, dim=(0, 1), keepdim=True), linalg.norm(y, dim=-1), linalg.multi_dot([*x, y[0]])),
    ]


@pytest.mark.in_turns(4)
@pytest.mark.parametrize("function", [solved, factors, packed, numbers])
def test_linear_algebra_is_pytorchs(function: Callable[..., Any]) -> None:
    torch.manual_seed(0)
    module = Function(function, (2, 4, 4), (2, 4, 2)).double()
    assert max(differences(module, []).values()) < BOUND


def test_factors_without_pivots_are_refused() -> None:
    with pytest.raises(OptionError, match="factors without pivots"):
        tg.from_torch(Function(lambda x: linalg.lu_factor(x, pivot=False).LU), torch.eye(2))(torch.eye(2).numpy())


def test_a_determinant_below_zero_has_no_logarithm() -> None:
    function = tg.from_torch(Function(torch.logdet), torch.eye(2))
    assert float(function(tg.array([[2.0, 0.0], [0.0, 1.0]]))) == pytest.approx(0.6931472)
    assert tg.isnan(function(tg.array([[0.0, 1.0], [1.0, 0.0]])))
