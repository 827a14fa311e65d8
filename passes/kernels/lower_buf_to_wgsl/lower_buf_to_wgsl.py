"""The pass `lower-buf-to-wgsl`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import cast

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    IntegerAttr,
    MemRefType,
    ModuleOp,
    StringAttr,
    UnitAttr,
    UnknownLoc,
    f16,
    f64,
    i32,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects import wgsl
from tensorgrad.dialects.buf import (
    ArenaOp,
    Buffer,
    DispatchOp,
    KernelOp,
    ViewOp,
    buffer_type,
    element_of,
    loop_extents,
)
from tensorgrad.dialects.buf_control import BranchOp, RepeatOp
from tensorgrad.dialects.schedule import (
    AttentionSchedule,
    ContractionSchedule,
    GroupSchedule,
    Schedule,
    ScheduleAttr,
    ThreadSchedule,
    folded,
)
from tensorgrad.dialects.signature import NAME
from tensorgrad.passes.analyses.graph import steps_of
from tensorgrad.passes.analyses.guards import fold_guards, thread_numbers
from tensorgrad.passes.analyses.identity import kernel_structure, teams_of
from tensorgrad.passes.analyses.traffic import BYTES_MOVED, bytes_moved
from tensorgrad.passes.analyses.trips import EXCLUSIVE, LARGEST_INDEX
from tensorgrad.passes.analyses.walking import operations
from tensorgrad.passes.kernels.lower_buf_to_wgsl.attention import write_attention
from tensorgrad.passes.kernels.lower_buf_to_wgsl.contraction import vector_operands, write_contraction
from tensorgrad.passes.kernels.lower_buf_to_wgsl.control import (
    Condition,
    Moves,
    Placed,
    Starts,
    view_of,
    write_choice,
)
from tensorgrad.passes.kernels.lower_buf_to_wgsl.emission import Arrays, Binding, Code, Frame
from tensorgrad.passes.kernels.lower_buf_to_wgsl.group import write_group
from tensorgrad.passes.kernels.lower_buf_to_wgsl.hoisting import carry_addresses, hoist_invariants
from tensorgrad.passes.kernels.lower_buf_to_wgsl.placing import Placing
from tensorgrad.passes.kernels.lower_buf_to_wgsl.stages import Unrolling, vector_arguments
from tensorgrad.passes.kernels.lower_buf_to_wgsl.thread import write_thread
from tensorgrad.passes.kernels.lower_buf_to_wgsl.vectors import vector_memory
from tensorgrad.passes.levels import PLANNED, LevelPass
from tensorgrad.passes.tensors.simplify import simplify_block
from tensorgrad.runtime.target import WEBGPU_DEFAULT, Target


@dataclass(frozen=True)
class LowerBufToWgslPass(LevelPass):
    """Writes each scheduled kernel as a `wgsl.kernel`, and the function as a list of dispatches.

    Expects functions behind `plan-memory`, with a `schedule` on every kernel. Guarantees: one `wgsl.kernel` for each
    different kernel (equal ones are shared, wherever they lie in memory), linear indices only, and a `buf.dispatch`
    where each `buf.kernel` was. A buffer of an arena that the kernel writes anywhere is bound `read_write`; all scalars
    are one binding. Kernels that need more than the target has are refused, with the tensor's name and line.

    Attributes:
        target: The device: limits and features.
    """

    name = "lower-buf-to-wgsl"
    levels = PLANNED

    target: Target = WEBGPU_DEFAULT

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        written = _Written()
        for function in list(op.ops):
            if isinstance(function, FuncOp) and function.body.blocks:
                _Lowering(op, function, self.target, written).run()


class _Written:
    """The kernels of a module so far, by what they are made of, and how many there are of each archetype."""

    def __init__(self) -> None:
        self.known: dict[tuple[object, ...], wgsl.KernelOp] = {}
        self.counts: dict[str, int] = {}


class _Lowering:
    """Lowers one function."""

    def __init__(self, module: ModuleOp, function: FuncOp, target: Target, written: _Written):
        self.module = module
        self.function = function
        self.target = target
        self.known, self.counts = written.known, written.counts
        self.placing = Placing(function, target)
        self.branches = 0

    def run(self) -> None:
        """Lowers the function in place."""
        self._lower_block(self.function.body.block, ())

    def _lower_block(self, block: Block, conditions: tuple[Condition, ...]) -> None:
        """Lowers the kernels of a block, and of the loops and branches in it, which run under some conditions."""
        kernels = [op for op in block.ops if isinstance(op, KernelOp)]
        for kernel in kernels:
            if kernel.schedule is None:
                raise DiagnosticException(
                    f"lower-buf-to-wgsl expects a schedule on every kernel; the one at {kernel.location} has none "
                    "(run `schedule` first)"
                )
        steps = steps_of(kernels)
        for _, found in groupby(kernels, key=steps.__getitem__):
            self._lower(list(found))
        for op in list(block.ops):
            if isinstance(op, RepeatOp):
                self._lower_block(op.body.block, conditions)
            elif isinstance(op, BranchOp):
                for inner, wanted in zip(op.branches, (True, False), strict=True):
                    self._lower_block(inner, (*conditions, (op.predicate, wanted)))
                self._decide(op, conditions)

    def _lower(self, kernels: Sequence[KernelOp]) -> None:
        """Lowers the kernels of one dispatch."""
        operands = [operand for kernel in kernels for operand in kernel.operands]
        layout = self.placing.layout(teams_of(kernels))
        views = layout.views
        if len(kernels) > 1 and len(views) > self.target.max_storage_buffers_per_shader_stage:
            for kernel in kernels:  # where their buffers came to lie, they have too many bindings together
                self._lower([kernel])
            return
        self._check(kernels, operands, views)
        teams = [WrittenOnce.of(team, placed) for team, placed in zip(layout.teams, layout.placed, strict=True)]
        written = {view_of(output).arena for kernel in kernels for output in kernel.outputs}
        access = ["read_write" if view_of(view).arena in written else "read" for view in views]
        vectors = self._vectors(teams, views)
        types = [vector_memory(_flat(view)) if i in vectors else _flat(view) for i, view in enumerate(views)]
        structures = tuple((kernel_structure(one.kernel), one.kernel.schedule, one.count, one.placed) for one in teams)
        key = (structures, tuple(access), tuple(types))
        made = self.known.get(key)
        if made is None:
            made = self.known[key] = self._write(teams, access, types)
        groups = teams[0].schedule.groups if len(kernels) == 1 else self._all_groups(teams)
        dispatch = DispatchOp.of(made.sym_name.data, groups, views)
        dispatch.location = kernels[0].location
        dispatch.attributes[BYTES_MOVED] = IntegerAttr(sum(bytes_moved(kernel) for kernel in kernels), i64)
        cast(Block, kernels[0].parent).insert_op_before(dispatch, kernels[0])
        for kernel in kernels:
            kernel.detach()
            kernel.erase()

    def _vectors(self, teams: Sequence[WrittenOnce], views: Sequence[SSAValue]) -> set[int]:
        """Returns the bindings of a dispatch that all of its kernels read and write in whole vectors."""
        found = {
            i for i, view in enumerate(views) if _flat(view).get_shape()[0] % 4 == 0 and view_of(view).start % 16 == 0
        }
        for team in teams:
            whole = _in_vectors(team.kernel, team.schedule, [one.start for one in team.placed])
            for argument, one in zip(team.kernel.body.block.args, team.placed, strict=True):
                if argument not in whole or one.moved is not None or one.entry is not None:
                    found.discard(one.binding)
        return found & {one.binding for team in teams for one in team.placed}

    def _decide(self, op: BranchOp, conditions: tuple[Condition, ...]) -> None:
        """Writes, in front of two branches, how many workgroups each of their dispatches has: none, unless it runs.

        The kernel that does it always runs itself, also where the branches are in one that doesn't.
        """
        mine = [*conditions, (op.predicate, True)]
        dispatches: list[list[DispatchOp]] = [
            [inner for inner in block.walk() if isinstance(inner, DispatchOp) and inner.arguments is None]
            for block in op.branches
        ]
        count = sum(map(len, dispatches))
        if count:
            arena = ArenaOp.of(f"branches{self.branches}", "workspace", 12 * count)
            self.branches += 1
            table = ViewOp.of(arena.result, 0, buffer_type([3 * count], i32))
            first = self.function.body.block.first_op
            assert first is not None
            for made in (arena, table):
                made.location = op.location
                self.function.body.block.insert_op_before(made, first)
            self._write_choice(op, mine, dispatches, table.result)
            for number, dispatch in enumerate(one for found in dispatches for one in found):
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
                f"{len(conditions)} branches inside of each other at {op.location} need {len(views)} bindings"
            )
        placed = [
            Placed(views.index(view), 0, None if row is None else (row[0], tuple(map(views.index, row[1]))))
            for view, row in zip(whole, rows, strict=True)
        ]
        groups = [[one.groups for one in found] for found in dispatches]
        wanted = [one for _, one in conditions]
        block = write_choice([_flat(view) for view in views], placed, wanted, groups)
        simplify_block(block)
        number = self.counts.get("choice", 0)
        self.counts["choice"] = number + 1
        access = ["read_write" if view is table else "read" for view in views]
        made = wgsl.KernelOp(f"choice{number}", (1, 1, 1), access, block)
        for inner in made.walk():
            inner.location = op.location
        self.module.body.block.insert_op_before(made, self.function)
        dispatch = DispatchOp.of(made.sym_name.data, (1, 1, 1), views)
        dispatch.location = op.location
        dispatch.attributes[BYTES_MOVED] = IntegerAttr(12 * sum(map(len, dispatches)) + 4 * len(placed), i64)
        cast(Block, op.parent).insert_op_before(dispatch, op)

    def _dissolve(self, op: BranchOp) -> None:
        """Puts the dispatches of both branches in the place of the branches."""
        for block in op.branches:
            for inner in list(block.ops):
                inner.detach()
                cast(Block, op.parent).insert_op_before(inner, op)
        op.detach()
        op.erase()

    def _all_groups(self, teams: Sequence[WrittenOnce]) -> tuple[int, int, int]:
        """Returns the workgroups of a dispatch that kernels share."""
        return folded(sum(one.groups for one in teams), self.target.max_compute_workgroups_per_dimension)

    def _write(self, teams: Sequence[WrittenOnce], access: Sequence[str], types: Sequence[Attribute]) -> wgsl.KernelOp:
        """Writes a new kernel in front of the function."""
        block = Block(arg_types=types)
        first = teams[0]
        if len(teams) == 1 and first.count == 1:
            name = first.schedule.archetype
            code = Code(block, {}, Frame(first.schedule.groups, software=self.target.software))
            write_kernel(first.kernel, first.schedule, first.bound(code, Moves(block), None))
        else:
            name = "shared"
            self._write_side_by_side(teams, block)
        groups = first.schedule.groups if len(teams) == first.count == 1 else self._all_groups(teams)
        fold_guards(block, thread_numbers(groups, first.schedule.workgroup))
        hoist_invariants(block)
        simplify_block(block)
        if self.target.software:
            carry_addresses(block)
        number = self.counts.get(name, 0)
        self.counts[name] = number + 1
        made = wgsl.KernelOp(f"{name}{number}", first.schedule.workgroup, access, block)
        made.location = first.kernel.location
        for op in operations(block):
            if isinstance(op.location, UnknownLoc):
                op.location = made.location
        self.module.body.block.insert_op_before(made, self.function)
        return made

    def _write_side_by_side(self, teams: Sequence[WrittenOnce], block: Block) -> None:
        """Gives each team its range of the dispatch's workgroups, and each kernel of it a part of that."""
        total = self._all_groups(teams)
        arrays, moves = Arrays(block), Moves(block)
        code = Code(block, {}, Frame(total, software=self.target.software))
        number = code.add(wgsl.WorkgroupIdOp(0))
        if total[1] > 1:
            rows = code.index_op(arith.MuliOp, code.add(wgsl.WorkgroupIdOp(1)), total[0])
            number = code.index_op(arith.AddiOp, number, rows)
        start = 0
        for one in teams:
            mine = code.index_op(arith.SubiOp, number, start) if start else number
            first_op = block.last_op
            if one.groups == math.prod(total):
                one.write(code, mine, arrays, moves)
            else:
                # A number before the range wraps around, so one comparison tests both ends.
                code.when(
                    code.below(mine, one.groups),
                    lambda inner, o=one, m=mine: o.write(inner, m, arrays, moves),
                )
                cast(Operation, block.last_op).attributes[EXCLUSIVE] = UnitAttr()
            _locate(block, first_op, one.kernel)
            start += one.groups

    def _check(self, kernels: Sequence[KernelOp], operands: Sequence[SSAValue], views: Sequence[SSAValue]) -> None:
        """Raises where a dispatch doesn't fit the target."""
        kernel = kernels[0]
        limit = self.target.max_storage_buffers_per_shader_stage
        if len(views) > limit:
            raise DiagnosticException(
                f"the kernel made at {kernel.location} needs {len(views)} bindings, {self.target.name} has {limit}"
            )
        for value in operands:
            element = element_of(value)
            if element == f64 or (element == f16 and not self.target.f16):
                raise DiagnosticException(
                    f"{_named(value)} has elements of {element}, which {self.target.name} does not have; "
                    f"it was made at {kernel.location}; cast it to f32"
                )
        for one in kernels:
            for stage in one.stages:
                own = math.prod(loop_extents(stage)[len(one.extents) :])
                if own > LARGEST_INDEX:
                    raise DiagnosticException(
                        f"the kernel made at {one.location} reduces {own} values at a point, more than indices of 32 "
                        "bits can number: reduce one axis after the other, and store what lies between"
                    )
        for op in operations(kernel.body.block):
            for value in op.results:
                element = element_of(value) if isinstance(value.type, MemRefType) else value.type
                if element == f64 or (element == f16 and not self.target.f16):
                    raise DiagnosticException(
                        f"{op.name} gives {element}, which {self.target.name} does not have; "
                        f"it was made at {op.location}; compute in f32"
                    )


