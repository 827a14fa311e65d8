"""What WGSL leaves to a device: subnormal numbers, quotients, and the size of subgroups."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

import tensorgrad as tg
from tensorgrad.runtime.target import Target
from tensorgrad.runtime.webgpu import WebGPUDevice

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


def with_subgroups_of(device: WebGPUDevice, target: Target) -> Target:
    """Returns a target with the device's subgroups, if it has any: kernels exchange values among their lanes."""
    if target.subgroup_size in (None, device.target.subgroup_size):
        return target
    return replace(target, subgroups=device.target.subgroups, subgroup_size=device.target.subgroup_size)
