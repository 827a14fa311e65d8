"""Names of NumPy, JAX and PyTorch: what a user sees who writes them here."""

from __future__ import annotations

import ast
import inspect
import pickle
import pydoc
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad.errors import ArgumentError, ShapeError, UnknownNameError
from tensorgrad.surface import foreign
from tensorgrad.surface.counterparts import ABBREVIATIONS, counterparts
from tensorgrad.tools.reference import public_objects

untyped: Any = tg
"""The package as code without types calls it."""

ARRAY = np.array([[1.5, -2.5, 0.5], [4.0, 3.0, 2.0]], np.float32)
X: Any = tg.array(ARRAY)
FOLDER = Path(tg.__file__).parent

ACCEPTED: dict[str, tuple[Callable[[], Any], Any]] = {
    "torch.cat": (lambda: untyped.cat([X, X], dim=1), np.concatenate([ARRAY, ARRAY], 1)),
    "jnp.concatenate": (lambda: tg.concatenate([X, X]), np.concatenate([ARRAY, ARRAY])),
    "torch.bmm": (lambda: tg.bmm(X[None], X.T[None]), (ARRAY @ ARRAY.T)[None]),
    "x.bmm": (lambda: X[None].bmm(X.T[None]), (ARRAY @ ARRAY.T)[None]),
    "torch.mm": (lambda: tg.mm(X, X.T), ARRAY @ ARRAY.T),
    "x.view": (lambda: X.view(3, -1), ARRAY.reshape(3, 2)),
    "x.view of a tuple": (lambda: X.view((6,)), ARRAY.reshape(6)),
    "x.expand": (lambda: X[:1].expand(4, -1), np.repeat(ARRAY[:1], 4, 0)),
    "x.expand to more axes": (lambda: X.expand((5, 2, 3)), np.broadcast_to(ARRAY, (5, 2, 3))),
    "x.contiguous": (lambda: X.contiguous(), ARRAY),
    "torch.topk": (lambda: tg.topk(X, 2)[0], -np.sort(-ARRAY)[:, :2]),
    "x.topk of the smallest": (lambda: X.topk(1, dim=-1, largest=False)[1], np.array([[1], [2]], np.int32)),
    "x.float": (lambda: tg.array([1, 2]).float(), np.array([1, 2], np.float32)),
    "x.double": (lambda: X.double(), ARRAY.astype(np.float64)),
    "x.half": (lambda: X.half(), ARRAY.astype(np.float16)),
    "x.int": (lambda: X.int(), ARRAY.astype(np.int32)),
    "x.long": (lambda: X.long(), ARRAY.astype(np.int64)),
    "x.short": (lambda: X.short(), ARRAY.astype(np.int16)),
    "x.bool": (lambda: X.bool(), ARRAY != 0),
    "torch.pow": (lambda: tg.pow(X, 2), ARRAY**2),
    "x.pow": (lambda: X.pow(2), ARRAY**2),
    "torch.mul": (lambda: tg.mul(X, 2.0), 2 * ARRAY),
    "x.mul": (lambda: X.mul(X), ARRAY * ARRAY),
    "x.sub": (lambda: X.sub(1.0), ARRAY - 1),
    "x.div": (lambda: X.div(2.0), ARRAY / 2),
    "x.neg": (lambda: X.neg(), -ARRAY),
    "x.eq": (lambda: X.eq(4.0), ARRAY == 4),
    "torch.ge": (lambda: tg.ge(X, 2.0), ARRAY >= 2),
    "x.lt": (lambda: X.lt(2.0), ARRAY < 2),
    "jnp.ravel": (lambda: tg.ravel(X), ARRAY.ravel()),
    "jnp.arctan2": (lambda: tg.arctan2(X, 2.0), np.arctan2(ARRAY, np.float32(2))),
    "jnp.mod": (lambda: tg.mod(X, 2.0), ARRAY % 2),
    "torch.amax": (lambda: untyped.amax(X, dim=1), ARRAY.max(1)),
    "torch.movedim": (lambda: tg.movedim(X, 0, 1), ARRAY.T),
    "torch.repeat_interleave": (lambda: untyped.repeat_interleave(X, 2, dim=0), ARRAY.repeat(2, 0)),
    "F.mse_loss": (lambda: tg.mse_loss(X, 0 * X), np.mean(ARRAY**2)),
    "jax.nn.swish": (lambda: tg.swish(X), ARRAY / (1 + np.exp(-ARRAY))),
    "x.at[0].max": (lambda: X.at[0].max(1.0), np.stack([np.maximum(ARRAY[0], 1), ARRAY[1]])),
    "x.at[0].min": (lambda: X.at[0].min(1.0), np.stack([np.minimum(ARRAY[0], 1), ARRAY[1]])),
    "x.at[0].multiply": (lambda: X.at[0].multiply(2.0), np.stack([2 * ARRAY[0], ARRAY[1]])),
    "p.numel": (lambda: tg.nn.Linear(3, 2).weight.numel(), 6),
    "p.ndim and size": (lambda: [tg.nn.Linear(3, 2).weight.ndim, tg.nn.Linear(3, 2).weight.size], [2, 6]),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted_names(name: str) -> None:
    call, expected = ACCEPTED[name]
    found = np.asarray(call())
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert not isinstance(expected, np.ndarray) or found.dtype == expected.dtype


HINTED: dict[str, tuple[Callable[[], Any], str]] = {
    "jax.lax": (lambda: untyped.lax, "tg.scan, tg.cond, tg.while_loop and tg.fori_loop are loops and branches"),
    "jax.remat": (lambda: untyped.remat, "tg.checkpoint is that"),
    "lax.dynamic_slice": (lambda: untyped.dynamic_slice, "tg.take(x, start + tg.arange(size), axis) does that"),
    "lax.dynamic_update_slice": (lambda: untyped.dynamic_update_slice, "x.at[start + tg.arange(size)].set(values)"),
    "lax.associative_scan": (lambda: untyped.associative_scan, "tg.cumsum, tg.cumprod, tg.cummax and"),
    "lax.switch": (lambda: untyped.switch, "tg.cond chooses between two functions"),
    "lax.map": (lambda: untyped.map, "tg.vmap(function) maps at once"),
    "jax.tree_util": (lambda: untyped.tree_util, "tg.tree_map maps a function over trees, and tg.ravel_pytree"),
    "jax.tree.map": (lambda: untyped.tree.map, "tg.tree_map maps a function over trees"),
    "jax.debug.print": (lambda: untyped.debug.print, "tg.capture(name, x) names a value"),
    "jax.make_jaxpr": (lambda: untyped.make_jaxpr, "tg.trace(function, shape)"),
    "jax.pmap": (lambda: untyped.pmap, "group= of tg.compile divides a step among processes"),
    "jax.custom_jvp": (lambda: untyped.custom_jvp, "tg.custom_vjp has forward mode too"),
    "jax.device_put": (lambda: untyped.device_put, "x.to(device) copies one there"),
    "x.block_until_ready": (lambda: X.block_until_ready(), "reading waits for a value"),
    "jax.nn.relu": (lambda: untyped.nn.relu, "module 'tensorgrad.nn' has no attribute 'relu'; tg.relu is that"),
    "jax.random.PRNGKey": (lambda: untyped.random.PRNGKey, "tg.random.key is that"),
    "optax.exponential_decay": (lambda: untyped.optim.exponential_decay, "tg.optim.schedules.exponential is that"),
    "optax.polynomial_schedule": (lambda: untyped.optim.polynomial_schedule, "tg.optim.schedules.polynomial is that"),
    "torch.optim.LBFGS": (lambda: untyped.optim.LBFGS, "tg.optim.minimize(function, start, *data) is that"),
    "optax.adamw": (lambda: untyped.adamw, "tg.optim.adamw is that"),
    "ExponentialLR": (lambda: untyped.optim.schedules.ExponentialLR, "exponential with every=1 is that"),
    "torch.float": (lambda: untyped.float, "tg.f32 is that"),
    "torch.func": (lambda: untyped.func, "tg.grad, tg.vjp, tg.jvp, tg.vmap and tg.hessian"),
    "torch.linalg by its name": (lambda: untyped.svd, "tg.linalg.svd is that"),
    "nn.Linear": (lambda: untyped.Linear, "tg.nn.Linear is that"),
    "F.linear": (lambda: untyped.linear, "x @ weight + bias does that, and tg.nn.Linear in a model"),
    "torch.normal": (lambda: untyped.normal, "tg.random.normal is that"),
    "nn.ModuleList": (lambda: untyped.nn.ModuleList, "a list of modules, assigned to an attribute"),
    "x.expand_as": (lambda: X.expand_as(X), "x.expand(y.shape) does that"),
    "x.index_add": (lambda: X.index_add(0, [0], X), "x.at[indices].add(values) does that"),
    "x.max(1).values": (
        lambda: X.max(1).values,
        "the values alone, as one tensor; tg.argmax, tg.argmin and tg.argsort",
    ),
    "x.sort(1).indices": (lambda: X.sort(1).indices, "have the positions"),
    "x.outer": (lambda: X.outer(X), "no attribute 'outer'; tg.outer(x, y) is a function"),
    "x.nonzero": (lambda: X.nonzero(), "tg.nonzero(x) is a function"),
    "x.masked_select": (lambda: X.masked_select(X > 0), "tg.masked_select(x, mask) is a function"),
    "x.det": (lambda: X.det(), "tg.linalg.det(x) is a function"),
    "x.inverse": (lambda: X.inverse(), "tg.linalg.inv(x) is a function"),
    "x.multinomial": (lambda: X.multinomial(1), "tg.random.categorical(key, logits) draws"),
    "nn.SmoothL1Loss": (lambda: untyped.nn.SmoothL1Loss(), "tg.huber(prediction, target, delta=beta) / beta is that"),
    "F.smooth_l1_loss": (lambda: untyped.smooth_l1_loss(X, X), "tg.huber(prediction, target, delta=beta) / beta"),
    "LambdaLR": (
        lambda: untyped.optim.schedules.LambdaLR,
        "the rate itself, not a factor of it, and counts steps from 1",
    ),
    "x.dim": (lambda: X.dim(), "x.ndim is the number of axes"),
    "p.float": (lambda: untyped.nn.Linear(3, 2).weight.float(), "it has no values: model.initialized(seed)"),
    "nn.EmbeddingBag": (lambda: untyped.nn.EmbeddingBag, "tg.segment_sum(embedding(tokens), bags, count) is that"),
    "torch.bucketize": (lambda: untyped.bucketize, "tg.searchsorted(boundaries, x) is that"),
    "random.binomial": (lambda: untyped.random.binomial, "tg.sum(tg.random.bernoulli(key, p, (n, *shape)), 0) draws"),
    "nothing alike": (lambda: untyped.focal_loss, "no attribute 'focal_loss'"),
    "another case": (lambda: untyped.optim.ADAMW, "did you mean AdamW?"),
}


@pytest.mark.parametrize("name", HINTED)
def test_hinted_names(name: str) -> None:
    call, hint = HINTED[name]
    with pytest.raises(UnknownNameError) as caught:
        call()
    assert hint in str(caught.value)


ARGUMENTS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "x.transpose(1, 2)": (lambda: X[None].transpose(1, 2), ShapeError, "3 axes; swapaxes swaps two of them"),
    "x.transpose(0, 1)": (lambda: X.transpose(0, 1), ShapeError, "leaves a matrix as it is; swapaxes swaps two axes"),
    "aux": (lambda: untyped.grad(tg.sum, aux=True), ArgumentError, "no argument 'aux'; it is has_aux here"),
    "has_auxiliary": (lambda: untyped.vjp(tg.sum, X, has_auxiliary=True), ArgumentError, "did you mean has_aux?"),
    "cond_fun": (lambda: untyped.while_loop(cond_fun=tg.any), ArgumentError, "it is condition here"),
    "steps": (lambda: untyped.linspace(0, 1, steps=5), ArgumentError, "no argument 'steps'; it is num here"),
    "input": (lambda: untyped.sum(input=X), ArgumentError, "no argument 'input'; it is x here"),
    "attn_mask of a layer": (
        lambda: untyped.nn.MultiHeadAttention(4, 2).initialized(0)(tg.ones((2, 3, 4)), attn_mask=np.ones((3, 3), bool)),
        ArgumentError,
        "booleans of mask say where to attend, those of PyTorch's layers where not: mask=~attn_mask;",
    ),
    "memory_key_padding_mask": (
        lambda: untyped.nn.TransformerDecoderLayer(4, 2).initialized(0)(X, X, memory_key_padding_mask=X),
        ArgumentError,
        "memory_mask=~memory_key_padding_mask[:, None, None, :];",
    ),
    "attn_mask of a function": (
        lambda: untyped.nn.scaled_dot_product_attention(X, X, X, attn_mask=X),
        ArgumentError,
        "no argument 'attn_mask'; did you mean mask?",
    ),
    "expand": (lambda: X.expand(-1, 2, 3), ShapeError, "(2, 3) does not broadcast to (-1, 2, 3); -1 keeps an extent"),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_hinted_arguments(name: str) -> None:
    call, error, hint = ARGUMENTS[name]
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value).startswith(f"{__file__}:") and hint in str(caught.value)


