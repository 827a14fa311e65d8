"""Logs memory plans under the topic `memory`."""

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

_log = logging.getLogger("tensorgrad.memory")


def explain(function: FuncOp) -> None:
    """Logs the arenas of a planned function, and the updates that are not made in place."""
    if not _log.isEnabledFor(logging.DEBUG):
        return
    name = function.sym_name.data
    ops = list(function.body.block.ops)
    views: Counter[SSAValue] = Counter(op.arena for op in ops if isinstance(op, ViewOp))
    for op in ops:
        if isinstance(op, ArenaOp):
            _log.debug("%s: %s: %d bytes for %d buffers", name, op.label.data, op.size, views[op.result])
    peak, workspace, least = (
        value.value.data if isinstance(value := function.attributes.get(key), IntegerAttr) else 0
        for key in (PEAK_BYTES, WORKSPACE_BYTES, LEAST_WORKSPACE_BYTES)
    )
    _log.debug("%s: %d bytes in all; workspace %d, of at least %d in this order", name, peak, workspace, least)
    for op in ops:
        if isinstance(op, memref.CopyOp):
            assert isinstance(op.destination.owner, ViewOp)
            slot = read_slot(op.destination.owner.attributes, "a buffer")
            _log.debug("%s: %s is copied at the end: its old value is read after the update", name, slot.name)
