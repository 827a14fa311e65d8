"""The workloads in PyTorch on a CUDA device."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from benchmarks.harness import Contestant
from benchmarks.peers import torch_peer


def contestant(name: str, parameters: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> Contestant | None:
    """Returns a workload in PyTorch on a CUDA device; `None` if there is none."""
    if not torch.cuda.is_available():
        return None
    return torch_peer.contestant(name, parameters, batch, device="cuda")
