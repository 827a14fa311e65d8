"""What a WebGPU device's arithmetic does where WGSL leaves it to the device: subnormal numbers, and quotients."""

from __future__ import annotations

from functools import cache

import numpy as np

import tensorgrad as tg

SMALLEST_NORMAL = float(np.finfo(np.float32).smallest_normal)


@cache
def flushes_subnormals() -> bool:
    """Returns whether the device takes subnormal numbers for zeros."""
    half = tg.jit(lambda x: x * 0.5, device="wgpu")(np.array([SMALLEST_NORMAL], np.float32))
    return float(np.asarray(half)[0]) == 0


@cache
def divides_exactly() -> bool:
    """Returns whether the device rounds quotients correctly; WGSL allows 2.5 ulp."""
    x, y = (np.random.default_rng(seed).normal(size=10_000).astype(np.float32) for seed in range(2))
    return bool(np.array_equal(np.asarray(tg.jit(lambda x, y: x / y, device="wgpu")(x, y)), x / y))
