"""The workloads in tinygrad's CPU backend, which compiles by Clang and runs on one thread of each core.

Its device is that of the whole process, so it takes part where tinygrad's WebGPU backend does not.
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
    """Returns a workload in tinygrad; `None` where it or Clang isn't installed, or it has another device already."""
    if find_spec("tinygrad") is None or shutil.which("clang") is None or os.environ.setdefault("DEV", "CPU") != "CPU":
        return None
    return run_on("CPU", name, parameters, batch)
