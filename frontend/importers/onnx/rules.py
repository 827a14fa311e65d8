"""The whole table: importing this module registers every family."""

from __future__ import annotations

from tensorgrad.importers.onnx import (
    activations,
    attention,
    contractions,
    control,
    indexing,
    leaves,
    losses,
    normalization,
    pointwise,
    quantization,
    recurrent,
    reductions,
    resizing,
    sampling,
    shapes,
    signal,
    training,
    windows,
)
from tensorgrad.importers.onnx.table import RULES

__all__ = ["FAMILIES", "RULES"]

FAMILIES = (
    pointwise,
    activations,
    reductions,
    shapes,
    indexing,
    contractions,
    windows,
    resizing,
    sampling,
    normalization,
    losses,
    recurrent,
    attention,
    leaves,
    control,
    quantization,
    signal,
    training,
)
"""The modules of the table."""
