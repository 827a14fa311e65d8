"""Functions of JAX's arrays as their authors write them, with arguments; the floats are differentiated."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from draws import generator

jax: Any = import_module("jax")
jnp: Any = import_module("jax.numpy")
lax: Any = jax.lax

RNG = generator(0)


def floats(*shape: int, scale: float = 0.4) -> np.ndarray:
    return (scale * RNG.normal(size=shape)).astype(np.float32)


def mlp_step(params: Any, x: Any, y: Any) -> Any:
    """A step of gradient descent: JAX's derivative, of which ours is the second."""

    def loss(params: Any) -> Any:
        hidden = jax.nn.relu(x @ params["w1"] + params["b1"])
        logits = jax.nn.log_softmax(hidden @ params["w2"])
        return -jnp.mean(jnp.sum(logits * jax.nn.one_hot(y, 3), -1))

    return jax.tree.map(lambda value, slope: value - 0.1 * slope, params, jax.grad(loss)(params))


def normalized(x: Any, scale: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * scale


def transformer_block(params: Any, x: Any) -> Any:
    batch, length, width = x.shape
    h = normalized(x, params["scale"])
    q, k, v = ((h @ params[name]).reshape(batch, length, 2, -1).transpose(0, 2, 1, 3) for name in "qkv")
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(width // 2)
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
    mixed = jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores), v).transpose(0, 2, 1, 3).reshape(x.shape)
    x = x + mixed @ params["o"]
    return x + jax.nn.gelu(normalized(x, params["scale"]) @ params["up"]) @ params["down"]


