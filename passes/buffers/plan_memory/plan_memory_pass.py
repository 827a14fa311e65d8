"""The pass `plan-memory`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects import memref
from xdsl.dialects.builtin import IntegerAttr, IntegerType, LocationAttr, ModuleOp, UnitAttr, i32, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.buf import (
    PACKED_VIEW,
    VALUE,
    ArenaOp,
    Buffer,
    KernelOp,
    PackOp,
    ViewOp,
    buffer_bytes,
    buffer_type,
    element_bytes,
    element_of,
    pack_of,
    parts_of,
)
from tensorgrad.dialects.buf_control import BranchOp, RowOp
from tensorgrad.dialects.functions import defined_functions, is_private
from tensorgrad.dialects.locations import line_of
from tensorgrad.dialects.signature import Role, Slot, arguments_of
from tensorgrad.dialects.tg.shape import PACK_ALIGNMENT
from tensorgrad.passes.analyses.graph import ExecutionOrder, KernelGraph, has_calls, steps_of, updates_of
from tensorgrad.passes.analyses.storage import (
    LEAST_WORKSPACE_BYTES,
    PACKED,
    PEAK_BYTES,
    WORKSPACE_BYTES,
    arena_of,
    bindings_of,
    writes_in_place,
)
from tensorgrad.passes.analyses.walking import operations
from tensorgrad.passes.buffers.plan_memory.arenas import ArenaLayout, Range, by_lifetime, least_bytes, side_by_side
from tensorgrad.passes.buffers.plan_memory.control import (
    BranchItem,
    ControlTree,
    Item,
    KernelItem,
    Loop,
    Root,
    ValueLocation,
)
from tensorgrad.passes.buffers.plan_memory.explain import explain
from tensorgrad.passes.functions import return_of, set_signature
from tensorgrad.passes.levels import KERNELS, LevelPass
from tensorgrad.runtime.target import WEBGPU_DEFAULT, Target


@dataclass(frozen=True)
class PlanMemoryPass(LevelPass):
    """Assigns every buffer a range of an arena.

    Expects functions of `buf` whose buffers have one writer each. Guarantees functions without arguments, whose storage
    is `buf.arena`s and `buf.view`s, with names and roles on the views. Ranges that are live at the same time don't
    overlap. The function gets the attributes `buf.peak_bytes` (all arenas), `buf.workspace_bytes`, and
    `buf.least_workspace_bytes`, a lower bound on the workspace of any plan for this order of kernels.

    - Parameters share an arena, in the order of the arguments; so does each kind of optimizer state (the part of the
      name before the first `/`).
    - Inputs and scalars share an arena, with the scalars packed at its start.
    - The buffers of a `buf.pack` lie at its offsets, with zeros between them, and the pack becomes one view. Packed
      allocations, such as gradients, have an arena of their own.
    - Everything else shares the workspace, by live range. Buffers of a two-phase exchange are live from its start to
      its wait.
    - An update is in place if no later kernel reads the old value. Otherwise it is copied at the end.

    The kernels of private functions that a function runs are inlined into `buf.repeat` and `buf.branch`. Values that a
    loop carries are updated in place or double-buffered; slices of sequences are read and written in place.

    Attributes:
        target: The device: alignment, and the limits on bindings and buffers.
    """

    name = "plan-memory"
    levels = KERNELS

    target: Target = WEBGPU_DEFAULT

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        functions = defined_functions(op)
        for function in functions:
            if has_calls(function) and not is_private(function):
                _ControlPlan(op, function, self.target).run()
            elif not has_calls(function) and not is_private(function):
                _FunctionPlan(function, self.target).run()
        for function in functions:
            if is_private(function):
                Rewriter.erase_op(function)
            else:
                explain(function)


class _FunctionPlan:
    """Plans one function."""

    def __init__(self, function: FuncOp, target: Target):
        self.function = function
        self.block = function.body.block
        self.target = target
        self.slots = arguments_of(function)
        self.arguments = list(self.block.args)
        self.graph = KernelGraph.of(function)
        self.order = self.graph.order()
        self.execution = ExecutionOrder.of(self.order)
        self.packs: dict[PackOp, SSAValue | None] = {}
        self.anchor = next(op for op in self.block.ops if not isinstance(op, PackOp))
        self.total = 0

    def run(self) -> None:
        """Plans the function in place."""
        for value in (*self.arguments, *(op.memref for op in self._allocations())):
            self._check_size(value)
        copies = self._update_in_place()
        packs = self._remaining_packs()
        groups: dict[tuple[str, Role], list[tuple[SSAValue, Slot]]] = {}
        for argument, slot in zip(self.arguments, self.slots, strict=True):
            if slot.role != Role.UPDATE or argument.uses:
                groups.setdefault(arena_of(slot), []).append((argument, slot))
        views: dict[SSAValue, SSAValue] = {}
        for (label, role), members in groups.items():
            views.update(self._named_arena(label, role, members))
        views.update(self._gradients())
        views.update(self._workspace())
        self._place_packs(packs, views)
        for old, new in views.items():
            new.name_hint = old.name_hint
            old.replace_all_uses_with(new)
        last = return_of(self.function)
        for kernel in self.order:
            kernel.detach()
            self.block.insert_op_before(kernel, last)
        for new, old in copies:
            self._copy(views[new], views[old])
        for op in self._allocations():
            Rewriter.erase_op(op)
        self._finish()

    def _allocations(self) -> list[memref.AllocOp]:
        return [op for op in self.block.ops if isinstance(op, memref.AllocOp)]

    def _check_size(self, value: SSAValue) -> None:
        size = buffer_bytes(cast(Buffer, value.type))
        if size > self.target.max_buffer_size:
            owner = value.owner if isinstance(value.owner, Operation) else self.function
            raise too_large(f"{self._name(value)} of {value.type}", size, owner.location, self.target)

    def _name(self, value: SSAValue) -> str:
        """Returns the name of a buffer for messages."""
        slots: dict[SSAValue, Slot] = dict(zip(self.arguments, self.slots, strict=True))
        return f"{slots[value].role} {slots[value].name!r}" if value in slots else value.name_hint or "a tensor"

    # Updates

    def _update_in_place(self) -> list[tuple[SSAValue, SSAValue]]:
        """Makes updates overwrite the old values; returns (new, old) for those that must be copied at the end."""
        copies: list[tuple[SSAValue, SSAValue]] = []
        for old, new in list(self.graph.updates.items()):
            writer, pack = self.graph.writer(new), pack_of(new)
            if writer is None or (pack is not None and self._pack_in_place(pack, writer)):
                continue
            if pack is None and self._is_in_place(writer, old, new, [old]):
                new.replace_all_uses_with(old)
            else:
                copies.append((new, old))
        for pack in [op for op in self.block.ops if isinstance(op, PackOp) and op not in self.packs]:
            self._pack_in_place(pack, None)
        return copies

    def _pack_in_place(self, pack: PackOp, writer: KernelOp | None) -> bool:
        """Returns whether a pack of updates overwrites that of the old values; decided once for all its parts."""
        if pack not in self.packs:
            old = None if writer is None else self.graph.places.get(pack.result)
            in_place = (
                old is not None and writer is not None and self._is_in_place(writer, old, pack.result, parts_of(old))
            )
            self.packs[pack] = old if in_place else None
        return self.packs[pack] is not None

    def _is_in_place(self, writer: KernelOp, old: SSAValue, new: SSAValue, parts: Sequence[SSAValue]) -> bool:
        """Returns whether a kernel that writes an update, or a pack of updates, may overwrite the old values."""
        packs = {pack.result for part in parts if (pack := pack_of(part)) is not None and pack.result is not old}
        if packs & set(writer.inputs):
            return False  # the kernel reads the pack at other indices than it writes the parts
        possible = all(self.graph.updates[part] in self.graph.in_place for part in parts)
        possible = possible and writes_in_place(writer, old, new)
        return possible and not any(self.execution.reads_after(part, writer) for part in parts)

    # Packs

    def _remaining_packs(self) -> list[PackOp]:
        """Replaces packs that are updated in place with those of the old values, and returns the others."""
        for pack, old in self.packs.items():
            if old is not None:
                pack.result.replace_all_uses_with(old)
                for new, value in zip(pack.parts, parts_of(old), strict=True):
                    new.replace_uses_with_if(value, lambda use: not isinstance(use.operation, PackOp))
                Rewriter.erase_op(pack)
        return [pack for pack, old in self.packs.items() if old is None]

    def _place_packs(self, packs: Sequence[PackOp], views: dict[SSAValue, SSAValue]) -> None:
        """Creates a view for each pack, over the views of its parts."""
        for pack in packs:
            width = element_bytes(element_of(pack.result))
            places = [cast(ViewOp, views[part].owner) for part in pack.parts]
            start = places[0].start - pack.starts[0] * width
            if any(
                part.arena is not places[0].arena or part.start != start + offset * width
                for part, offset in zip(places, pack.starts, strict=True)
            ):
                raise DiagnosticException(
                    f"{self._name(pack.parts[0])} and {self._name(pack.parts[-1])} are packed, but are not adjacent; "
                    f"their pack of {pack.result.type} may be larger than a buffer of target {self.target.name}"
                )
            self._check_size(pack.result)
            view = self._view(pack.result, cast(ArenaOp, places[0].arena.owner), start)
            view.attributes[PACKED_VIEW] = UnitAttr()
            pack.result.replace_all_uses_with(view.result)
            Rewriter.erase_op(pack)

    # Arenas

    def _units(self, members: Sequence[SSAValue]) -> list[list[tuple[SSAValue, int, int]]]:
        """Returns the units to lay out: a buffer, or those of a pack, each with its offset and end in bytes."""
        units: dict[object, list[tuple[SSAValue, int, int]]] = {}
        for value in members:
            pack = pack_of(value)
            if pack is None:
                units[value] = [(value, 0, buffer_bytes(cast(Buffer, value.type)))]
                continue
            offset = pack.starts[list(pack.parts).index(value)] * element_bytes(element_of(value))
            end = buffer_bytes(pack.result.type) if value is pack.parts[-1] else offset
            units.setdefault(pack, []).append((value, offset, end))
        return list(units.values())

    def _gradients(self) -> dict[SSAValue, SSAValue]:
        """Creates views for packed allocations, in arenas that are zero between them."""
        values = [op.memref for op in self._allocations() if pack_of(op.memref) is not None]
        units = self._units(values)
        layout = side_by_side([max(end for *_, end in unit) for unit in units], *self._limits())
        arenas = self._make_arenas(PACKED, Role.WORKSPACE, layout)
        result: dict[SSAValue, SSAValue] = {}
        for unit, (arena, start) in zip(units, layout.places, strict=True):
            result.update({v: self._view(v, arenas[arena], start + offset).result for v, offset, _ in unit})
        return result

    def _limits(self) -> tuple[int, int]:
        """Returns the alignment of packed buffers, and the maximum size of their arenas."""
        limit = self._bindable()
        packs = [buffer_bytes(op.result.type) for op in self.block.ops if isinstance(op, PackOp)]
        alignment = max(self.target.min_storage_buffer_offset_alignment, PACK_ALIGNMENT)
        return alignment, self.target.max_buffer_size if max(packs, default=0) > limit else limit

    def _bindable(self) -> int:
        """Returns the maximum size of an arena that one binding can cover."""
        return min(self.target.max_buffer_size, self.target.max_storage_buffer_binding_size)

    def _workspace_limit(self) -> int:
        """Returns the maximum size of a workspace arena.

        It is that of a binding if a kernel has too many buffers to bind each separately.
        """
        most = max((self._bindings_apart(kernel) for kernel in self._kernels()), default=0)
        is_crowded = most > self.target.max_storage_buffers_per_shader_stage
        return self._bindable() if is_crowded else self.target.max_buffer_size

    def _kernels(self) -> Sequence[KernelOp]:
        return self.order

    def _bindings_apart(self, kernel: KernelOp) -> int:
        """Returns the number of bindings of a kernel if each buffer is bound separately."""
        return sum(bindings_of(buffer_bytes(cast(Buffer, value.type)), self.target) for value in {*kernel.operands})

    def _named_arena(self, label: str, role: Role, members: list[tuple[SSAValue, Slot]]) -> dict[SSAValue, SSAValue]:
        """Creates views for arguments, side by side in their order, with the scalars first."""
        scalars = [entry for entry in members if entry[1].role == Role.SCALAR]
        others = [entry for entry in members if entry[1].role != Role.SCALAR]
        stride = max((buffer_bytes(cast(Buffer, value.type)) for value, _ in scalars), default=0)  # so all are aligned
        units = [[(value, 0, buffer_bytes(cast(Buffer, value.type)))] for value, _ in others]
        limits = self.target.min_storage_buffer_offset_alignment, self.target.max_buffer_size
        if role in (Role.PARAMETER, Role.STATE) or any(pack_of(value) is not None for value, _ in others):
            limits = self._limits()
        if role != Role.PARAMETER:  # parameters keep the order of the arguments, on which other programs rely
            units = self._units([value for value, _ in others])
        sizes = ([stride * len(scalars)] if scalars else []) + [max(end for *_, end in unit) for unit in units]
        layout = side_by_side(sizes, *limits)
        if role in (Role.INPUT, Role.OUTPUT) and len(layout.sizes) > 1:
            largest = max((value for value, _ in others), key=lambda value: buffer_bytes(cast(Buffer, value.type)))
            raise DiagnosticException(
                f"the {label} take more than the {self.target.max_buffer_size} bytes of a buffer of "
                f"{self.target.name}; the largest is {self._name(largest)} of {largest.type}"
            )
        places = list(layout.places)
        if scalars:
            arena, start = places.pop(0)
            places = [(arena, start + stride * i) for i in range(len(scalars))] + places
        spread = {
            value: (arena, start + offset)
            for unit, (arena, start) in zip(units, places[len(scalars) :], strict=True)
            for value, offset, _ in unit
        }
        arenas = self._make_arenas(label, role, layout)
        result: dict[SSAValue, SSAValue] = {}
        for number, (value, slot) in enumerate([*scalars, *others]):
            arena, offset = places[number] if number < len(scalars) else spread[value]
            view = self._view(value, arenas[arena], offset)
            if slot.role != Role.UPDATE:
                view.attributes.update(slot.attributes())
            result[value] = view.result
        return result

    def _workspace(self) -> dict[SSAValue, SSAValue]:
        """Creates views for allocations, which overlap where lifetimes are disjoint."""
        number, starts = steps_of(self.order), self.execution.starts
        values = [op.memref for op in self._allocations() if pack_of(op.memref) is None]
        ranges: list[Range] = []
        for value in values:
            kernels = [use.operation for use in value.uses if isinstance(use.operation, KernelOp)]
            begun = [starts[kernel] for kernel in kernels if kernel in starts and value in kernel.outputs]
            steps = [number[kernel] for kernel in (*kernels, *begun)]
            ranges.append(Range(buffer_bytes(value.type), min(steps), max(steps)))
        places = zip(values, self._shared_places(ranges), strict=True)
        return {value: self._view(value, arena, offset).result for value, (arena, offset) in places}

    def _shared_places(self, ranges: Sequence[Range]) -> list[tuple[ArenaOp, int]]:
        """Creates the arenas of the workspace; returns the arena and offset of each range."""
        alignment = self.target.min_storage_buffer_offset_alignment
        layout = by_lifetime(ranges, alignment, self._workspace_limit())
        self.function.attributes[WORKSPACE_BYTES] = IntegerAttr(sum(layout.sizes), i64)
        self.function.attributes[LEAST_WORKSPACE_BYTES] = IntegerAttr(least_bytes(ranges), i64)
        arenas = self._make_arenas("workspace", Role.WORKSPACE, layout)
        return [(arenas[arena], offset) for arena, offset in layout.places]

    def _make_arenas(self, label: str, role: Role, layout: ArenaLayout) -> list[ArenaOp]:
        arenas: list[ArenaOp] = []
        for number, size in enumerate(layout.sizes):
            name = label if len(layout.sizes) == 1 else f"{label}{number}"
            arena = ArenaOp.of(name, role, max(-(-size // 4) * 4, 4))  # devices have no empty buffers
            arena.location = self.function.location
            self.block.insert_op_before(arena, self.anchor)
            self.total += arena.size
            arenas.append(arena)
        return arenas

    def _view(self, value: SSAValue, arena: ArenaOp, offset: int) -> ViewOp:
        owner = value.owner
        location = owner.location if isinstance(owner, Operation) else self.function.location
        return self._new_view(arena.result, offset, cast(Buffer, value.type), location)

    def _new_view(self, arena: SSAValue, offset: int, kind: Buffer, location: LocationAttr) -> ViewOp:
        view = ViewOp.of(arena, offset, kind)
        view.location = location
        self.block.insert_op_before(view, self.anchor)
        return view

    def _copy(self, source: SSAValue, target: SSAValue) -> None:
        """Copies an update that is not in place to the old value, at the end."""
        last = return_of(self.function)
        copy = memref.CopyOp(source, target)
        copy.location = last.location
        self.block.insert_op_before(copy, last)

    def _finish(self) -> None:
        """Erases the arguments, whose storage is views, and records the size of all arenas."""
        for argument in reversed(self.arguments):
            self.block.erase_arg(argument)
        set_signature(self.function, [], [])
        self.function.properties.pop("arg_attrs", None)
        self.function.attributes[PEAK_BYTES] = IntegerAttr(self.total, i64)


class _ControlPlan(_FunctionPlan):
    """Plans one function that runs others in loops and branches."""

    def __init__(self, module: ModuleOp, function: FuncOp, target: Target):
        super().__init__(function, target)
        self.tree = ControlTree(module, function, target.min_storage_buffer_offset_alignment)
        self.storage: dict[Root, tuple[SSAValue, int]] = {}
        self.views: dict[tuple[Root, int, Attribute], SSAValue] = {}
        self.numbers: dict[Root, int] = {}
        self.rows: dict[tuple[ValueLocation, Attribute], SSAValue] = {}

    def run(self) -> None:
        """Plans the function in place."""
        for value in self.arguments:
            self._check_size(value)
        named = self._named_arenas()
        self._shared_workspace()
        counters = self._counters()
        old = [op for op in self.block.ops if op is not return_of(self.function)]
        old = old[old.index(self.anchor) :]
        last = return_of(self.function)
        end = Block()
        self._emit(self.tree.items, end, counters)
        for op in list(end.ops):
            op.detach()
            self.block.insert_op_before(op, last)
        for before, after in updates_of(self.function).items():
            if self.tree.arguments[after] not in self.tree.in_place and after in named:
                self._copy(named[after], named[before])
        for op in reversed(old):
            Rewriter.erase_op(op)
        self._finish()

    # Storage

    def _named_arenas(self) -> dict[SSAValue, SSAValue]:
        """Creates views for all arguments except updates in place."""
        groups: dict[tuple[str, Role], list[tuple[SSAValue, Slot]]] = {}
        for argument, slot in zip(self.arguments, self.slots, strict=True):
            root = self.tree.arguments[argument]
            if slot.role != Role.UPDATE or (root not in self.tree.in_place and root.uses):
                groups.setdefault(arena_of(slot), []).append((argument, slot))
        views: dict[SSAValue, SSAValue] = {}
        for (label, role), members in groups.items():
            views.update(self._named_arena(label, role, members))
        for argument, view in views.items():
            view.name_hint = argument.name_hint
            owner, root = cast(ViewOp, view.owner), self.tree.arguments[argument]
            owner.attributes[VALUE] = self._number(root)
            self.storage[root] = owner.arena, owner.start
            self.views[root, 0, view.type] = view
        return views

    def _shared_workspace(self) -> None:
        roots = [root for root in self.tree.roots if root.uses and root.size]
        ranges: list[Range] = []
        for root in roots:
            if root.size > self.target.max_buffer_size:
                raise too_large("what a loop or branch reads or writes", root.size, root.location, self.target)
            ranges.append(Range(root.size, *root.lifetime()))
        for root, (arena, offset) in zip(roots, self._shared_places(ranges), strict=True):
            self.storage[root] = arena.result, offset

    def _kernels(self) -> Sequence[KernelOp]:
        functions = self.tree.functions.values()
        return [op for function in functions for op in operations(function.body.block) if isinstance(op, KernelOp)]

    def _counters(self) -> SSAValue | None:
        """Returns a buffer of the iteration indices below the longest trip count, each at a bindable offset."""
        if not self.tree.loops:
            return None
        longest = max(self.tree.loops, key=lambda loop: loop.count)
        most, words = longest.count, self.target.min_storage_buffer_offset_alignment // 4
        if 4 * words * most > self.target.max_buffer_size:
            what = f"the table of a loop's {most} iterations"
            raise too_large(what, 4 * words * most, longest.op.location, self.target)
        arena = self._make_arenas("counters", Role.COUNTER, ArenaLayout([], [4 * words * most]))[0]
        return self._new_view(arena.result, 0, buffer_type([words * most], i32), self.function.location).result

    def _number(self, root: Root) -> IntegerAttr[IntegerType]:
        """Returns the number of a value's memory."""
        return IntegerAttr(self.numbers.setdefault(root, len(self.numbers)), i64)

    # Kernels

    def _emit(self, items: Sequence[Item], block: Block, counters: SSAValue | None) -> None:
        """Appends kernels, loops and branches to a block."""
        for item in items:
            if isinstance(item, KernelItem):
                kinds = [operand.type for operand in item.kernel.operands]
                location = item.kernel.location
                places = zip(item.places, kinds, strict=True)
                item.kernel.operands = [self._buffer(place, kind, location) for place, kind in places]
                item.kernel.detach()
                block.add_op(item.kernel)
            elif isinstance(item, BranchItem):
                location = item.op.location
                branch = BranchOp.of(self._buffer(item.predicate, item.op.predicate.type, location))
                branch.location = location
                block.add_op(branch)
                for inner, placed in zip(branch.branches, item.branches, strict=True):
                    self._emit(placed, inner, counters)
            else:
                assert counters is not None
                block.add_op(item.loop.op)
                self._count(item.loop, counters)
                self._emit(item.items, item.loop.op.body.block, counters)

    def _count(self, loop: Loop, counters: SSAValue) -> None:
        """Emits the view of a loop's iteration index."""
        words = self.target.min_storage_buffer_offset_alignment // 4
        at = AffineMap(1, 0, (AffineDimExpr(0) * words,))
        row = RowOp.of(counters, [loop.op.iteration], at, buffer_type([1], i32))
        row.location = loop.op.location
        loop.op.body.block.add_op(row)

    def _buffer(self, place: ValueLocation, kind: Attribute, location: LocationAttr) -> SSAValue:
        """Returns a view of a place, or a row of a view if the place moves with a loop."""
        arena, start = self.storage[place.root]
        if not place.terms:
            key = place.root, place.offset, kind
            if key not in self.views:
                view = self._new_view(arena, start + place.offset, cast(Buffer, kind), location)
                view.attributes[VALUE] = self._number(place.root)
                self.views[key] = view.result
            return self.views[key]
        if (place, kind) not in self.rows:
            element = cast(Buffer, kind).get_element_type()
            width = element_bytes(element)
            whole = buffer_type([place.root.size // width], element)
            view = self._buffer(ValueLocation(place.root), whole, location)
            at: AffineExpr = AffineConstantExpr(place.offset // width)
            for number, (_, position, stride) in enumerate(place.terms):
                moved = position.replace_dims_and_symbols([AffineDimExpr(number)], [])
                at = moved * stride + at
            loops = [loop for loop, _, _ in place.terms]
            indices = [loop.op.iteration for loop in loops]
            row = RowOp.of(view, indices, AffineMap(len(loops), 0, (at,)), cast(Buffer, kind))
            row.location = location
            self._insert_row(row, loops)
            self.rows[place, kind] = row.result
        return self.rows[place, kind]

    def _insert_row(self, row: RowOp, loops: Sequence[Loop]) -> None:
        """Inserts a row in the innermost of its loops, before the kernels."""
        innermost = next(loop for loop in reversed(self.tree.loops) if loop in loops)
        block = innermost.op.body.block
        first = block.first_op
        assert first is not None  # the counter
        block.insert_op_after(row, first)


def too_large(what: str, size: int, location: LocationAttr, target: Target) -> DiagnosticException:
    """Returns the error for a value that no buffer of a target can hold."""
    return DiagnosticException(
        f"{what} takes {size} bytes, more than a buffer of target {target.name} can hold ({target.max_buffer_size}); "
        f"it was made at {line_of(location)}"
    )
