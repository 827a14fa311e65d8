"""Workload `mlp` in carefully handwritten NumPy, without a compiler."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from benchmarks.harness import Contestant


def contestant(name: str, parameters: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> Contestant | None:
    """Returns the step; `None` for other workloads."""
    if name != "mlp":
        return None
    p = {path: np.array(value) for path, value in parameters.items()}
    x, y = batch["x"], batch["y"]
    rows = len(x)
    first = {path: np.zeros_like(value) for path, value in p.items()}
    second = {path: np.zeros_like(value) for path, value in p.items()}
    count = 0

    def step() -> float:
        nonlocal count
        count += 1
        (w0, b0), (w1, b1), (w2, b2) = ((p[f"layers.{i}.weight"], p[f"layers.{i}.bias"]) for i in range(3))
        h1 = np.maximum(x @ w0 + b0, 0)
        h2 = np.maximum(h1 @ w1 + b1, 0)
        z = h2 @ w2 + b2
        e = np.exp(z - z.max(1, keepdims=True))
        share = e / e.sum(1, keepdims=True)
        value = float(-np.log(share[np.arange(rows), y]).mean())
        share[np.arange(rows), y] -= 1
        dz = share / np.float32(rows)
        dh2 = (dz @ w2.T) * (h2 > 0)
        dh1 = (dh2 @ w1.T) * (h1 > 0)
        gradients = [x.T @ dh1, dh1.sum(0), h1.T @ dh2, dh2.sum(0), h2.T @ dz, dz.sum(0)]
        for path, g in zip(p, gradients, strict=True):
            first[path] += np.float32(0.1) * (g - first[path])
            second[path] += np.float32(0.001) * (g * g - second[path])
            step_size = np.float32(1e-3 / (1 - 0.9**count))
            scale = np.float32((1 - 0.999**count) ** -0.5)
            p[path] -= step_size * first[path] / (np.sqrt(second[path]) * scale + np.float32(1e-8))
        return value

    return Contestant("numpy by hand", step)