def conv_net(params: Any, x: Any) -> Any:
    layout = ("NHWC", "HWIO", "NHWC")
    h = jax.nn.relu(lax.conv_general_dilated(x, params["first"], (1, 1), "SAME", dimension_numbers=layout))
    h = lax.reduce_window(h, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    h = lax.conv_general_dilated(h, params["second"], (2, 2), "SAME", dimension_numbers=layout, feature_group_count=2)
    h = lax.reduce_window(h, 0.0, lax.add, (1, 2, 2, 1), (1, 1, 1, 1), "SAME")
    return jnp.tanh(h.reshape(x.shape[0], -1) @ params["head"])


def ode(p: Any, start: Any) -> Any:
    def step(y: Any, t: Any) -> Any:
        y = y + 0.1 * jnp.tanh(p @ y) * t
        return y, y

    return lax.scan(step, start, jnp.linspace(0, 1, 10))


def reversed_scan(p: Any, xs: Any, h: Any) -> Any:
    return lax.scan(jax.checkpoint(lambda h, x: (jnp.tanh(x @ p + h), h)), h, xs, reverse=True)


def sorting(x: Any, values: Any) -> Any:
    keys, sorted_values = lax.sort((x, values), num_keys=1)
    top, _ = lax.top_k(x, 2)
    return jnp.sort(x, 0), keys, sorted_values, top, jnp.median(x), jnp.take_along_axis(values, jnp.argsort(x), 1)


def gathers(x: Any, i: Any) -> Any:
    picked = jnp.take_along_axis(x, i[:, None], 1)
    return x[i], jnp.take(x, i, axis=1), picked, x[i, i], x[:, 1:3], lax.dynamic_slice(x, (i[1], 0), (2, 3))


def scatters(x: Any, i: Any, u: Any) -> Any:
    changed = x.at[i].set(u), x.at[i].add(u), x.at[1:3].mul(2.0), x.at[i].max(u), x.at[i, i].set(1.0)
    return *changed, lax.dynamic_update_slice(x, u[:2, :2], (i[0], 1))


def reductions(x: Any) -> Any:
    cumulative = jnp.cumsum(x, 0), jnp.cumprod(x, 1), lax.cummax(x)
    place = jnp.argmax(x, 1)
    chosen = jnp.select([x > 0.3, x > 0], [x, 2 * x], -1.0), jnp.argmin(x > 0, 0)
    return (
        *cumulative,
        *chosen,
        jnp.prod(x),
        jax.nn.logsumexp(x, 1),
        jnp.take_along_axis(x, place[:, None], 1),
        jnp.std(x),
    )


def own_reductions(x: Any) -> Any:
    """Sums of logarithms, the moments of groups, and windows, by functions of their own."""

    def joined(left: Any, right: Any) -> Any:
        (n, mean, spread), (m, other, more) = left, right
        total, apart = jnp.maximum(n + m, 1), other - mean
        return n + m, mean + apart * m / total, spread + more + apart**2 * n * m / total

    lowest, zero = np.float32(-np.inf), np.float32(0)
    return (
        lax.reduce(x, lowest, jnp.logaddexp, (1,)),
        lax.reduce((jnp.ones_like(x), x, jnp.zeros_like(x)), (zero, zero, zero), joined, (0,))[1:],
        lax.reduce((x * 100).astype(jnp.int32), np.int32(0), lax.bitwise_xor, (0, 1)),
        lax.reduce(x > 0, np.bool_(False), lax.bitwise_xor, (1,)),
        lax.reduce_window(x, lowest, jnp.logaddexp, (1, 3), (1, 2), ((0, 0), (1, 1))),
    )


def branches(p: Any, x: Any) -> Any:
    chosen = lax.cond(p > 0, jnp.sin, lambda x: 2 * x, x)
    counted = lax.fori_loop(0, 5, lambda i, x: x * jnp.cos(x) + i, x)
    return chosen, counted, lax.switch(p, [jnp.sin, jnp.cos, jnp.tanh], x)


def functions(x: Any) -> Any:
    special = jax.scipy.special
    return (
        *(f(x) for f in (jnp.exp, jnp.sin, jnp.tan, jnp.abs, jnp.log1p, jnp.expm1, jnp.sign, jnp.floor, jnp.round)),
        *(f(x) for f in (special.erf, special.erfc, jnp.arcsin, jnp.arccos, jnp.arctan, jnp.sinh, jnp.arcsinh)),
        *(f(x) for f in (jax.nn.silu, jax.nn.softplus, jax.nn.gelu, lax.cbrt, lax.erf_inv, jnp.arctanh, jnp.trunc)),
        x**3,
        jnp.arctan2(x, 1 + x),
        jnp.mod(x, 0.3),
        lax.rem(x, jnp.float32(0.3)),
        jnp.clip(x, -0.2, 0.2),
    )


PLACES = np.array([0, 2, 1, 3], np.int32)
D = 8

EXAMPLES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "mlp_step": (
        mlp_step,
        ({"w1": floats(4, 8), "b1": floats(8), "w2": floats(8, 3)}, floats(5, 4), np.array([0, 1, 2, 1, 0], np.int32)),
    ),
    "transformer_block": (
        transformer_block,
        (
            {
                "scale": floats(D),
                **{name: floats(D, D) for name in "qkvo"},
                "up": floats(D, 2 * D),
                "down": floats(2 * D, D),
            },
            floats(2, 5, D),
        ),
    ),
    "conv_net": (
        conv_net,
        ({"first": floats(3, 3, 2, 4), "second": floats(3, 3, 2, 4), "head": floats(16, 3)}, floats(2, 8, 8, 2)),
    ),
    "ode": (ode, (floats(3, 3), floats(3))),
    "reversed_scan": (reversed_scan, (floats(3, 3), floats(6, 2, 3), floats(2, 3))),
    "sorting": (sorting, (floats(4, 5), floats(4, 5))),
    "gathers": (gathers, (floats(4, 5), PLACES)),
    "scatters": (scatters, (floats(4, 5), PLACES, floats(4, 5))),
    "reductions": (reductions, (floats(4, 5),)),
    "own_reductions": (own_reductions, (floats(4, 7),)),
    "branches": (branches, (np.int32(1), floats(3))),
    "functions": (functions, (floats(7),)),
}
