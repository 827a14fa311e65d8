"""A training on the device `cpu`, and small modules of LLVM IR, for tests and the processes that they start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import tensorgrad as tg

HELPERS = str(Path(__file__).parent)
"""The folder of the modules that tests share, which processes that they start add to their path."""

SHAPES = {"x": (256, 96), "y": (256, 1)}


class Network(tg.nn.Module):
    """A model with products, row reductions, column reductions, and pointwise kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = tg.nn.Linear(96, 160), tg.nn.LayerNorm(160), tg.nn.Linear(160, 1)

    def __call__(self, x: Any) -> Any:
        return self.last(tg.gelu(self.norm(self.first(x))))


def compiled(**options: Any) -> tg.Training:
    optimizer = tg.optim.adamw(1e-2, clip_norm=1.0)
    settings: dict[str, Any] = {"optimizer": optimizer, "inputs": SHAPES, "device": "cpu", **options}
    return tg.compile(Network(), loss=lambda m, x, y: tg.mse(m(x), y), **settings)


def batch(seed: int) -> dict[str, np.ndarray]:
    x = np.random.default_rng(seed).normal(size=SHAPES["x"]).astype(np.float32)
    return {"x": x, "y": np.tanh(x[:, :1] * x[:, 1:2])}


def module(name: str, called: str = "") -> str:
    """Returns a function that adds one to the result of another."""
    before = f"declare void @{called}(ptr)\n" if called else ""
    call = f"  call void @{called}(ptr %x)\n" if called else ""
    return f"""{before}define void @{name}(ptr %x) {{
{call}  %v = load i32, ptr %x
  %w = add i32 %v, 1
  store i32 %w, ptr %x
  ret void
}}
"""
