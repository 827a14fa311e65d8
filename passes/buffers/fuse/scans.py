"""Decides whether a reduction is a scan in native code once it computes an operand, or the guards of its terms.

A scan takes each term once, so it may compute them. Guards that are stored hide which terms a point adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects import arith
from xdsl.ir.affine import AffineDimExpr

from tensorgrad.passes.analyses.machine import SCANNED_OPS
from tensorgrad.passes.analyses.stages import Parts, Stage, put_together
from tensorgrad.passes.buffers.fuse.inline import inline
from tensorgrad.passes.buffers.fuse.merge import GridMap
from tensorgrad.passes.codegen.common.scans import Direction, scans_of
from tensorgrad.runtime.target import Target


def makes_scan(producer: Parts, reader: Parts, target: Target) -> bool:
    """Returns whether native code of a reader is a scan once it computes what a pointwise producer does."""
    if not target.native or producer.has_computed_loops or producer.single is not None:
        return False
    if producer.inputs and producer.operations > SCANNED_OPS:
        return False
    source = producer.outputs[0]
    return any(source in stage.buffers() for stage in reader.stages if stage.own) and (
        _direction(reader, producer) is not None
    )


def is_scan(kernel: Parts, target: Target) -> bool:
    """Returns whether native code of a kernel is a scan."""
    return target.native and _direction(kernel) is not None


def keeps_scans(first: Parts, second: Parts, grid_map: GridMap, target: Target) -> bool:
    """Returns whether two kernels that run as one, over the first's grid, are a scan in native code if one is."""
    if not target.native or first.is_pointwise or second.is_pointwise:
        return True
    direction = _direction(second)
    place = None if direction is None else grid_map.loops[direction.loop]
    if direction is not None and isinstance(place, AffineDimExpr):
        direction = replace(direction, loop=place.position)
    return _direction(first) == direction


def _direction(kernel: Parts, producer: Parts | None = None) -> Direction | None:
    """Returns the direction of a kernel whose stages that reduce are scans in one, with a producer inlined."""
    directions = {_scan(stage, kernel.grid, producer) for stage in kernel.stages if stage.own}
    return directions.pop() if len(directions) == 1 else None


def _scan(stage: Stage, grid: Sequence[int], producer: Parts | None) -> Direction | None:
    if len(stage.own) != 1 or not any(isinstance(op, arith.SelectOp) for op in stage.body.ops):
        return None
    parts = Parts(tuple(grid), [stage.copy()], [buffer for buffer, _ in stage.writes], [])
    if producer is not None and producer.outputs[0] in stage.buffers():
        inline(producer, parts)
    kernel = put_together(parts)
    scans = scans_of(kernel)
    kernel.erase()
    return next(iter(scans.values())).direction if scans else None
