"""The whole table: importing this module registers every family."""

from __future__ import annotations

from tensorgrad.exporters.onnx import (
    arithmetic,
    contract,
    control,
    convolution,
    functions,
    gamma,
    index,
    pooling,
    random,
    reduce,
    shape,
    sort,
)
from tensorgrad.exporters.onnx.table import RULES

__all__ = ["FAMILIES", "RULES"]

FAMILIES = (arithmetic, functions, gamma, shape, reduce, contract, convolution, pooling, index, sort, random, control)
"""The modules of the table."""
