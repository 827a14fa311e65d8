"""Linear algebra of functions of JAX's: values and gradients, beside JAX."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from draws import generator

import tensorgrad as tg

pytestmark = pytest.mark.nightly

X, Y = generator(0).normal(size=(2, 4, 4)), generator(1).normal(size=(2, 4, 3))
BOUND = 1e-10


def positive(x: Any) -> Any:
    """Returns symmetric positive definite matrices."""
    return x @ x.mT + np.eye(x.shape[-1])


def reconstructed(left: Any, values: Any, right: Any) -> Any:
    """Returns a product that doesn't depend on the signs of vectors."""
    return (left * values[..., None, :]) @ right


def functions() -> Mapping[str, Callable[[Any, Any], Any]]:
    jax, jnp, lax = import_module("jax"), import_module("jax.numpy"), import_module("jax").lax
    matrices, stats = import_module("jax.scipy.linalg"), import_module("jax.scipy.stats")
    triangular = lax.linalg.triangular_solve

    def implicit(x: Any, y: Any) -> Any:
        """Its derivative is not that of the solver, which stops it."""

        inverse = jnp.linalg.inv(lax.stop_gradient(x[0]))
        return lax.custom_linear_solve(lambda z: x[0] @ z, y[0], lambda _, z: inverse @ z, lambda _, z: inverse.T @ z)

    return {
        "cholesky": lambda x, y: jnp.linalg.cholesky(positive(x)),
        "cumlogsumexp": lambda x, y: (lax.cumlogsumexp(x, 1), lax.cumlogsumexp(x, 2, reverse=True)),
        "derivative inside": lambda x, y: jax.grad(lambda x: jnp.sum(jnp.linalg.solve(x, y) ** 2))(x),
        "determinants": lambda x, y: (jnp.linalg.det(x), *jnp.linalg.slogdet(x)),
        "eigenvalues": lambda x, y: (jnp.linalg.eigvalsh(x), jnp.linalg.eigh(x)[1] ** 2),
        "exponential": lambda x, y: matrices.expm(x[0]),
        "factors": lambda x, y: (*jnp.linalg.qr(x), *jnp.linalg.qr(y, mode="complete"), *matrices.lu(x[0])),
        "implicit": implicit,
        "least squares": lambda x, y: (jnp.linalg.lstsq(x[0], y[0])[0], jnp.linalg.pinv(y)),
        "loop": lambda x, y: lax.scan(lambda z, x: (jnp.linalg.solve(x, z), z[0]), y[0], x),
        "normal distribution": lambda x, y: stats.multivariate_normal.logpdf(y[0, :, 0], y[0, :, 1], positive(x[0])),
        "singular values": lambda x, y: (
            jnp.linalg.svd(y, compute_uv=False),
            reconstructed(*jnp.linalg.svd(y, full_matrices=False)),
        ),
        "systems": lambda x, y: (
            *(jnp.linalg.solve(x, y), jnp.linalg.inv(x), jax.vmap(jnp.linalg.solve)(x, y)),
            matrices.lu_solve(matrices.lu_factor(x[0]), y[0]),
            matrices.cho_solve(matrices.cho_factor(positive(x[0])), y[0]),
        ),
        "triangular": lambda x, y: (
            matrices.solve_triangular(x[0], y[0], trans=1, unit_diagonal=True),
            triangular(x, y.mT, left_side=False, lower=True, transpose_a=True),
            triangular(x, y.mT, left_side=False, lower=False),
        ),
    }


NAMES = (
    *("cholesky", "cumlogsumexp", "derivative inside", "determinants", "eigenvalues", "exponential", "factors"),
    *("implicit", "least squares", "loop", "normal distribution", "singular values", "systems", "triangular"),
)


@pytest.mark.parametrize("name", NAMES)
def test_values_and_gradients_are_jaxs(name: str) -> None:
    jax = import_module("jax")
    with jax.enable_x64(True):
        table = functions()
        assert tuple(table) == NAMES
        function = table[name]
        module = tg.from_jax(function, X, Y)

        def total(function: Callable[..., Any]) -> Callable[..., Any]:
            """Returns a sum in which every element counts differently."""

            def summed(x: Any, y: Any) -> Any:
                leaves = jax.tree.leaves(function(x, y))
                return sum((leaf * np.arange(1.0, leaf.size + 1).reshape(leaf.shape)).sum() for leaf in leaves)

            return summed

        wide = tg.array(X, "f64"), tg.array(Y, "f64")
        for result, expected in zip(jax.tree.leaves(module(*wide)), jax.tree.leaves(function(X, Y)), strict=True):
            assert_close(result, expected)
        ours = tg.grad(total(module), argnums=(0, 1))(*wide)
        for result, expected in zip(ours, jax.grad(total(function), argnums=(0, 1))(X, Y), strict=True):
            assert_close(result, expected)


def assert_close(result: Any, expected: Any) -> None:
    scale = max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(np.asarray(result), np.asarray(expected), rtol=0, atol=BOUND * scale)
