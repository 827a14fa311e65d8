"""Lowers the kernels of a function to dispatches: the part common to all kinds of kernels."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import ClassVar, TypeAlias, cast

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, MemRefType, ModuleOp, StringAttr, UnknownLoc, i32, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects import cpu, wgsl
from tensorgrad.dialects.buf import KERNELS, ArenaOp, Buffer, DispatchOp, KernelOp, ViewOp, buffer_type, element_of
from tensorgrad.dialects.buf_control import BranchOp, RepeatOp, view_of
from tensorgrad.dialects.dispatched import Extents
from tensorgrad.dialects.functions import defined_functions
from tensorgrad.dialects.locations import line_of
from tensorgrad.dialects.schedule import GroupSchedule, Schedule, ScheduleAttr
from tensorgrad.dialects.signature import NAME, Role
from tensorgrad.passes.analyses.graph import steps_of
from tensorgrad.passes.analyses.identity import kernel_structure, teams_of
from tensorgrad.passes.analyses.traffic import BYTES_MOVED, FLOPS, bytes_moved, flops
from tensorgrad.passes.analyses.walking import operations
from tensorgrad.passes.codegen.common.control import BufferLocation, Condition, Moves, Starts, write_choice
from tensorgrad.passes.codegen.common.kernel_code import Binding, Code
from tensorgrad.passes.codegen.common.placing import Placing
from tensorgrad.passes.scalars import Value
from tensorgrad.passes.tensors.simplify import simplify_block
from tensorgrad.runtime.target import Target

WrittenKernel: TypeAlias = wgsl.KernelOp | cpu.KernelOp


KernelIdentity: TypeAlias = tuple[object, ...]
"""What the code of a kernel depends on, for one target, except for its name."""


class KernelContext(Context, ABC):
    """A context for lowerings that is told of each kernel, so that later steps needn't wait for the others."""

    @abstractmethod
    def written(self, kernel: WrittenKernel, identity: KernelIdentity | None) -> None:
        """Receives a kernel once it is in the module; may replace it there by ops of the same name."""

    @abstractmethod
    def recalled(self, identity: KernelIdentity) -> Callable[[str], Operation] | None:
        """Returns a function of a name whose result stands for a kernel of an earlier compilation, if there is one."""


@dataclass
class WrittenKernels:
    """The kernels of a module so far, and their number by archetype.

    Attributes:
        context: Notified of each kernel, if it is a `KernelContext`.
        known: The kernels' names, by their contents.
        counts: The number of kernels of each archetype.
    """

    context: Context
    known: dict[KernelIdentity, str] = field(default_factory=dict[KernelIdentity, str])
    counts: dict[str, int] = field(default_factory=dict[str, int])

    def name(self, archetype: str) -> str:
        """Returns a new name."""
        number = self.counts.get(archetype, 0)
        self.counts[archetype] = number + 1
        return f"{archetype}{number}"


@dataclass(frozen=True)
class WrittenOnce:
    """Kernels of a dispatch that are written once: equal but for their buffers, which are found through a table.

    Attributes:
        kernel: The first of them.
        schedule: The schedule of each of them.
        count: The number of kernels.
        placed: The location of each operand of the first one, or the entries of all in the table.
        in_place: The operands through which a kernel overwrites what it reads, if lanes share a point: these need a
            barrier. Otherwise, the invocation that reads an element also writes it.
    """

    kernel: KernelOp
    schedule: Schedule
    count: int
    placed: tuple[BufferLocation, ...]
    in_place: frozenset[int]

    @classmethod
    def of(cls, kernels: Sequence[KernelOp], placed: Sequence[BufferLocation]) -> WrittenOnce:
        """Returns the code unit for a team."""
        schedule = cast(ScheduleAttr, kernels[0].schedule).data
        sharing = kernels if isinstance(schedule, GroupSchedule) else ()
        in_place = frozenset(place for kernel in sharing for place in _written_over(kernel))
        return cls(kernels[0], schedule, len(kernels), tuple(placed), in_place)

    @property
    def groups(self) -> int:
        """The number of workgroups of all of them."""
        return self.count * math.prod(self.schedule.groups)

    def bound(self, code: Code, moves: Moves, member: Value | None) -> Code:
        """Returns code with the bindings of one of them, by index."""
        starts = Starts(code, moves.block, member)
        bindings: dict[SSAValue, Binding] = {}
        for number, (argument, placement) in enumerate(zip(self.kernel.body.block.args, self.placed, strict=True)):
            moved = moves.of(placement) if placement.entry is None else starts.of(placement.entry)
            bindings[argument] = Binding(
                moves.block.args[placement.binding], placement.start, moved, number in self.in_place
            )
        return code.with_bindings(bindings)


