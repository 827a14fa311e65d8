"""Interprets `buf.counting_sort` with NumPy."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from xdsl.ir import SSAValue

from tensorgrad.dialects.counting_sort import CountingSortOp
from tensorgrad.interpreters.scalars import Array
from tensorgrad.interpreters.stages import gather


def run_counting_sort(stage: CountingSortOp, arrays: Mapping[SSAValue, Array]) -> None:
    """Computes a stage's outputs from its input.

    Args:
        stage: The stage.
        arrays: The storage of its operands; outputs are written in place.

    Raises:
        ExecutionError: The map's index is out of the operand's range.
    """
    rows, positions = stage.extents
    numbers = gather(arrays[stage.numbers], stage.map.data, ((0, rows), (0, positions)), stage.name)
    unsigned = np.broadcast_to(numbers, (rows, positions)).astype(f"u{numbers.dtype.itemsize}")
    buckets = np.minimum(unsigned, stage.buckets).astype(np.int64)
    arrays[stage.order][...] = np.argsort(buckets, -1, kind="stable")
    if stage.starts is not None:
        for row, starts in zip(buckets, arrays[stage.starts], strict=True):
            starts[0] = 0
            starts[1:] = np.cumsum(np.bincount(row, minlength=stage.buckets + 1))
