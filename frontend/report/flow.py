"""What a step's dispatches read and write, and for how long each buffer is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from xdsl.dialects import memref
from xdsl.dialects.builtin import MemRefType, ModuleOp, StringAttr
from xdsl.ir import Attribute, SSAValue

from tensorgrad.dialects.buf import ArenaOp, KernelOp, ViewOp, buffer_bytes, element_of, shape_of
from tensorgrad.dialects.buf_control import RowOp
from tensorgrad.report.facts import Place, Value
from tensorgrad.report.locations import Sources
from tensorgrad.runtime.program import Collective, Copy, Program, Wait, runs


@dataclass
class Use:
    """What one dispatch or copy reads and writes.

    Attributes:
        reads: The numbers of values.
        writes: The numbers of values.
        places: The lines that its ops are from.
    """

    reads: tuple[int, ...]
    writes: tuple[int, ...]
    places: tuple[Place, ...] = ()

    def with_other(self, other: Use) -> Use:
        """Returns a dispatch that does what this and another one do."""
        reads, writes = (*self.reads, *other.reads), (*self.writes, *other.writes)
        places = sorted({*self.places, *other.places})
        return Use(tuple(dict.fromkeys(reads)), tuple(dict.fromkeys(writes)), tuple(places))


@dataclass
class Flow:
    """The dispatches of a step and the buffers between them.

    Attributes:
        uses: The dispatches and copies, in the order in which they run.
        values: The buffers that they use.
    """

    uses: list[Use] = field(default_factory=list[Use])
    values: list[Value] = field(default_factory=list[Value])

    def with_spans(self) -> Flow:
        """Returns the same, each value with its first and last use."""
        spans: dict[int, list[int]] = {}
        for place, use in enumerate(self.uses):
            for number in (*use.reads, *use.writes):
                spans.setdefault(number, []).append(place)
        for number, places in spans.items():
            self.values[number] = replace(self.values[number], first=min(places), last=max(places))
        return self


def flow_of(module: ModuleOp, sources: Sources) -> Flow:
    """Returns what the kernels of a module read and write; those that share a dispatch as one.

    Args:
        module: At the level `buf`, its memory planned.
        sources: The files of the user's program.
    """
    flow, numbers = Flow(), dict[SSAValue, int]()
    shared: int | None = None
    for op in module.walk():
        if isinstance(op, KernelOp):
            reads, writes = (_numbers(values, numbers, flow) for values in (op.inputs, op.outputs))
            use = Use(reads, writes, sources.places(op))
            if shared is not None and op.dispatch_number == shared:
                flow.uses[-1] = flow.uses[-1].with_other(use)
            else:
                flow.uses.append(use)
            shared = op.dispatch_number
        elif isinstance(op, memref.CopyOp):
            reads, writes = (_numbers([value], numbers, flow) for value in (op.source, op.destination))
            flow.uses.append(Use(reads, writes, sources.places(op)))
            shared = None
    return flow.with_spans()


def _numbers(values: Sequence[SSAValue], numbers: dict[SSAValue, int], flow: Flow) -> tuple[int, ...]:
    """Returns the numbers of the buffers that values are, or are a part of; others get one."""
    found: list[int] = []
    for value in values:
        while isinstance(value.owner, RowOp):
            value = value.owner.view
        if value not in numbers:
            numbers[value] = len(flow.values)
            flow.values.append(_value(value))
        found.append(numbers[value])
    return tuple(dict.fromkeys(found))


def _value(value: SSAValue) -> Value:
    kind = f"{element_of(value)}[{', '.join(map(str, shape_of(value)))}]"
    size = buffer_bytes(cast("MemRefType[Attribute]", value.type))
    name, view = f"%{value.name_hint or ''}", value.owner
    if not isinstance(view, ViewOp) or not isinstance(view.arena.owner, ArenaOp):
        return Value(name, "workspace", kind, "", 0, size)
    named, role = (view.attributes.get(f"tg.{key}") for key in ("name", "role"))
    arena = view.arena.owner
    return Value(
        named.data if isinstance(named, StringAttr) else name,
        role.data if isinstance(role, StringAttr) else arena.role.data,
        kind,
        arena.label.data,
        view.start,
        size,
    )


def flow_of_program(program: Program) -> Flow:
    """Returns what the dispatches of a program bind, where nothing else is known: ranges of its buffers.

    A device tracks what is written by buffer, not by range, so some of what is bound for writing is only read.
    """
    flow, numbers = Flow(), dict[tuple[int, int, int], int]()
    names = {(slot.buffer, slot.offset): slot for slot in program.tensors}

    def number(buffer: int, offset: int, size: int) -> int:
        key = buffer, offset, size
        if key not in numbers:
            numbers[key] = len(flow.values)
            slot, arena = names.get((buffer, offset)), program.buffers[buffer]
            name, role, kind = f"{arena.name}[{offset}]", arena.role, f"{size} bytes"
            if slot is not None and slot.size <= size:
                name, role, kind = slot.name, slot.role, f"{slot.dtype}[{', '.join(map(str, slot.shape))}]"
            flow.values.append(Value(name, role, kind, arena.name, offset, size))
        return numbers[key]

    for step, _ in runs(program.plan):
        if isinstance(step, Copy):
            read = number(step.source, step.source_offset, step.size)
            flow.uses.append(Use((read,), (number(step.destination, step.destination_offset, step.size),)))
            continue
        if isinstance(step, Wait):
            flow.uses.append(Use((), ()))
            continue
        if isinstance(step, Collective):
            read, written = (tuple(number(*one) for one in found) for found in (step.reads, step.writes))
            flow.uses.append(Use(read, written))
            continue
        bound = [(one.access, number(one.buffer, one.offset, one.size)) for one in step.bindings]
        written = tuple(one for access, one in bound if access != "read")
        flow.uses.append(Use(tuple(one for _, one in bound), written))
    return flow.with_spans()
