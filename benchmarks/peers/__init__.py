"""The workloads in other libraries: the same formulas, initial weights and data, on a device of the same machine.

Each peer is a module with `contestant(name, parameters, batch)`, which returns `None` if it can't run the workload, or
such a module with options.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.harness import Contestant

ON_CPU = ("numpy_peer", "torch_peer", "torch_compile_peer", "jax_peer", "iree_peer", "tinygrad_cpu_peer")
PEERS = ("hand_fused", "tinygrad_peer", "torch_cuda_peer", "torch_cuda_compile_peer", *ON_CPU)

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "torch_compile_peer": ("torch_peer", {"compiled": True}),
    "torch_cuda_peer": ("torch_peer", {"device": "cuda"}),
    "torch_cuda_compile_peer": ("torch_peer", {"compiled": True, "device": "cuda"}),
}
"""The peers that are another one with these options; its `is_available` says whether it can take them."""

ONLY = {"smollm2": ("torch_peer", "torch_compile_peer", "torch_cuda_peer", "torch_cuda_compile_peer")}
"""The workloads that only some peers implement, with those peers."""


@dataclass(frozen=True)
class Settings:
    """The optimizer settings of a workload, which all peers use.

    Attributes:
        learning_rate: The learning rate of Adam, with the usual betas.
        weight_decay: The decoupled weight decay; None for plain Adam.
        decay: The suffix of the names of parameters that decay; the empty string matches all.
        clip_norm: The maximum global norm of the gradients, or None.
    """

    learning_rate: float
    weight_decay: float | None = None
    decay: str = ""
    clip_norm: float | None = None


SETTINGS = {
    "mlp": Settings(1e-3),
    "gpt": Settings(3e-4, weight_decay=0.1, decay=".weight", clip_norm=1.0),
    "sine": Settings(1e-3),
    "addition": Settings(5e-3, weight_decay=0.01, clip_norm=1.0),
    "convnet": Settings(1e-3, weight_decay=0.01),
    "smollm2": Settings(3e-4, weight_decay=0.1, decay=".weight", clip_norm=1.0),
}


def peers(
    name: str,
    parameters: Mapping[str, np.ndarray],
    batch: Mapping[str, np.ndarray],
    adapter: bool = True,
    chosen: Collection[str] = (),
) -> list[Contestant]:
    """Returns a workload in every installed library, with the same weights and data.

    Args:
        name: The workload's name.
        parameters: The initial weights.
        batch: The batch.
        adapter: Whether to include peers that run on an adapter.
        chosen: The peers to include, without the suffix `_peer`; all if it is empty.
    """
    contestants: list[Contestant | None] = []
    for peer in PEERS if adapter else ON_CPU:
        if (chosen and peer.removesuffix("_peer") not in chosen) or peer not in ONLY.get(name, PEERS):
            continue
        module_name, options = VARIANTS.get(peer, (peer, {}))
        try:
            module = import_module(f"benchmarks.peers.{module_name}")
        except ImportError:
            continue
        if not options or module.is_available(**options):
            contestants.append(module.contestant(name, parameters, batch, **options))
    return [contestant for contestant in contestants if contestant is not None]
