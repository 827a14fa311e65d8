"""The workloads in JAX: one jitted step that updates weights and state in place, on JAX's default device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.harness import Contestant
from benchmarks.peers import SETTINGS, Settings
from benchmarks.peers.layers import Parameters, layers, linear

jax.config.update("jax_default_matmul_precision", "highest")  # on a GPU it would be TF32

BETA1, BETA2, EPS = 0.9, 0.999, 1e-8


def _cross_entropy(logits: Any, labels: Any) -> Any:
    rows = jax.nn.log_softmax(logits.reshape(-1, logits.shape[-1]))
    return -jnp.take_along_axis(rows, labels.reshape(-1, 1), axis=1).mean()


def mlp(p: Parameters, x: Any, y: Any) -> Any:
    return _cross_entropy(layers(p, "layers.", x, jax.nn.relu), y)


def sine(p: Parameters, x: Any, y: Any) -> Any:
    return jnp.mean((layers(p, "layers.", x, jnp.tanh) - y) ** 2)


def convnet(p: Parameters, x: Any, y: Any) -> Any:
    window = (1, 1, 2, 2)
    for name in ("first", "second"):
        x = lax.conv(x, p[f"{name}.weight"], (1, 1), "SAME") + p[f"{name}.bias"][:, None, None]
        x = lax.reduce_window(jax.nn.relu(x), -jnp.inf, lax.max, window, window, "VALID")
    return _cross_entropy(layers(p, "head.layers.", x.reshape(x.shape[0], -1), jax.nn.relu), y)


def _norm(p: Parameters, name: str, x: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    scale = lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    return centred * scale * p[f"{name}.weight"] + p[f"{name}.bias"]


def _transformer(p: Parameters, tokens: Any, activation: Callable[[Any], Any], heads: int = 4) -> Any:
    x = p["tokens.weight"][tokens] + p["positions"]
    batch, length, _ = x.shape
    for block in range(sum(name.endswith("norm1.weight") for name in p)):
        name = f"blocks.{block}"
        h = _norm(p, f"{name}.norm1", x)
        split = [linear(p, f"{name}.attention.{part}", h).reshape(batch, length, heads, -1) for part in "qkv"]
        attended = jax.nn.dot_product_attention(*split, is_causal=True)
        x = x + linear(p, f"{name}.attention.out", attended.reshape(batch, length, -1))
        x = x + layers(p, f"{name}.mlp.layers.", _norm(p, f"{name}.norm2", x), activation)
    return _norm(p, "norm", x) @ p["tokens.weight"].T


def _gelu(x: Any) -> Any:
    return jax.nn.gelu(x, approximate=False)


def gpt(p: Parameters, tokens: Any, following: Any) -> Any:
    return _cross_entropy(_transformer(p, tokens, _gelu), following)


def addition(p: Parameters, tokens: Any, result: Any) -> Any:
    return _cross_entropy(_transformer(p, tokens, jax.nn.relu)[:, -3:], result)


LOSSES: dict[str, Callable[..., Any]] = {
    "mlp": mlp,
    "gpt": gpt,
    "sine": sine,
    "addition": addition,
    "convnet": convnet,
}


def _updated(settings: Settings, state: Any, gradients: Parameters) -> Any:
    """Returns the weights, moments and step count after an Adam update."""
    weights, first, second, count = state
    if settings.clip_norm is not None:
        norm = jnp.sqrt(sum(jnp.sum(gradient * gradient) for gradient in gradients.values()))
        factor = jnp.minimum(1.0, settings.clip_norm / (norm + 1e-6))
        gradients = {path: factor * gradient for path, gradient in gradients.items()}
    count = count + 1
    first = {path: BETA1 * first[path] + (1 - BETA1) * gradient for path, gradient in gradients.items()}
    second = {path: BETA2 * second[path] + (1 - BETA2) * gradient * gradient for path, gradient in gradients.items()}
    size, root = settings.learning_rate / (1 - BETA1**count), jnp.sqrt(1 - BETA2**count)
    shrinkage = 1 - settings.learning_rate * (settings.weight_decay or 0.0)
    decayed = {
        path: shrinkage * weight if path.endswith(settings.decay) else weight for path, weight in weights.items()
    }
    weights = {
        path: weight - size * first[path] / (jnp.sqrt(second[path]) / root + EPS) for path, weight in decayed.items()
    }
    return weights, first, second, count


def step_function(name: str) -> Callable[[Any, Any], tuple[Any, Any]]:
    """Returns a workload's step function: from state and batch to the loss and the new state."""
    settings, loss = SETTINGS[name], LOSSES[name]

    def advanced(state: Any, batch: Any) -> tuple[Any, Any]:
        value, gradients = jax.value_and_grad(lambda weights: loss(weights, **batch))(state[0])
        return value, _updated(settings, state, gradients)

    return advanced


def first_state(parameters: Mapping[str, np.ndarray]) -> Any:
    """Returns the state before the first step: weights, moments and the step count."""
    weights = {path: jnp.array(value) for path, value in parameters.items()}
    zeros = [{path: jnp.zeros_like(value) for path, value in weights.items()} for _ in range(2)]
    return weights, *zeros, jnp.zeros((), jnp.float32)


def contestant(name: str, parameters: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> Contestant:
    """Returns a workload in JAX."""
    compiled = jax.jit(step_function(name), donate_argnums=0)
    state = first_state(parameters)
    arrays = {key: jnp.array(value) for key, value in batch.items()}

    def step() -> float:
        nonlocal state
        value, state = compiled(state, arrays)
        return float(value)

    return Contestant(f"jax.jit ({jax.default_backend().upper()})", step, {"version": jax.__version__})
