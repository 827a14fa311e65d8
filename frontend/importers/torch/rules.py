"""The whole table: importing this module registers every family."""

from __future__ import annotations

from tensorgrad.importers.torch import (
    activations,
    complex_pairs,
    contractions,
    control,
    creation,
    fourier,
    indexing,
    linear_algebra,
    normalization,
    pointwise,
    recurrent,
    reductions,
    shapes,
    windows,
)
from tensorgrad.importers.torch.table import RULES

__all__ = ["FAMILIES", "RULES", "is_known"]

FAMILIES = (
    pointwise,
    activations,
    reductions,
    shapes,
    indexing,
    contractions,
    linear_algebra,
    windows,
    normalization,
    recurrent,
    creation,
    control,
    complex_pairs,
    fourier,
)
"""The modules of the table."""


def is_known(name: str) -> bool:
    """Returns whether there is a rule for an op, of real or of complex tensors."""
    return name in RULES or complex_pairs.rule_of_pairs(name) is not None
