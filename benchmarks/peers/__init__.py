"""The workloads in other libraries: equal formulas, first weights and data, on a device of the same machine.

Each peer is a module with `contestant(name, parameters, batch)`, which is `None` where the library isn't installed.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """The optimizer of a workload, as peers set theirs.

    Attributes:
        learning_rate: Of Adam with its usual betas.
        weight_decay: Decoupled; None for plain Adam.
        decay: The last part of the names of parameters that decay; the empty string is all.
        clip_norm: The largest norm of all gradients together, or None.
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
}
