"""The workloads in PyTorch with `torch.compile` on a CUDA device."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from benchmarks.harness import Contestant
from benchmarks.peers import torch_peer


def contestant(name: str, parameters: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> Contestant | None:
    """Returns a workload in PyTorch, compiled; `None` if there is no CUDA device."""
    if not torch.cuda.is_available():
        return None
    return torch_peer.contestant(name, parameters, batch, compiled=True, device="cuda")
