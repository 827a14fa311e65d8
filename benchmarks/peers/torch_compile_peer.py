"""The workloads in PyTorch with `torch.compile`, which needs a C++ compiler."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping

import numpy as np

from benchmarks.harness import Contestant
from benchmarks.peers import torch_peer


def contestant(name: str, parameters: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> Contestant | None:
    """Returns a workload in PyTorch, compiled; `None` if there is no compiler."""
    if shutil.which(os.environ.get("CXX", "g++")) is None:
        return None
    return torch_peer.contestant(name, parameters, batch, compiled=True)