def others(stub: str) -> Iterator[tuple[str, str]]:
    """Yields the names that a stub assigns, with what they stand for."""
    tree = ast.parse((FOLDER / stub).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            assert isinstance(node.targets[0], ast.Name)
            yield node.targets[0].id, node.value.id


def test_an_accepted_name_is_the_same_function() -> None:
    functions, methods = dict(others("__init__.pyi")), dict(others("surface/methods.pyi"))
    assert len(functions) > 40 and len(methods) > 25
    for other, name in functions.items():
        assert getattr(tg, other) is getattr(tg, name) and other in dir(tg)
        assert pickle.loads(pickle.dumps(getattr(tg, other))) is getattr(tg, name)
    for other, name in methods.items():
        assert inspect.unwrap(getattr(tg.Tensor, other)) is inspect.unwrap(getattr(tg.Tensor, name))
        assert other in dir(X) and functions.get(other, name) == name
    for other, name in (functions | methods).items():
        known = {theirs.rpartition(".")[2] for library in counterparts()[name] for theirs in library}
        assert other in known, f"{other} is a line of the table of counterparts"


def full(name: str) -> str:
    """Returns a name of the table with its module in full."""
    first, _, rest = name.partition(".")
    return f"{ABBREVIATIONS.get(first, first)}.{rest}"


def test_counterparts_exist() -> None:
    """JAX is not among what tests install, so of its names only those are checked that NumPy has too."""
    public = {path.removeprefix("tensorgrad."): value for path, value in public_objects().items()}
    assert len(counterparts()) > 450 and counterparts().keys() <= public.keys()
    for row in counterparts().values():
        for name in (*row.numpy, *row.torch):
            assert pydoc.locate(full(name)) is not None, name
        for name in row.jax:
            assert re.fullmatch(r"(jnp|jax|optax)(\.\w+)+", name)


def test_no_hint_is_for_a_name_that_exists() -> None:
    for owner, hints in foreign.NAMES.items():
        value = {"tensorgrad": tg, "Tensor": tg.Tensor}.get(owner)
        if value is not None:
            known = set(dir(value))  # in which a name that isn't there costs no search for the nearest
            assert len(known) > 100 and known.isdisjoint(hints)


def test_conversions_go_with_traces_and_gradients() -> None:
    found = tg.jit(lambda x: x.int().float() + x.half().float(), device="cpu")(ARRAY)
    np.testing.assert_allclose(found, ARRAY.astype(np.int32) + ARRAY)
    np.testing.assert_allclose(tg.grad(lambda x: tg.sum(x.half().float() ** 2))(ARRAY), 2 * ARRAY)
    x = tg.tensor(ARRAY[:1], device="cpu", requires_grad=True)
    tg.sum(x.expand(4, -1).view(-1).pow(2)).backward()
    np.testing.assert_allclose(x.grad, 8 * ARRAY[:1])
