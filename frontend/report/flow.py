"""The reads and writes of a step's dispatches, and the live range of each buffer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from xdsl.dialects import memref
from xdsl.dialects.builtin import MemRefType, ModuleOp, StringAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tensorgrad.dialects.buf import ArenaOp, KernelOp, ViewOp, buffer_bytes, element_of, shape_of
from tensorgrad.dialects.buf_control import BranchOp, RepeatOp, RowOp
from tensorgrad.report.facts import Branch, SourceLine, Stage, Value
from tensorgrad.report.locations import Sources
from tensorgrad.report.stages import stages_of, text_of
from tensorgrad.runtime.program import Collective, Copy, Program, Wait, runs


@dataclass
class Use:
    """The reads and writes of one dispatch or copy.

    Attributes:
        reads: The indices of values.
        writes: The indices of values.
        places: The lines that its ops are from.
        branch: The branch that it is in; `None` if it always runs.
        stages: What its kernels compute.
        grid: The grid of the first.
        schedules: How they are mapped to threads.
    """

    reads: tuple[int, ...]
    writes: tuple[int, ...]
    places: tuple[SourceLine, ...] = ()
    branch: Branch | None = None
    stages: tuple[Stage, ...] = ()
    grid: tuple[int, ...] = ()
    schedules: tuple[str, ...] = ()

    def with_other(self, other: Use) -> Use:
        """Returns the union with another dispatch."""
        reads, writes = (*self.reads, *other.reads), (*self.writes, *other.writes)
        places = sorted({*self.places, *other.places})
        return replace(
            self,
            reads=tuple(dict.fromkeys(reads)),
            writes=tuple(dict.fromkeys(writes)),
            places=tuple(places),
            stages=(*self.stages, *other.stages),
            schedules=(*self.schedules, *other.schedules),
        )


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
    """Returns the reads and writes of a module's kernels; co-scheduled kernels are one dispatch.

    Args:
        module: A module at the level `buf` with its memory planned.
        sources: The files of the user's program.
    """
    collector = _Collector(sources)
    for function in module.ops:
        for region in function.regions:
            for block in region.blocks:
                collector.add(block, None)
    return collector.flow.with_spans()


class _Collector:
    """Walks over the kernels of functions, in the order in which they run."""

    def __init__(self, sources: Sources):
        self.flow = Flow()
        self._sources = sources
        self._numbers: dict[SSAValue, int] = {}

    def add(self, block: Block, branch: Branch | None) -> None:
        """Adds the dispatches of a block, within a branch."""
        shared: int | None = None
        for op in block.ops:
            if isinstance(op, KernelOp):
                use = replace(
                    self._use(op, op.inputs, op.outputs, branch),
                    stages=stages_of(op, self._sources),
                    grid=op.extents,
                    schedules=() if op.schedule is None else (text_of(op.schedule),),
                )
                if shared is not None and op.dispatch_number == shared:
                    use = self.flow.uses.pop().with_other(use)
                self.flow.uses.append(use)
                shared = op.dispatch_number
                continue
            shared = None
            if isinstance(op, memref.CopyOp):
                self.flow.uses.append(self._use(op, [op.source], [op.destination], branch))
            elif isinstance(op, RepeatOp):
                self.add(op.body.block, branch)
            elif isinstance(op, BranchOp) and any(isinstance(inner, KernelOp) for inner in op.walk()):
                self._add_branches(op, branch)

    def _use(self, op: Operation, reads: Sequence[SSAValue], writes: Sequence[SSAValue], branch: Branch | None) -> Use:
        buffers = self._read(reads)
        if branch is not None:
            buffers = (*buffers, branch.decision)
        return Use(buffers, self._read(writes), self._sources.places(op), branch)

    def _read(self, values: Sequence[SSAValue]) -> tuple[int, ...]:
        return _numbers(values, self._numbers, self.flow)

    def _add_branches(self, op: BranchOp, branch: Branch | None) -> None:
        """Adds the dispatch that selects a branch, and the dispatches of both branches."""
        decision = len(self.flow.values)
        size = 12 * sum(isinstance(inner, KernelOp) for inner in op.walk())
        self.flow.values.append(Value("which branch runs", "branch", f"{size} bytes", "", 0, size))
        use = self._use(op, [op.predicate], [], branch)
        self.flow.uses.append(replace(use, writes=(decision,), places=self._sources.places_of([op])))
        for block, holds in zip(op.branches, (True, False), strict=True):
            self.add(block, Branch(decision, holds, branch))


def _numbers(values: Sequence[SSAValue], numbers: dict[SSAValue, int], flow: Flow) -> tuple[int, ...]:
    """Returns the indices of the buffers that values are or alias; new buffers get one."""
    indices: list[int] = []
    for value in values:
        while isinstance(value.owner, RowOp):
            value = value.owner.view
        if value not in numbers:
            numbers[value] = len(flow.values)
            flow.values.append(_value(value))
        indices.append(numbers[value])
    return tuple(dict.fromkeys(indices))


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
    """Returns the bindings of a program's dispatches, as ranges of its buffers, if nothing else is known.

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
            read, written = (tuple(number(*buffer) for buffer in buffers) for buffers in (step.reads, step.writes))
            flow.uses.append(Use(read, written))
            continue
        bound = [(binding.access, number(binding.buffer, binding.offset, binding.size)) for binding in step.bindings]
        written = tuple(buffer for access, buffer in bound if access != "read")
        flow.uses.append(Use(tuple(buffer for _, buffer in bound), written))
    return flow.with_spans()