@dataclass(frozen=True)
class WrittenOnce:
    """Kernels of a dispatch that are written once: equal but for their buffers, which a table has.

    Attributes:
        kernel: The first of them.
        schedule: How each of them runs.
        count: How many there are.
        placed: Where each operand of the first one is, or the entries of all in the table.
    """

    kernel: KernelOp
    schedule: Schedule
    count: int
    placed: tuple[Placed, ...]

    @classmethod
    def of(cls, kernels: Sequence[KernelOp], placed: Sequence[Placed]) -> WrittenOnce:
        """Returns what is written for a team."""
        return cls(kernels[0], cast(ScheduleAttr, kernels[0].schedule).data, len(kernels), tuple(placed))

    @property
    def groups(self) -> int:
        """The workgroups of all of them."""
        return self.count * math.prod(self.schedule.groups)

    def bound(self, code: Code, moves: Moves, member: SSAValue | None) -> Code:
        """Code for one of them, by number, that knows its bindings."""
        starts = Starts(code, moves.block, member)
        found: dict[SSAValue, Binding] = {}
        for argument, one in zip(self.kernel.body.block.args, self.placed, strict=True):
            moved = moves.of(one) if one.entry is None else starts.of(one.entry)
            found[argument] = Binding(moves.block.args[one.binding], one.start, moved)
        return code.with_bindings(found)

    def write(self, code: Code, number: SSAValue, arrays: Arrays, moves: Moves) -> None:
        """Writes the code for workgroups from 0 to `groups`."""
        each, member = math.prod(self.schedule.groups), None
        if self.count > 1:
            member = code.index_op(arith.DivUIOp, number, each)
            number = code.index_op(arith.RemUIOp, number, each)
        frame = Frame(self.schedule.groups, number, arrays, code.frame.software)
        framed = Code(code.block, {}, frame)
        write_kernel(self.kernel, self.schedule, self.bound(framed, moves, member))