class FunctionLowering(ABC):
    """Lowers one function: each kernel to a dispatch of a written kernel; equal ones are written once.

    Attributes:
        name: The pass's name in error messages.
    """

    name: ClassVar[str]

    def __init__(self, module: ModuleOp, function: FuncOp, target: Target, written: WrittenKernels):
        self.module = module
        self.function = function
        self.target = target
        self.written = written
        self.placing = Placing(function, target)
        self.branches = 0

    @classmethod
    def run_all(cls, ctx: Context, module: ModuleOp, target: Target) -> None:
        """Lowers all functions of a module; equal kernels of several functions are written once."""
        written = WrittenKernels(ctx)
        for function in defined_functions(module):
            cls(module, function, target, written).run()

    def run(self) -> None:
        """Lowers the function in place."""
        self._lower_block(self.function.body.block, ())

    # Specific to the kind of kernel

    @abstractmethod
    def check(self, kernels: Sequence[KernelOp], operands: Sequence[SSAValue], views: Sequence[SSAValue]) -> None:
        """Raises if a dispatch with these bindings exceeds the target's limits."""

    @abstractmethod
    def types(self, teams: Sequence[WrittenOnce], views: Sequence[SSAValue]) -> list[Attribute]:
        """Returns the flat types of a dispatch's views."""

    @abstractmethod
    def write(self, teams: Sequence[WrittenOnce], access: Sequence[str], types: Sequence[Attribute]) -> WrittenKernel:
        """Returns a new kernel, given the access and the type of each view; each chunk of a view has a binding."""

    @abstractmethod
    def groups(self, teams: Sequence[WrittenOnce]) -> Extents:
        """Returns the workgroups (or tasks) of a dispatch."""

    @abstractmethod
    def choice(self, block: Block, access: Sequence[str]) -> WrittenKernel:
        """Returns a kernel with the code written by `write_choice`."""

    # Blocks, loops and branches

    def _lower_block(self, block: Block, conditions: tuple[Condition, ...]) -> None:
        """Lowers the kernels of a block and its nested loops and branches, which run under `conditions`."""
        kernels = [op for op in block.ops if isinstance(op, KernelOp)]
        for kernel in kernels:
            if kernel.schedule is None and kernel.collective is None:
                raise DiagnosticException(
                    f"{self.name} expects a schedule on every kernel; the one at {line_of(kernel.location)} has none "
                    "(run `schedule` first)"
                )
        steps = steps_of(kernels)
        for _, group in groupby(kernels, key=steps.__getitem__):
            self._lower([kernel for kernel in group if kernel.collective is None])
        for op in list(block.ops):
            if isinstance(op, RepeatOp):
                self._lower_block(op.body.block, conditions)
            elif isinstance(op, BranchOp):
                for inner, outcome in zip(op.branches, (True, False), strict=True):
                    self._lower_block(inner, (*conditions, (op.predicate, outcome)))
                self._decide(op, conditions)

    def _lower(self, kernels: Sequence[KernelOp]) -> None:
        """Lowers the kernels of one dispatch; collectives stay, for the runtime."""
        if not kernels:
            return
        operands = [operand for kernel in kernels for operand in kernel.operands]
        layout = self.placing.layout(teams_of(kernels))
        views = layout.views
        bound = [chunk for view in views for chunk in self.placing.chunks(view)]
        if len(kernels) > 1 and len(bound) > self.target.max_storage_buffers_per_shader_stage:
            for kernel in kernels:  # with their buffers' placement, they exceed the binding limit together
                self._lower([kernel])
            return
        self.check(kernels, operands, bound)
        teams = [WrittenOnce.of(team, placed) for team, placed in zip(layout.teams, layout.placed, strict=True)]
        stored = {view_of(output).arena for kernel in kernels for output in kernel.outputs}
        access = ["read_write" if view_of(view).arena in stored else "read" for view in views]
        types = self.types(teams, views)
        structures = tuple(
            (kernel_structure(team.kernel), team.kernel.schedule, team.count, team.placed, team.in_place)
            for team in teams
        )
        identity = (structures, tuple(access), tuple(types))
        name = self.written.known.get(identity)
        if name is None:
            name = self._recall(identity, teams[0].schedule.archetype, kernels[0])
            if name is None:
                kernel = self.write(teams, access, types)
                name = kernel.sym_name.data
                self._insert(kernel, kernels[0], identity)
            self.written.known[identity] = name
        dispatch = DispatchOp.of(name, self.groups(teams), bound)
        dispatch.location = kernels[0].location
        dispatch.attributes[BYTES_MOVED] = IntegerAttr(sum(map(bytes_moved, kernels)), i64)
        dispatch.attributes[FLOPS] = IntegerAttr(sum(map(flops, kernels)), i64)
        if len(kernels) != 1:
            dispatch.attributes[KERNELS] = IntegerAttr(len(kernels), i64)
        cast(Block, kernels[0].parent).insert_op_before(dispatch, kernels[0])
        for kernel in kernels:
            Rewriter.erase_op(kernel)

    def _recall(self, identity: KernelIdentity, archetype: str, origin: Operation) -> str | None:
        """Inserts an op that stands for a kernel of an earlier compilation, if there is one; returns its name."""
        if not isinstance(self.written.context, KernelContext):
            return None
        named = self.written.context.recalled(identity)
        if named is None:
            return None
        name = self.written.name(archetype)
        op = named(name)
        op.location = origin.location
        self.module.body.block.insert_op_before(op, self.function)
        return name

    def _insert(self, written: WrittenKernel, origin: Operation, identity: KernelIdentity | None = None) -> None:
        """Inserts a kernel before the function; ops without a location get that of `origin`."""
        written.location = origin.location
        for op in operations(written.body.block):
            if isinstance(op.location, UnknownLoc):
                op.location = origin.location
        self.module.body.block.insert_op_before(written, self.function)
        if isinstance(self.written.context, KernelContext):
            self.written.context.written(written, identity)

    def _decide(self, op: BranchOp, conditions: tuple[Condition, ...]) -> None:
        """Writes, before two branches, the workgroup counts of each of their dispatches: zero for the branch not taken.

        The deciding kernel itself always runs, even if the branches are nested in one that is not taken.
        """
        mine = [*conditions, (op.predicate, True)]
        dispatches: list[list[DispatchOp]] = [
            [inner for inner in block.walk() if isinstance(inner, DispatchOp) and inner.arguments is None]
            for block in op.branches
        ]
        count = sum(map(len, dispatches))
        if count:
            arena = ArenaOp.of(f"branches{self.branches}", Role.WORKSPACE, 12 * count)
            self.branches += 1
            table = ViewOp.of(arena.result, 0, buffer_type([3 * count], i32))
            first = self.function.body.block.first_op
            assert first is not None
            for value in (arena, table):
                value.location = op.location
                self.function.body.block.insert_op_before(value, first)
            self._write_choice(op, mine, dispatches, table.result)
            for number, dispatch in enumerate(member for group in dispatches for member in group):
                row = ViewOp.of(arena.result, 12 * number, buffer_type([3], i32))
                row.location = op.location
                self.function.body.block.insert_op_before(row, first)
                dispatch.indirect(row.result)
        self._dissolve(op)

    def _write_choice(
        self,
        op: BranchOp,
        conditions: Sequence[Condition],
        dispatches: Sequence[Sequence[DispatchOp]],
        table: SSAValue,
    ) -> None:
        predicates = [predicate for predicate, _ in conditions]
        rows, counters = self.placing.rows(predicates)
        whole = [self.placing.whole(predicate) for predicate in predicates]
        views = [*dict.fromkeys(whole), *counters, table]
        if len(views) > self.target.max_storage_buffers_per_shader_stage:
            raise DiagnosticException(
                f"{len(conditions)} branches inside of each other at {line_of(op.location)} need {len(views)} bindings"
            )
        placed = [
            BufferLocation(views.index(view), 0, None if row is None else (row[0], tuple(map(views.index, row[1]))))
            for view, row in zip(whole, rows, strict=True)
        ]
        groups = [[member.groups for member in group] for group in dispatches]
        outcomes = [outcome for _, outcome in conditions]
        block = write_choice([flat(view) for view in views], placed, outcomes, groups)
        simplify_block(block)
        choice = self.choice(block, ["read_write" if view is table else "read" for view in views])
        name = choice.sym_name.data
        self._insert(choice, op)
        dispatch = DispatchOp.of(name, (1, 1, 1), views)
        dispatch.location = op.location
        dispatch.attributes[BYTES_MOVED] = IntegerAttr(12 * sum(map(len, dispatches)) + 4 * len(placed), i64)
        dispatch.attributes[KERNELS] = IntegerAttr(0, i64)
        cast(Block, op.parent).insert_op_before(dispatch, op)

    def _dissolve(self, op: BranchOp) -> None:
        """Inlines the dispatches of both branches in place of the branch op."""
        for block in op.branches:
            for inner in list(block.ops):
                inner.detach()
                cast(Block, op.parent).insert_op_before(inner, op)
        Rewriter.erase_op(op)


def _written_over(kernel: KernelOp) -> Iterator[int]:
    """Yields the operand indices of outputs that overlap with an input."""
    read = [view_of(operand) for operand in kernel.inputs]
    for number, output in enumerate(kernel.outputs, len(kernel.inputs)):
        if any(map(view_of(output).overlaps, read)):
            yield number


def named(view: SSAValue) -> str:
    """Returns a buffer's name for messages."""
    name = view.owner.attributes.get(NAME) if isinstance(view.owner, ViewOp) else None
    return f"{name.data!r}" if isinstance(name, StringAttr) else f"a tensor of {view.type}"


def flat(view: SSAValue) -> MemRefType[Attribute]:
    """Returns the type of a buffer flattened to one dimension, with at least one element."""
    kind = cast(Buffer, view.type)
    return buffer_type([max(kind.element_count(), 1)], element_of(view))
