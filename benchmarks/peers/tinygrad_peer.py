"""The workloads in tinygrad's WebGPU backend, which runs them through Dawn on the same adapter.

It needs `tinygrad` and `dawn-python`, which contains the library that tinygrad loads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Contestant
from benchmarks.peers import SETTINGS, Settings
from benchmarks.peers.layers import Parameters, layers, linear


def mlp(p: Parameters, x: Any, y: Any) -> Any:
    return layers(p, "layers.", x, lambda h: h.relu()).sparse_categorical_crossentropy(y)


def sine(p: Parameters, x: Any, y: Any) -> Any:
    return (layers(p, "layers.", x, lambda h: h.tanh()) - y).square().mean()


def convnet(p: Parameters, x: Any, y: Any) -> Any:
    for name in ("first", "second"):
        x = x.conv2d(p[f"{name}.weight"], p[f"{name}.bias"], padding=1).relu().max_pool2d(2)
    return layers(p, "head.layers.", x.flatten(1), lambda h: h.relu()).sparse_categorical_crossentropy(y)


def _norm(p: Parameters, name: str, x: Any) -> Any:
    return x.layernorm(eps=1e-5) * p[f"{name}.weight"] + p[f"{name}.bias"]


def _gelu(x: Any) -> Any:
    return x * 0.5 * (1 + (x * 0.5**0.5).erf())


def _transformer(p: Parameters, tokens: Any, activation: Callable[[Any], Any], heads: int = 4) -> Any:
    x = p["tokens.weight"][tokens] + p["positions"]
    batch, length, width = x.shape
    for block in range(sum(name.endswith("norm1.weight") for name in p)):
        name = f"blocks.{block}"
        h = _norm(p, f"{name}.norm1", x)
        q, k, v = (
            linear(p, f"{name}.attention.{part}", h).reshape(batch, length, heads, width // heads).transpose(1, 2)
            for part in "qkv"
        )
        attended = q.scaled_dot_product_attention(k, v, is_causal=True).transpose(1, 2).reshape(batch, length, width)
        x = x + linear(p, f"{name}.attention.out", attended)
        x = x + layers(p, f"{name}.mlp.layers.", _norm(p, f"{name}.norm2", x), activation)
    return _norm(p, "norm", x) @ p["tokens.weight"].transpose()


def gpt(p: Parameters, tokens: Any, following: Any) -> Any:
    return _transformer(p, tokens, _gelu).flatten(0, 1).sparse_categorical_crossentropy(following.flatten())


def addition(p: Parameters, tokens: Any, result: Any) -> Any:
    return (
        _transformer(p, tokens, lambda h: h.relu())[:, -3:]
        .flatten(0, 1)
        .sparse_categorical_crossentropy(result.flatten())
    )


LOSSES: dict[str, Callable[..., Any]] = {
    "mlp": mlp,
    "gpt": gpt,
    "sine": sine,
    "addition": addition,
    "convnet": convnet,
}


def find_dawn() -> bool:
    """Configures tinygrad to use Dawn on Vulkan; returns whether both are installed."""
    package = find_spec("pydawn")
    if package is None or package.origin is None or find_spec("tinygrad") is None:
        return False
    libraries = sorted((Path(package.origin).parent / "lib").glob("libwebgpu_dawn_x86_64.so"))
    if not libraries:
        return False
    os.environ.setdefault("DEV", "WEBGPU")
    os.environ.setdefault("WEBGPU_PATH", str(libraries[0]))
    os.environ.setdefault("WEBGPU_BACKEND", "WGPUBackendType_Vulkan")
    return True


def _optimizer(p: dict[str, Any], settings: Settings) -> Any:
    from tinygrad.nn import optim

    if settings.weight_decay is None:
        return optim.Adam(list(p.values()), lr=settings.learning_rate)
    decayed = [value for path, value in p.items() if path.endswith(settings.decay)]
    others = [value for path, value in p.items() if not path.endswith(settings.decay)]
    groups = [(decayed, settings.weight_decay), (others, 0.0)]
    optimizers = [optim.AdamW(group, lr=settings.learning_rate, weight_decay=decay) for group, decay in groups if group]
    return optim.OptimizerGroup(*optimizers)


def contestant(name: str, parameters: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> Contestant | None:
    """Returns a workload in tinygrad; `None` if it or Dawn isn't installed."""
    return run_on("WEBGPU", name, parameters, batch) if find_dawn() else None


def run_on(device: str, name: str, parameters: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> Contestant:
    """Returns a workload in tinygrad on the named device, which the variable `DEV` must name too."""
    from tinygrad.engine.jit import TinyJit
    from tinygrad.helpers import Context, GlobalCounters
    from tinygrad.tensor import Tensor

    settings, loss = SETTINGS[name], LOSSES[name]
    p = {path: Tensor(np.array(value)).contiguous().realize() for path, value in parameters.items()}
    for value in p.values():
        value.is_param_()
    tensors = {key: Tensor(np.array(value)).realize() for key, value in batch.items()}
    optimizer = _optimizer(p, settings)

    @TinyJit
    def jitted() -> Any:
        optimizer.zero_grad()
        value = loss(p, **tensors).backward()
        if settings.clip_norm is not None:
            gradients = [parameter.grad for parameter in optimizer.params]
            total: Any = Tensor(0.0)
            for gradient in gradients:
                total = total + gradient.square().sum()
            norm = total.sqrt()
            scale = (settings.clip_norm / (norm + 1e-6)).minimum(1.0)
            for gradient in gradients:
                gradient.assign(gradient * scale)
        return value.realize(*optimizer.schedule_step())

    counts: dict[str, Any] = {}

    def step() -> float:
        with Context(TRAINING=1):
            GlobalCounters.reset()
            value = jitted().item()
        counts["kernels"] = GlobalCounters.kernel_count
        return value

    return Contestant(f"tinygrad {device}", step, counts)
