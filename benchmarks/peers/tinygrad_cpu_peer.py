"""The workloads in tinygrad's CPU backend, which compiles with Clang and runs one thread per core.

tinygrad's device is chosen per process, so this peer runs only if the WebGPU backend doesn't.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from importlib.util import find_spec

import numpy as np

from benchmarks.harness import Contestant
from benchmarks.peers.tinygrad_peer import run_on


def contestant(name: str, parameters: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> Contestant | None:
    """Returns a workload in tinygrad; `None` if it or Clang isn't installed, or it already uses another device."""
    if find_spec("tinygrad") is None or shutil.which("clang") is None or os.environ.setdefault("DEV", "CPU") != "CPU":
        return None
    return run_on("CPU", name, parameters, batch)
