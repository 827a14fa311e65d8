"""The cost model of fusion: bytes moved, points computed, cheap kernels, recomputation, parallelism."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import cast

from xdsl.dialects import arith, scf
from xdsl.dialects.linalg.ops import IndexOp, YieldOp
from xdsl.ir import SSAValue

from tensorgrad.dialects.buf import Buffer, buffer_bytes
from tensorgrad.dialects.wgsl import RemFOp
from tensorgrad.passes.analyses.machine import CHEAP_OPS, ENOUGH_LANES, ROW_LANES
from tensorgrad.passes.analyses.stages import Parts, Stage
from tensorgrad.passes.analyses.walking import operations


def work(kernel: Parts) -> int:
    """Returns the total number of loop iterations of a kernel's stages."""
    return sum(points(stage.extents) for stage in kernel.stages)


def bytes_of(values: Iterable[SSAValue]) -> int:
    """Returns the total size of buffers in bytes."""
    total = 0
    for value in values:
        total += buffer_bytes(cast(Buffer, value.type))
    return total


def points(extents: Sequence[int]) -> int:
    """Returns the number of points of an iteration space."""
    return math.prod(extents)


def is_cheap(kernel: Parts) -> bool:
    """Returns whether recomputing an element is cheaper than loading it: few ops, no division, `math` op or loop."""
    if kernel.operations > CHEAP_OPS:
        return False
    slow = (arith.DivfOp, RemFOp, scf.ForOp)
    ops = (op for stage in kernel.stages for op in operations(stage.body))
    return not any((op.name.startswith("math.") and op.name != "math.absf") or isinstance(op, slow) for op in ops)


def moves_only(kernel: Parts) -> bool:
    """Returns whether a kernel only moves data: it may copy and widen, use constants and indices, compare integers."""
    allowed = (
        YieldOp,
        arith.ConstantOp,
        IndexOp,
        arith.IndexCastOp,
        arith.UIToFPOp,
        arith.SIToFPOp,
        arith.ExtUIOp,
        arith.ExtFOp,
        arith.CmpiOp,
    )
    return all(isinstance(op, allowed) for stage in kernel.stages for op in operations(stage.body))


def reading_points(kernel: Parts, buffer: SSAValue) -> int:
    """Returns an upper bound on the reads of a buffer by a stage: one per point and load at a computed index."""
    result = 0
    for stage in kernel.stages:
        direct = any(read is buffer for read, _ in stage.reads)
        result = max(result, (direct + loads_of(stage, buffer)) * points(stage.extents))
    return result


def loads_of(stage: Stage, buffer: SSAValue) -> int:
    """Returns the number of a stage's loads at computed indices that read a buffer."""
    return sum(1 for load in stage.loads() if load.memref is buffer)


def copies(kernel: Parts, buffer: SSAValue) -> int:
    """Returns how many copies of its producer's body a kernel would contain if it computed `buffer`; at least one."""
    direct = sum(1 for stage in kernel.stages for read, _ in stage.reads if read is buffer)
    return max(direct + sum(loads_of(stage, buffer) for stage in kernel.stages), 1)


def parallel_enough(grid: Sequence[int], own: Sequence[int]) -> bool:
    """Returns whether a kernel over `grid` keeps the device busy if loops of extents `own` run inside each point."""
    rows, inside = points(grid), points(own)
    return rows * min(inside, ROW_LANES) >= min(rows * inside, ENOUGH_LANES)
