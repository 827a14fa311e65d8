"""The training steps to benchmark, each a module with a function `build(device)`.

`build` returns the result of `tg.compile`, and one batch: the arguments of `Training.step`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, TypeAlias, cast

import numpy as np

import tensorgrad as tg

Batch: TypeAlias = dict[str, np.ndarray]


class Build(Protocol):
    """Compiles a workload's training step."""

    def __call__(self, device: tg.DeviceName, *, tune: bool | float = False) -> tuple[tg.Training, Batch]:
        """Returns the step on a device, and a batch."""
        ...


NAMES = ("mlp", "gpt", "sine", "addition", "convnet")
"""The workloads, by module name."""

LARGE = ("smollm2",)
"""The workloads that take gigabytes and minutes, and run only if they are named."""


def workload(name: str) -> Build:
    """Returns the function that builds a workload on a device."""
    return cast(Build, import_module(f"benchmarks.workloads.{name}").build)