def _in_vectors(kernel: KernelOp, schedule: Schedule, starts: Sequence[int]) -> set[SSAValue]:
    """Returns the arguments that a kernel accesses in whole vectors, given where in their bindings they start."""
    match schedule:
        case ThreadSchedule() | GroupSchedule():
            return vector_arguments(kernel, Unrolling.of(schedule), starts)
        case ContractionSchedule():
            return vector_operands(kernel, schedule, starts)
        case AttentionSchedule():
            return set()


def write_kernel(kernel: KernelOp, schedule: Schedule, code: Code) -> None:
    """Writes a kernel's code by its schedule's archetype.

    Raises:
        DiagnosticException: A kernel that is not a contraction is scheduled as one.
    """
    match schedule:
        case ThreadSchedule():
            write_thread(kernel, schedule, code)
        case GroupSchedule():
            write_group(kernel, schedule, code)
        case ContractionSchedule():
            write_contraction(kernel, schedule, code)
        case AttentionSchedule():
            write_attention(kernel, schedule, code)


def _locate(block: Block, before: Operation | None, kernel: KernelOp) -> None:
    """Gives what was written behind an op the location of a kernel, where it has none."""
    op = block.first_op if before is None else before.next_op
    while op is not None:
        for inner in op.walk():
            if isinstance(inner.location, UnknownLoc):
                inner.location = kernel.location
        op = op.next_op


def _named(view: SSAValue) -> str:
    name = view.owner.attributes.get(NAME) if isinstance(view.owner, ViewOp) else None
    return f"{name.data!r}" if isinstance(name, StringAttr) else f"a tensor of {view.type}"


def _flat(view: SSAValue) -> MemRefType[Attribute]:
    kind = cast(Buffer, view.type)
    return buffer_type([max(kind.element_count(), 1)], element_of(view))
