"""The pass `lower-buf-to-wgsl`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    MemRefType,
    ModuleOp,
    StringAttr,
    UnitAttr,
    UnknownLoc,
    bf16,
    f16,
    f64,
    i8,
    i16,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects import wgsl
from tensorgrad.dialects.buf import (
    KernelOp,
    element_of,
    loop_extents,
    shape_of,
)
from tensorgrad.dialects.buf_control import view_of
from tensorgrad.dialects.dispatched import Extents
from tensorgrad.dialects.locations import line_of
from tensorgrad.dialects.native_schedules import NativeSchedule
from tensorgrad.dialects.schedule import (
    AttentionSchedule,
    ContractionSchedule,
    GroupSchedule,
    Schedule,
    ScheduleAttr,
    ThreadSchedule,
    folded,
)
from tensorgrad.dialects.signature import DTYPE
from tensorgrad.passes.analyses.guards import fold_guards, thread_numbers
from tensorgrad.passes.analyses.machine import VECTOR
from tensorgrad.passes.analyses.storage import bindings_of
from tensorgrad.passes.analyses.trips import EXCLUSIVE, LARGEST_INDEX
from tensorgrad.passes.analyses.walking import operations
from tensorgrad.passes.codegen.common.blocked_sums import block_sums
from tensorgrad.passes.codegen.common.control import Moves
from tensorgrad.passes.codegen.common.frame import Arrays, Frame
from tensorgrad.passes.codegen.common.hoisting import carry_addresses, hoist_invariants
from tensorgrad.passes.codegen.common.kernel_code import Code
from tensorgrad.passes.codegen.common.lowering import FunctionLowering, WrittenOnce, flat, named
from tensorgrad.passes.codegen.wgsl.attention import write_attention
from tensorgrad.passes.codegen.wgsl.binding_chunks import divide_bindings
from tensorgrad.passes.codegen.wgsl.contraction import vector_operands, write_contraction
from tensorgrad.passes.codegen.wgsl.group import write_group
from tensorgrad.passes.codegen.wgsl.stages import Unrolling, vector_arguments
from tensorgrad.passes.codegen.wgsl.thread import write_thread
from tensorgrad.passes.codegen.wgsl.vectors import vector_memory
from tensorgrad.passes.levels import PLANNED, LevelPass
from tensorgrad.passes.scalars import Value
from tensorgrad.passes.tensors.simplify import simplify_block
from tensorgrad.runtime.target import WEBGPU_DEFAULT, Target


@dataclass(frozen=True)
class LowerBufToWgslPass(LevelPass):
    """Lowers each scheduled kernel to a `wgsl.kernel`, and the function to a sequence of dispatches.

    Expects functions after `plan-memory`, with a `schedule` on every kernel. Guarantees one `wgsl.kernel` for each
    distinct kernel (equal ones are shared, wherever their buffers lie), linear indices only, and a `buf.dispatch` in
    place of each `buf.kernel`. A buffer of an arena that the kernel writes anywhere is bound `read_write`; all scalars
    share one binding. Loops that sum many floats are cut into blocks (`blocked_sums`). Kernels that exceed the target's
    limits are rejected, with the tensor's name and line.

    Attributes:
        target: The target device: its limits and features.
    """

    name = "lower-buf-to-wgsl"
    levels = PLANNED

    target: Target = WEBGPU_DEFAULT

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        _Lowering.run_all(ctx, op, self.target)


class _Lowering(FunctionLowering):
    """Lowers one function to shaders."""

    name = LowerBufToWgslPass.name

    def types(self, teams: Sequence[WrittenOnce], views: Sequence[SSAValue]) -> list[Attribute]:
        vectors = self._vectors(teams, views)
        return [vector_memory(flat(view)) if i in vectors else flat(view) for i, view in enumerate(views)]

    def groups(self, teams: Sequence[WrittenOnce]) -> Extents:
        first = teams[0]
        return first.schedule.groups if len(teams) == first.count == 1 else self._all_groups(teams)

    def choice(self, block: Block, access: Sequence[str]) -> wgsl.KernelOp:
        return wgsl.KernelOp(self.written.name("choice"), (1, 1, 1), access, block)

    def _vectors(self, teams: Sequence[WrittenOnce], views: Sequence[SSAValue]) -> set[int]:
        """Returns the bindings of a dispatch that all its kernels access in whole vectors."""
        vectors = {i for i, view in enumerate(views) if self._may_be_vectors(view)}
        for team in teams:
            whole = _in_vectors(team.kernel, team.schedule, [placement.start for placement in team.placed])
            for argument, placement in zip(team.kernel.body.block.args, team.placed, strict=True):
                if argument not in whole or placement.moved is not None or placement.entry is not None:
                    vectors.discard(placement.binding)
        return vectors & {placement.binding for team in teams for placement in team.placed}

    def _may_be_vectors(self, view: SSAValue) -> bool:
        """Returns whether a binding can be declared as an array of vectors."""
        whole = len(self.placing.chunks(view)) == 1 and view_of(view).start % 16 == 0
        return whole and flat(view).get_shape()[0] % VECTOR == 0

    def _all_groups(self, teams: Sequence[WrittenOnce]) -> tuple[int, int, int]:
        """Returns the workgroups of a dispatch shared by several kernels."""
        return folded(sum(team.groups for team in teams), self.target.max_compute_workgroups_per_dimension)

    def write(self, teams: Sequence[WrittenOnce], access: Sequence[str], types: Sequence[Attribute]) -> wgsl.KernelOp:
        for team in teams:
            self._check_subgroups(team.kernel, team.schedule)
        block = Block(arg_types=types)
        first = teams[0]
        if len(teams) == 1 and first.count == 1:
            name = first.schedule.archetype
            code = Code(block, {}, self._frame(first.schedule.groups, first.schedule.workgroup))
            write_kernel(first.kernel, first.schedule, first.bound(code, Moves(block), None))
        else:
            name = "shared"
            self._write_side_by_side(teams, block)
        block_sums(block)
        fold_guards(block, thread_numbers(self.groups(teams), first.schedule.workgroup))
        hoist_invariants(block)
        simplify_block(block)
        if self.target.software:
            carry_addresses(block)
        access = divide_bindings(block, access, self.target)
        return wgsl.KernelOp(self.written.name(name), first.schedule.workgroup, access, block)

    def _check_subgroups(self, kernel: KernelOp, schedule: Schedule) -> None:
        """Raises a `DiagnosticException` for rows that lanes broadcast, unless a workgroup is one subgroup."""
        if not (isinstance(schedule, ContractionSchedule | AttentionSchedule) and schedule.broadcast):
            return
        if not self.target.subgroups or self.target.subgroup_size != schedule.lanes:
            has = f"those of {self.target.subgroup_size}" if self.target.subgroups else "none"
            raise DiagnosticException(
                f"the kernel made at {line_of(kernel.location)} is scheduled for subgroups of {schedule.lanes} lanes "
                f"(broadcast = 1); {self.target.name} has {has}"
            )

    def _frame(self, groups: Extents, workgroup: Extents) -> Frame:
        """Returns the frame of a dispatch; Naga numbers the lanes of subgroups only in one-dimensional workgroups."""
        numbered = self.target.subgroups and not self.target.software and workgroup[1:] == (1, 1)
        subgroup = self.target.subgroup_size if numbered else None
        return Frame(groups, software=self.target.software, subgroup=subgroup or 1)

    def _write_side_by_side(self, teams: Sequence[WrittenOnce], block: Block) -> None:
        """Assigns each team a range of the dispatch's workgroups, and each of its kernels a part of that."""
        total = self._all_groups(teams)
        arrays, moves = Arrays(block), Moves(block)
        code = Code(block, {}, self._frame(total, teams[0].schedule.workgroup))
        number = code.add(wgsl.WorkgroupIdOp(0))
        if total[1] > 1:
            rows = code.add(wgsl.WorkgroupIdOp(1)) * total[0]
            number = number + rows
        start = 0
        for team in teams:
            mine = number - start if start else number
            first_op = block.last_op
            if team.groups == math.prod(total):
                _write_once(team, code, mine, arrays, moves)
            else:
                # The index of a group before the range wraps around, so one unsigned comparison tests both bounds.
                code.when(
                    mine < team.groups,
                    lambda o=team, m=mine: _write_once(o, code, m, arrays, moves),
                )
                cast(Operation, block.last_op).attributes[EXCLUSIVE] = UnitAttr()
            _locate(block, first_op, team.kernel)
            start += team.groups

    def check(self, kernels: Sequence[KernelOp], operands: Sequence[SSAValue], views: Sequence[SSAValue]) -> None:
        kernel = kernels[0]
        limit = self.target.max_storage_buffers_per_shader_stage
        self._check_indices(kernels, operands)
        if len(views) > limit:
            largest = max(map(view_of, operands), key=lambda view: view.size)
            count = bindings_of(largest.size, self.target)
            large = f"; {named(largest.result)} alone takes {count}, for its {largest.size} bytes"
            raise DiagnosticException(
                f"the kernel made at {line_of(kernel.location)} needs {len(views)} bindings, {self.target.name} has "
                f"{limit}{large if count > 1 else ''}"
            )
        lacking = _lacking(self.target)
        stored = {**lacking, bf16: "f32"}  # values in registers may be bf16
        for value in operands:
            element = element_of(value)
            if element in stored:
                unsigned = view_of(value).attributes.get(DTYPE) == StringAttr("u64")
                raise DiagnosticException(
                    f"{named(value)} has elements of {'u64' if unsigned else element}, which {self.target.name} does "
                    f"not have; it was made at {line_of(kernel.location)}; "
                    f"cast it to {'u32' if unsigned else stored[element]}"
                )
        for op in chain.from_iterable(operations(each.body.block) for each in kernels):
            for value in op.results:
                element = element_of(value) if isinstance(value.type, MemRefType) else value.type
                if element in lacking:
                    raise DiagnosticException(
                        f"{op.name} returns {element}, which {self.target.name} does not have; "
                        f"it was made at {line_of(op.location)}; compute in {lacking[element]}"
                    )

    def _check_indices(self, kernels: Sequence[KernelOp], operands: Sequence[SSAValue]) -> None:
        """Raises if 32-bit indices can't address a buffer's elements, a kernel's points, or its reduction."""
        for view in map(view_of, operands):
            if math.prod(shape_of(view.result)) > LARGEST_INDEX:
                raise DiagnosticException(
                    f"{named(view.result)} takes {view.size} bytes, of more elements than indices of 32 bits can "
                    f"address; it was made at {line_of(view.location)}"
                )
        for kernel in kernels:
            points, schedule = math.prod(kernel.extents), cast(ScheduleAttr, kernel.schedule).data
            if max(points, math.prod(schedule.groups) * math.prod(schedule.workgroup)) > LARGEST_INDEX:
                raise DiagnosticException(
                    f"the kernel made at {line_of(kernel.location)} has {points} points, more than indices of 32 bits "
                    "can address"
                )
            for stage in kernel.stages:
                own = math.prod(loop_extents(stage)[len(kernel.extents) :])
                if own > LARGEST_INDEX:
                    raise DiagnosticException(
                        f"the kernel made at {line_of(kernel.location)} reduces {own} values at a point, more than "
                        "indices of 32 bits can address: reduce one axis after the other, and store the "
                        "intermediate results"
                    )


