"""Decides whether a reduction is a scan in native code once it computes the guards of its terms.

A scan takes each term once, whereas guards that are stored say for all points which of all terms they take.
"""

from __future__ import annotations

from xdsl.dialects import arith

from tensorgrad.passes.analyses.stages import Parts, Stage, put_together
from tensorgrad.passes.buffers.fuse.inline import inline
from tensorgrad.passes.codegen.common.scans import scans_of
from tensorgrad.runtime.target import Target


def makes_scan(producer: Parts, reader: Parts, target: Target) -> bool:
    """Returns whether native code of a reader is a scan once it computes what a producer does from indices alone."""
    if not target.native or producer.inputs or producer.has_computed_loops:
        return False
    reducing = [stage for stage in reader.stages if stage.own]
    return bool(reducing) and all(_is_scan(stage, producer, reader) for stage in reducing)


def _is_scan(stage: Stage, producer: Parts, reader: Parts) -> bool:
    """Returns whether a stage of a reader is a scan once it computes what a producer does."""
    if not any(isinstance(op, arith.SelectOp) for op in stage.body.ops):
        return False
    parts = Parts(reader.grid, [stage.copy()], [buffer for buffer, _ in stage.writes], [])
    if producer.outputs[0] in stage.buffers():
        inline(producer, parts)
    kernel = put_together(parts)
    scans = scans_of(kernel)
    kernel.erase()
    return scans is not None
