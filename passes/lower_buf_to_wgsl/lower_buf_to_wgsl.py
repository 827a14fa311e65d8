"""The pass `lower-buf-to-wgsl`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import cast

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    DictionaryAttr,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    StringAttr,
    UnknownLoc,
    f16,
    f64,
    i32,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects import wgsl
from tensorgrad.dialects.buf import (
    ArenaOp,
    Buffer,
    DispatchOp,
    KernelOp,
    ViewOp,
    buffer_type,
    element_bytes,
    element_of,
)
from tensorgrad.dialects.buf_control import BranchOp, RepeatOp, RowOp
from tensorgrad.dialects.signature import NAME, ROLE
from tensorgrad.passes.kernels.graph import steps_of
from tensorgrad.passes.kernels.kinds import contraction_of
from tensorgrad.passes.lower_buf_to_wgsl.attention import attention_kernel
from tensorgrad.passes.lower_buf_to_wgsl.contraction import contraction, vector_operands
from tensorgrad.passes.lower_buf_to_wgsl.control import (
    MOST_COUNTERS,
    Condition,
    Moves,
    Placed,
    Row,
    counter_of,
    view_of,
    write_choice,
)
from tensorgrad.passes.lower_buf_to_wgsl.emission import Arrays, Binding, Code, Frame
from tensorgrad.passes.lower_buf_to_wgsl.hoisting import carry_addresses, hoist_invariants
from tensorgrad.passes.lower_buf_to_wgsl.pointwise import neighbours_in_thread, vector_arguments
from tensorgrad.passes.lower_buf_to_wgsl.rows import group_a_point, thread_a_point
from tensorgrad.passes.lower_buf_to_wgsl.vectors import vector_memory
from tensorgrad.passes.schedule.schedules import Schedule, folded
from tensorgrad.passes.simplify import simplify_block
from tensorgrad.passes.traffic import BYTES_MOVED, bytes_moved
from tensorgrad.runtime.target import Target


@dataclass(frozen=True)
class LowerBufToWgslPass(ModulePass):
    """Writes each scheduled kernel as a `wgsl.kernel`, and the function as a list of dispatches.

    Expects functions behind `plan-memory`, with a `schedule` on every kernel. Guarantees: one `wgsl.kernel` for each
    different kernel (equal ones are shared, wherever they lie in memory), linear indices only, and a `buf.dispatch`
    where each `buf.kernel` was. A buffer of an arena that the kernel writes anywhere is bound `read_write`; all scalars
    are one binding. Kernels that need more than the target has are refused, with the tensor's name and line.

    Attributes:
        target: A profile or JSON: limits and features.
    """

    name = "lower-buf-to-wgsl"

    target: str = "webgpu-default"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = Target.from_spec(self.target)
        written = _Written()
        for function in list(op.ops):
            if isinstance(function, FuncOp) and function.body.blocks:
                _Lowering(op, function, target, written).run()


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
        self.scalars = self._pack_scalars()
        self.views: dict[tuple[SSAValue, int, int, Attribute], SSAValue] = {}
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

    def _pack_scalars(self) -> dict[SSAValue, tuple[SSAValue, int]]:
        """One view over all scalars of an arena, and each scalar's place in it."""
        found: dict[SSAValue, list[ViewOp]] = {}
        for op in self.function.body.block.ops:
            role = op.attributes.get(ROLE) if isinstance(op, ViewOp) else None
            if isinstance(op, ViewOp) and isinstance(role, StringAttr) and role.data == "scalar":
                found.setdefault(op.arena, []).append(op)
        packed: dict[SSAValue, tuple[SSAValue, int]] = {}
        for arena, views in found.items():
            first = min(view.start for view in views)
            count = (max(view.start for view in views) - first) // 4 + 1
            view = ViewOp.of(arena, first, buffer_type([count], element_of(views[0].result)))
            view.location = views[0].location
            self.function.body.block.insert_op_after(view, views[-1])
            packed |= {v.result: (view.result, (v.start - first) // 4) for v in views}
        return packed

    def _lower(self, kernels: Sequence[KernelOp]) -> None:
        """Lowers the kernels of one dispatch."""
        operands = [operand for kernel in kernels for operand in kernel.operands]
        rows, counters = self._rows(operands)
        places = [self.scalars.get(operand, (self._whole(operand), 0)) for operand in operands]
        places = self._within_bindings(kernels[0], places, len(counters))
        views = [*dict.fromkeys(view for view, _ in places), *counters]
        if len(kernels) > 1 and len(views) > self.target.max_storage_buffers_per_shader_stage:
            for kernel in kernels:  # where their buffers came to lie, they have too many bindings together
                self._lower([kernel])
            return
        self._check(kernels, operands, views)
        schedules = [Schedule.read(cast(DictionaryAttr, kernel.schedule)) for kernel in kernels]
        written = {view_of(output).arena for kernel in kernels for output in kernel.outputs}
        access = ["read_write" if view_of(view).arena in written else "read" for view in views]
        placed = [
            Placed(views.index(view), start, None if row is None else (row[0], tuple(map(views.index, row[1]))))
            for (view, start), row in zip(places, rows, strict=True)
        ]
        structures = tuple((_structure(kernel), kernel.schedule) for kernel in kernels)
        vectors = self._vectors(kernels, schedules, placed, views)
        types = [vector_memory(_flat(view)) if i in vectors else _flat(view) for i, view in enumerate(views)]
        key = (structures, tuple(access), tuple(placed), tuple(types))
        made = self.known.get(key)
        if made is None:
            made = self.known[key] = self._write(kernels, schedules, access, placed, types)
        groups = schedules[0].groups if len(kernels) == 1 else self._all_groups(schedules)
        dispatch = DispatchOp.of(made.sym_name.data, groups, views)
        dispatch.location = kernels[0].location
        dispatch.attributes[BYTES_MOVED] = IntegerAttr(sum(bytes_moved(kernel) for kernel in kernels), i64)
        cast(Block, kernels[0].parent).insert_op_before(dispatch, kernels[0])
        for kernel in kernels:
            kernel.detach()
            kernel.erase()

    def _vectors(
        self,
        kernels: Sequence[KernelOp],
        schedules: Sequence[Schedule],
        placed: Sequence[Placed],
        views: Sequence[SSAValue],
    ) -> set[int]:
        """The bindings of a dispatch that all of its kernels read and write in whole vectors."""
        found = {
            i for i, view in enumerate(views) if _flat(view).get_shape()[0] % 4 == 0 and view_of(view).start % 16 == 0
        }
        at = 0
        for kernel, schedule in zip(kernels, schedules, strict=True):
            mine = placed[at : at + len(kernel.operands)]
            at += len(mine)
            whole = _in_vectors(kernel, schedule, [one.start for one in mine])
            for argument, one in zip(kernel.body.block.args, mine, strict=True):
                if argument not in whole or one.moved is not None:
                    found.discard(one.binding)
        return found & {one.binding for one in placed}

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
        rows, counters = self._rows(predicates)
        whole = [self._whole(predicate) for predicate in predicates]
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

    def _all_groups(self, schedules: Sequence[Schedule]) -> tuple[int, int, int]:
        """The workgroups of a dispatch that kernels share."""
        return folded(sum(math.prod(schedule.groups) for schedule in schedules), self.target)

    def _rows(self, operands: Sequence[SSAValue]) -> tuple[list[Row | None], list[SSAValue]]:
        """For each operand that a loop moves, how far and by which counters; and all counters."""
        rows: list[Row | None] = []
        for operand in operands:
            owner = operand.owner
            found = (
                (owner.at.data, [counter_of(index) for index in owner.indices]) if isinstance(owner, RowOp) else None
            )
            rows.append(found)
        counters = list(dict.fromkeys(counter for row in rows if row is not None for counter in row[1]))
        if len(counters) > MOST_COUNTERS:
            raise DiagnosticException(f"{len(counters)} loops inside of each other; devices take {MOST_COUNTERS}")
        return rows, counters

    def _whole(self, operand: SSAValue) -> SSAValue:
        """The view that an operand is, or is a part of: one for all views of the same bytes."""
        view = view_of(operand)
        kind = element_of(view.result)
        return self.views.setdefault((view.arena, view.start, view.size, kind), view.result)

    def _within_bindings(
        self, kernel: KernelOp, places: list[tuple[SSAValue, int]], counters: int
    ) -> list[tuple[SSAValue, int]]:
        """Where a dispatch has too many bindings, arenas are bound once for all of their tensors in it."""
        limit = self.target.max_storage_buffers_per_shader_stage - counters
        views = list(dict.fromkeys(view for view, _ in places))
        groups: dict[SSAValue, list[ViewOp]] = {}
        for view in views:
            owner = cast(ViewOp, view.owner)
            groups.setdefault(owner.arena, []).append(owner)
        ranked = sorted(groups.values(), key=lambda group: (_role(group[0]) not in ("parameter", "state"), -len(group)))
        for group in ranked:
            if len(views) <= limit:
                break
            if len(group) > 1 and self._can_be_one(group):
                shared = self._view_over(group, kernel)
                width = element_bytes(element_of(group[0].result))
                start = cast(ViewOp, shared.owner).start
                moved: dict[SSAValue, int] = {view.result: (view.start - start) // width for view in group}
                places = [(shared, at + moved[v]) if v in moved else (v, at) for v, at in places]
                views = list(dict.fromkeys(view for view, _ in places))
        return places

    def _can_be_one(self, group: Sequence[ViewOp]) -> bool:
        """Whether one binding can hold all views of an arena."""
        size = max(view.start + view.size for view in group) - min(view.start for view in group)
        one_type = len({element_of(view.result) for view in group}) == 1
        return one_type and size <= self.target.max_storage_buffer_binding_size

    def _view_over(self, group: Sequence[ViewOp], kernel: KernelOp) -> SSAValue:
        """One flat view over all views of a group."""
        first, end = min(view.start for view in group), max(view.start + view.size for view in group)
        element = element_of(group[0].result)
        kind = buffer_type([(end - first) // element_bytes(element)], element)
        for op in self.function.body.block.ops:
            if isinstance(op, ViewOp) and op.arena is group[0].arena and op.start == first and op.result.type == kind:
                return op.result
        view = ViewOp.of(group[0].arena, first, kind)
        view.location = kernel.location
        last = max(group, key=lambda one: one.start)
        self.function.body.block.insert_op_after(view, last)
        return view.result

    def _write(
        self,
        kernels: Sequence[KernelOp],
        schedules: Sequence[Schedule],
        access: Sequence[str],
        placed: Sequence[Placed],
        types: Sequence[Attribute],
    ) -> wgsl.KernelOp:
        """Writes a new kernel in front of the function."""
        block = Block(arg_types=types)
        arguments = [argument for kernel in kernels for argument in kernel.body.block.args]
        found = Moves(block)
        bindings: dict[SSAValue, Binding] = {
            argument: Binding(block.args[one.binding], one.start, found.of(one))
            for argument, one in zip(arguments, placed, strict=True)
        }
        if len(kernels) == 1:
            name = schedules[0].archetype
            write_kernel(kernels[0], schedules[0], Code(block, bindings, Frame(schedules[0].groups)))
        else:
            name = "shared"
            self._write_side_by_side(kernels, schedules, block, bindings)
        hoist_invariants(block)
        simplify_block(block)
        if self.target.software:
            carry_addresses(block)
        number = self.counts.get(name, 0)
        self.counts[name] = number + 1
        made = wgsl.KernelOp(f"{name}{number}", schedules[0].workgroup, access, block)
        for op in made.walk():
            if isinstance(op.location, UnknownLoc):
                op.location = kernels[0].location
        self.module.body.block.insert_op_before(made, self.function)
        return made

    def _write_side_by_side(
        self,
        kernels: Sequence[KernelOp],
        schedules: Sequence[Schedule],
        block: Block,
        bindings: dict[SSAValue, Binding],
    ) -> None:
        """Gives each kernel its range of the dispatch's workgroups."""
        total = self._all_groups(schedules)
        arrays = Arrays(block)
        code = Code(block, bindings, Frame(total))
        number = code.add(wgsl.WorkgroupIdOp(0))
        if total[1] > 1:
            rows = code.index_op(arith.MuliOp, code.add(wgsl.WorkgroupIdOp(1)), total[0])
            number = code.index_op(arith.AddiOp, number, rows)
        start = 0
        for kernel, schedule in zip(kernels, schedules, strict=True):
            mine = code.index_op(arith.SubiOp, number, start) if start else number
            frame = Frame(schedule.groups, mine, arrays)
            # A number before the range wraps around, so one comparison tests both ends.
            first_op = block.last_op
            code.when(
                code.below(mine, math.prod(schedule.groups)),
                lambda inner, k=kernel, s=schedule, f=frame: write_kernel(k, s, Code(inner.block, bindings, f)),
            )
            _locate(block, first_op, kernel)
            start += math.prod(schedule.groups)

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
        for op in kernel.walk():
            for value in op.results:
                element = element_of(value) if isinstance(value.type, MemRefType) else value.type
                if element == f64 or (element == f16 and not self.target.f16):
                    raise DiagnosticException(
                        f"{op.name} gives {element}, which {self.target.name} does not have; "
                        f"it was made at {op.location}; compute in f32"
                    )


def _in_vectors(kernel: KernelOp, schedule: Schedule, starts: Sequence[int]) -> set[SSAValue]:
    """The arguments that a kernel reads and writes in whole vectors; given where in their bindings they start."""
    if schedule.archetype == "thread" and schedule.width > 1:
        return vector_arguments(kernel, schedule.width, starts)
    stage = contraction_of(kernel)
    if schedule.archetype == "contraction" and stage is not None and schedule.tile is not None:
        return vector_operands(kernel, stage, schedule.tile, starts)
    return set()


def write_kernel(kernel: KernelOp, schedule: Schedule, code: Code) -> None:
    """Writes a kernel's code by its schedule's archetype."""
    if schedule.archetype == "thread" and schedule.width > 1:
        neighbours_in_thread(kernel, code, math.prod(schedule.workgroup), schedule.width)
    elif schedule.archetype == "thread":
        thread_a_point(kernel, code, math.prod(schedule.workgroup))
    elif schedule.archetype == "group":
        group_a_point(kernel, code, math.prod(schedule.workgroup))
    elif schedule.archetype == "attention" and kernel.attention is not None and schedule.tile is not None:
        attention_kernel(kernel.attention, code, schedule.tile, schedule.groups)
    else:
        stage = contraction_of(kernel)
        if stage is None or schedule.tile is None:
            raise DiagnosticException(f"the kernel at {kernel.location} is no contraction, but scheduled as one")
        contraction(kernel, stage, code, schedule.tile)


def _locate(block: Block, before: Operation | None, kernel: KernelOp) -> None:
    """Gives what was written behind an op the location of a kernel, where it has none."""
    op = block.first_op if before is None else before.next_op
    while op is not None:
        for inner in op.walk():
            if isinstance(inner.location, UnknownLoc):
                inner.location = kernel.location
        op = op.next_op


def _structure(kernel: KernelOp) -> tuple[object, ...]:
    """A kernel's body and grid, whatever buffers it runs on: equal structures are equal kernels."""
    return (kernel.extents, *_block_structure(kernel.body.block, {}))


def _block_structure(block: Block, numbers: dict[SSAValue, int]) -> Iterator[object]:
    for argument in block.args:
        numbers[argument] = len(numbers)
        yield argument.type
    for op in block.ops:
        properties = (*op.properties.items(), *op.attributes.items())
        yield op.name, tuple(numbers[operand] for operand in op.operands), properties
        for region in op.regions:
            for inner in region.blocks:
                yield tuple(_block_structure(inner, numbers))
        for result in op.results:
            numbers[result] = len(numbers)
            yield result.type


def _role(view: ViewOp) -> str:
    """The role of the arena that a view is of."""
    return cast(ArenaOp, view.arena.owner).role.data


def _named(view: SSAValue) -> str:
    name = view.owner.attributes.get(NAME) if isinstance(view.owner, ViewOp) else None
    return f"{name.data!r}" if isinstance(name, StringAttr) else f"a tensor of {view.type}"


def _flat(view: SSAValue) -> MemRefType[Attribute]:
    kind = cast(Buffer, view.type)
    return MemRefType(element_of(view), [max(kind.element_count(), 1)])
