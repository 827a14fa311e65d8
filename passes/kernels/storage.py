"""Where buffers lie: in which arena, and which may take each other's place."""

from __future__ import annotations

from xdsl.dialects import memref
from xdsl.ir import SSAValue

from tensorgrad.dialects.buf import KernelOp, maps_of
from tensorgrad.dialects.signature import Slot


def arena_of(slot: Slot) -> tuple[str, str]:
    """The label and role of the arena that an argument of a function lies in."""
    if slot.role == "state":
        return slot.name.split("/")[0] if "/" in slot.name else "state", "state"
    return ARENAS.get(slot.role, ("updates", "workspace"))


ARENAS: dict[str, tuple[str, str]] = {
    "parameter": ("parameters", "parameter"),
    "input": ("inputs", "input"),
    "scalar": ("inputs", "input"),
    "output": ("outputs", "output"),
    "gradient": ("gradients", "output"),
    "constant": ("constants", "constant"),
}
"""The label and role of the arena for arguments of each role but `state`."""


def writes_in_place(writer: KernelOp, old: SSAValue, new: SSAValue) -> bool:
    """Whether a kernel may write `new` where `old` lies: it reads an element only right before it writes it."""
    if old not in writer.inputs:
        return True
    reading = writer.input_arguments[list(writer.inputs).index(old)]
    writing = writer.output_arguments[list(writer.outputs).index(new)]
    stages = writer.stages
    written = next(i for i, stage in enumerate(stages) if writing in stage.outputs)
    target = maps_of(stages[written])[list(stages[written].operands).index(writing)]
    for position, stage in enumerate(stages):
        for use_map, operand in zip(maps_of(stage), stage.operands, strict=True):
            if operand is not reading:
                continue
            if position > written or use_map.results != target.results:
                return False
        if any(isinstance(op, memref.LoadOp) and op.memref is reading for op in stage.walk()):
            return False
    return True
