"""The whole table: importing this module registers every family."""

from __future__ import annotations

from tensorgrad.exporters.onnx import (
    arithmetic,
    contractions,
    control,
    drawing,
    functions,
    indexing,
    reductions,
    shapes,
    windows,
)
from tensorgrad.exporters.onnx.table import RULES

__all__ = ["FAMILIES", "RULES"]

FAMILIES = (arithmetic, functions, shapes, reductions, contractions, windows, indexing, drawing, control)
"""The modules of the table."""
