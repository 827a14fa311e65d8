"""Explains memory plans, under the log topic `memory`."""

from __future__ import annotations

import logging
from collections import Counter

from xdsl.dialects import memref
from xdsl.dialects.builtin import IntegerAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from tensorgrad.dialects.buf import ArenaOp, ViewOp
from tensorgrad.dialects.signature import read_slot
from tensorgrad.passes.analyses.storage import LEAST_WORKSPACE_BYTES, PEAK_BYTES, WORKSPACE_BYTES
from tensorgrad.passes.buffers.decisions import Choice, is_followed, tell

_log = logging.getLogger("tensorgrad.memory")


def explain(function: FuncOp) -> None:
    """Tells the arenas of a planned function, and the updates that are not made in place."""
    if not is_followed(_log):
        return
    name = function.sym_name.data
    ops = list(function.body.block.ops)
    views: Counter[SSAValue] = Counter(op.arena for op in ops if isinstance(op, ViewOp))
    for op in ops:
        if isinstance(op, ArenaOp):
            text = f"{op.size} bytes for {views[op.result]} buffers"
            tell(_log, Choice(f"{name}: {op.label.data}", text))
    peak, workspace, least = (
        value.value.data if isinstance(value := function.attributes.get(key), IntegerAttr) else 0
        for key in (PEAK_BYTES, WORKSPACE_BYTES, LEAST_WORKSPACE_BYTES)
    )
    tell(_log, Choice(name, f"{peak} bytes in all; workspace {workspace}, of at least {least} in this order"))
    for op in ops:
        if isinstance(op, memref.CopyOp):
            assert isinstance(op.destination.owner, ViewOp)
            slot = read_slot(op.destination.owner.attributes, "a buffer")
            text = "copied at the end, since its old value is read after the update"
            tell(_log, Choice(f"{name}: {slot.name}", text))
