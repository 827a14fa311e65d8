"""The workloads in PyTorch on the CPU or a CUDA device, eager or compiled, with fused Adam."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from benchmarks.harness import Contestant
from benchmarks.peers import SETTINGS
from benchmarks.peers.layers import Parameters, layers
from benchmarks.workloads import smollm2 as smollm2_workload


def _linear(p: Parameters, name: str, x: Any) -> Any:
    return torch.addmm(p[f"{name}.bias"], x.reshape(-1, x.shape[-1]), p[f"{name}.weight"]).reshape(*x.shape[:-1], -1)


def mlp(p: Parameters, x: Any, y: Any) -> Any:
    return functional.cross_entropy(layers(p, "layers.", x, torch.relu, _linear), y.long())


def sine(p: Parameters, x: Any, y: Any) -> Any:
    return functional.mse_loss(layers(p, "layers.", x, torch.tanh, _linear), y)


def convnet(p: Parameters, x: Any, y: Any) -> Any:
    for name in ("first", "second"):
        x = functional.conv2d(x, p[f"{name}.weight"], p[f"{name}.bias"], padding=1)
        x = functional.max_pool2d(torch.relu(x), 2)
    return functional.cross_entropy(layers(p, "head.layers.", x.flatten(1), torch.relu, _linear), y.long())


def _norm(p: Parameters, name: str, x: Any) -> Any:
    return functional.layer_norm(x, x.shape[-1:], p[f"{name}.weight"], p[f"{name}.bias"])


def _transformer(p: Parameters, tokens: Any, activation: Callable[[Any], Any], heads: int = 4) -> Any:
    x = p["tokens.weight"][tokens] + p["positions"]
    batch, length, width = x.shape
    for block in range(sum(name.endswith("norm1.weight") for name in p)):
        name = f"blocks.{block}"
        h = _norm(p, f"{name}.norm1", x)
        split = [_linear(p, f"{name}.attention.{part}", h).view(batch, length, heads, -1) for part in "qkv"]
        attended = functional.scaled_dot_product_attention(*(part.transpose(1, 2) for part in split), is_causal=True)
        joined = attended.transpose(1, 2).reshape(batch, length, width)
        x = x + _linear(p, f"{name}.attention.out", joined)
        x = x + layers(p, f"{name}.mlp.layers.", _norm(p, f"{name}.norm2", x), activation, _linear)
    return _norm(p, "norm", x) @ p["tokens.weight"].T


def gpt(p: Parameters, tokens: Any, following: Any) -> Any:
    return functional.cross_entropy(_transformer(p, tokens, functional.gelu).flatten(0, 1), following.long().flatten())


def addition(p: Parameters, tokens: Any, result: Any) -> Any:
    return functional.cross_entropy(_transformer(p, tokens, torch.relu)[:, -3:].flatten(0, 1), result.long().flatten())


def _rms_norm(p: Parameters, name: str, x: Any) -> Any:
    return functional.rms_norm(x, x.shape[-1:], p[f"{name}.weight"], smollm2_workload.EPS)


def _rotated(x: Any, cosine: Any, sine: Any) -> Any:
    first, second = x.chunk(2, -1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], -1)


def _shared_attention(p: Parameters, name: str, x: Any, angles: tuple[Any, Any]) -> Any:
    """Applies causal grouped-query attention without biases."""
    batch, length, width = x.shape
    size = width // smollm2_workload.HEADS
    q, k, v = ((x @ p[f"{name}.{part}.weight"]).view(batch, length, -1, size).transpose(1, 2) for part in "qkv")
    q, k = _rotated(q, *angles), _rotated(k, *angles)
    attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return attended.transpose(1, 2).reshape(batch, length, width) @ p[f"{name}.out.weight"]


def smollm2(p: Parameters, tokens: Any, following: Any) -> Any:
    x = functional.embedding(tokens, p["tokens.weight"])
    half = x.shape[-1] // smollm2_workload.HEADS // 2
    turns = smollm2_workload.ROTARY ** (-torch.arange(half, dtype=torch.float64, device=x.device) / half)
    angles = torch.arange(x.shape[1], device=x.device)[:, None] * turns
    rotation = angles.cos().float(), angles.sin().float()
    for block in range(sum(name.endswith("norm1.weight") for name in p)):
        name = f"blocks.{block}"
        x = x + _shared_attention(p, f"{name}.attention", _rms_norm(p, f"{name}.norm1", x), rotation)
        h = _rms_norm(p, f"{name}.norm2", x)
        gate, up = (h @ p[f"{name}.mlp.{part}.weight"] for part in ("gate", "up"))
        x = x + (functional.silu(gate) * up) @ p[f"{name}.mlp.down.weight"]
    logits = _rms_norm(p, "norm", x) @ p["tokens.weight"].T
    return functional.cross_entropy(logits.flatten(0, 1), following.long().flatten())


LOSSES: dict[str, Callable[..., Any]] = {
    "mlp": mlp,
    "gpt": gpt,
    "sine": sine,
    "addition": addition,
    "convnet": convnet,
    "smollm2": smollm2,
}


def is_available(compiled: bool = False, device: str = "cpu") -> bool:
    """Returns whether the device exists, and, if compiling for the CPU, the C++ compiler that this needs."""
    if device == "cuda":
        return torch.cuda.is_available()
    return not compiled or shutil.which(os.environ.get("CXX", "g++")) is not None


def contestant(
    name: str,
    parameters: Mapping[str, np.ndarray],
    batch: Mapping[str, np.ndarray],
    compiled: bool = False,
    device: str = "cpu",
) -> Contestant:
    """Returns a workload in PyTorch; with `compiled`, `torch.compile` compiles the loss and its backward pass.

    On a CUDA device, products and convolutions are in f32, as ours: TF32, which convolutions have by default, is off.
    """
    settings = SETTINGS[name]
    torch.backends.cudnn.allow_tf32 = False
    loss = torch.compile(LOSSES[name], dynamic=False) if compiled else LOSSES[name]
    p = {path: torch.nn.Parameter(torch.tensor(value, device=device)) for path, value in parameters.items()}
    tensors = {key: torch.tensor(value, device=device) for key, value in batch.items()}
    decayed = {path for path in p if path.endswith(settings.decay)}
    groups = [
        {"params": [value for path, value in p.items() if path in decayed], "weight_decay": settings.weight_decay or 0},
        {"params": [value for path, value in p.items() if path not in decayed], "weight_decay": 0.0},
    ]
    kind = torch.optim.Adam if settings.weight_decay is None else torch.optim.AdamW
    optimizer = kind([group for group in groups if group["params"]], lr=settings.learning_rate, fused=True)

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        value = loss(p, **tensors)
        value.backward()
        if settings.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(p.values(), settings.clip_norm)
        optimizer.step()
        return value.detach().item()

    return Contestant(
        f"torch{'.compile' if compiled else ' eager'} ({device.upper()})",
        step,
        {"version": torch.__version__, "threads": torch.get_num_threads()},
    )