def _lacking(target: Target) -> dict[Attribute, str]:
    """Returns the types that shaders of a target lack, each with its alternative."""
    replacements: dict[Attribute, str] = {f64: "f32", i8: "i32", i16: "i32"}
    replacements |= {} if target.f16 else {f16: "f32"}
    return replacements if target.int64 else {**replacements, i64: "i32 (u32 if it is unsigned)"}


def _write_once(moved: WrittenOnce, code: Code, number: Value, arrays: Arrays, moves: Moves) -> None:
    """Writes the code of a team for workgroups in [0, `groups`)."""
    each, member = math.prod(moved.schedule.groups), None
    if moved.count > 1:
        member = number // each
        number = number % each
    own = Code(
        code.block, {}, Frame(moved.schedule.groups, number.ssa, arrays, code.frame.software, code.frame.subgroup)
    )
    write_kernel(
        moved.kernel, moved.schedule, moved.bound(own, moves, None if member is None else own.value(member.ssa))
    )


def _in_vectors(kernel: KernelOp, schedule: Schedule, starts: Sequence[int]) -> set[SSAValue]:
    """Returns the arguments that a kernel accesses in whole vectors, given their starts in their bindings."""
    match schedule:
        case ThreadSchedule() | GroupSchedule():
            return vector_arguments(kernel, Unrolling.of(schedule), starts)
        case ContractionSchedule():
            return vector_operands(kernel, schedule, starts)
        case AttentionSchedule() | NativeSchedule():
            return set()


def write_kernel(kernel: KernelOp, schedule: Schedule, code: Code) -> None:
    """Writes a kernel's code according to its schedule's archetype.

    Raises:
        DiagnosticException: A kernel that is not a contraction is scheduled as one, or a schedule is for native code.
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
        case NativeSchedule():
            raise DiagnosticException(
                f"the kernel made at {line_of(kernel.location)} is scheduled for native code ({schedule.archetype}): "
                "lower-buf-to-cpu writes it"
            )


def _locate(block: Block, before: Operation | None, kernel: KernelOp) -> None:
    """Sets the location of ops after `before` that have none to that of a kernel."""
    op = block.first_op if before is None else before.next_op
    while op is not None:
        for inner in op.walk():
            if isinstance(inner.location, UnknownLoc):
                inner.location = kernel.location
        op = op.next_op
