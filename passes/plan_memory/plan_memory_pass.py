"""The pass `plan-memory`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects import memref
from xdsl.dialects.builtin import IntegerAttr, LocationAttr, ModuleOp, i32, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.buf import (
    ArenaOp,
    Buffer,
    KernelOp,
    ViewOp,
    buffer_bytes,
    buffer_type,
    element_bytes,
)
from tensorgrad.dialects.buf_control import BranchOp, RowOp
from tensorgrad.dialects.signature import Slot, arguments_of
from tensorgrad.passes.functions import is_private, return_of, set_signature
from tensorgrad.passes.kernels.graph import KernelGraph, has_calls, steps_of, updates_of, users
from tensorgrad.passes.kernels.storage import arena_of, writes_in_place
from tensorgrad.passes.plan_memory.arenas import Layout, Range, by_lifetime, least_bytes, side_by_side
from tensorgrad.passes.plan_memory.control import BranchItem, ControlTree, Item, KernelItem, Loop, Place, Root
from tensorgrad.runtime.target import Target

WORKSPACE_BYTES = "buf.workspace_bytes"
LEAST_WORKSPACE_BYTES = "buf.least_workspace_bytes"
PEAK_BYTES = "buf.peak_bytes"


@dataclass(frozen=True)
class PlanMemoryPass(ModulePass):
    """Gives every buffer a range of an arena.

    Expects functions of `buf` whose buffers have one writer each. Guarantees: functions without arguments; storage is
    `buf.arena`s and `buf.view`s, with names and roles on the views. Parameters lie in one arena, in the order of the
    arguments; each kind of optimizer state (the part of its name before the first `/`) and the gradients likewise, so
    that equal offsets belong together. Inputs and scalars share one arena, scalars packed at its start. Everything else
    shares the workspace, by lifetime. Updates happen in place where no reader of the old value comes later, else by a
    copy at the end. No range crosses another that is in use. The function says `buf.peak_bytes` (all arenas),
    `buf.workspace_bytes`, and `buf.least_workspace_bytes`, which no plan for this order can go below.

    The kernels of private functions that a function runs come to stand in it, in `buf.repeat` and `buf.branch`. What a
    loop carries is updated in place, or lies in two places in turn; slices of sequences are read and written where they
    lie.

    Attributes:
        target: A profile or JSON: alignment, and the limits on bindings and buffers.
    """

    name = "plan-memory"

    target: str = "webgpu-default"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = Target.from_spec(self.target)
        functions = [one for one in op.ops if isinstance(one, FuncOp) and one.body.blocks]
        for function in functions:
            if has_calls(function) and not is_private(function):
                _ControlPlan(op, function, target).run()
            elif not has_calls(function) and not is_private(function):
                _Plan(function, target).run()
        for function in functions:
            if is_private(function):
                function.detach()
                function.erase()


class _Plan:
    """Plans one function."""

    def __init__(self, function: FuncOp, target: Target):
        self.function = function
        self.block = function.body.block
        self.target = target
        self.slots = arguments_of(function)
        self.arguments = list(self.block.args)
        self.graph = KernelGraph.of(function)
        self.order = self.graph.order()
        self.first_op = self.block.first_op
        self.total = 0

    def run(self) -> None:
        """Plans the function in place."""
        for value in (*self.arguments, *(op.memref for op in self._allocations())):
            self._check_size(value)
        copies = self._update_in_place()
        groups: dict[tuple[str, str], list[tuple[SSAValue, Slot]]] = {}
        for argument, slot in zip(self.arguments, self.slots, strict=True):
            if slot.role != "update" or argument.uses:
                groups.setdefault(arena_of(slot), []).append((argument, slot))
        anchor = self.block.first_op
        assert anchor is not None
        views: dict[SSAValue, SSAValue] = {}
        for (label, role), members in groups.items():
            views.update(self._named_arena(label, role, members, anchor))
        views.update(self._workspace(anchor))
        for old, new in views.items():
            new.name_hint = old.name_hint
            old.replace_all_uses_with(new)
        last = return_of(self.function)
        for kernel in self.order:
            kernel.detach()
            self.block.insert_op_before(kernel, last)
        for new, old in copies:
            copy = memref.CopyOp(views[new], views[old])
            copy.location = last.location
            self.block.insert_op_before(copy, last)
        for op in self._allocations():
            op.detach()
            op.erase()
        for argument in self.arguments:
            self.block.erase_arg(argument)
        set_signature(self.function, [], [])
        self.function.properties.pop("arg_attrs", None)
        self.function.attributes[PEAK_BYTES] = IntegerAttr(self.total, i64)

    def _allocations(self) -> list[memref.AllocOp]:
        return [op for op in self.block.ops if isinstance(op, memref.AllocOp)]

    def _check_size(self, value: SSAValue) -> None:
        size, limit = buffer_bytes(cast(Buffer, value.type)), self.target.max_storage_buffer_binding_size
        if size > limit:
            slots = dict(zip(self.arguments, self.slots, strict=True))
            name = value.name_hint or "a tensor"
            if isinstance(value, BlockArgument):
                name = f"{slots[value].role} {slots[value].name!r}"
            owner = value.owner if isinstance(value.owner, Operation) else self.function
            raise DiagnosticException(
                f"{name} of {value.type} takes {size} bytes, more than a binding of target {self.target.name} can hold "
                f"({limit}); it was made at {owner.location}"
            )

    # Updates

    def _update_in_place(self) -> list[tuple[SSAValue, SSAValue]]:
        """Lets updates write over the old values; gives (new, old) for those that must be copied at the end."""
        copies: list[tuple[SSAValue, SSAValue]] = []
        for old, new in self.graph.updates.items():
            writer = self.graph.writer(new)
            if writer is None:
                continue
            if new in self.graph.in_place and writes_in_place(writer, old, new) and not self._read_again(old, writer):
                new.replace_all_uses_with(old)
            else:
                copies.append((new, old))
        return copies

    def _read_again(self, old: SSAValue, writer: KernelOp) -> bool:
        """Whether a kernel behind the writer still reads the old value."""
        behind = self.order[self.order.index(writer) + 1 :]
        return any(kernel in behind for kernel in users(old))

    # Arenas

    def _named_arena(
        self, label: str, role: str, members: list[tuple[SSAValue, Slot]], anchor: Operation
    ) -> dict[SSAValue, SSAValue]:
        """Views for arguments, side by side in the order of the arguments, scalars in front."""
        scalars = [entry for entry in members if entry[1].role == "scalar"]
        others = [entry for entry in members if entry[1].role != "scalar"]
        packed = 4 * len(scalars)
        sizes = ([packed] if scalars else []) + [buffer_bytes(cast(Buffer, value.type)) for value, _ in others]
        layout = side_by_side(sizes, self.target.min_storage_buffer_offset_alignment, self.target.max_buffer_size)
        if role in ("input", "output") and len(layout.sizes) > 1:
            raise DiagnosticException(
                f"the {label} take more than the {self.target.max_buffer_size} bytes of a buffer of {self.target.name}"
            )
        places = list(layout.places)
        if scalars:
            arena, start = places.pop(0)
            places = [(arena, start + 4 * i) for i in range(len(scalars))] + places
        arenas = self._make_arenas(label, role, layout, anchor)
        result: dict[SSAValue, SSAValue] = {}
        for (value, slot), (arena, offset) in zip([*scalars, *others], places, strict=True):
            view = self._view(value, arenas[arena], offset, anchor)
            if slot.role != "update":
                view.attributes.update(slot.attributes())
            result[value] = view.result
        return result

    def _workspace(self, anchor: Operation) -> dict[SSAValue, SSAValue]:
        """Views for allocations, over each other where lifetimes allow."""
        number = steps_of(self.order)
        values = [op.memref for op in self._allocations()]
        ranges: list[Range] = []
        for value in values:
            steps = [number[use.operation] for use in value.uses if isinstance(use.operation, KernelOp)]
            ranges.append(Range(buffer_bytes(value.type), min(steps), max(steps)))
        alignment = self.target.min_storage_buffer_offset_alignment
        layout = by_lifetime(ranges, alignment, self.target.max_buffer_size)
        self.function.attributes[WORKSPACE_BYTES] = IntegerAttr(sum(layout.sizes), i64)
        self.function.attributes[LEAST_WORKSPACE_BYTES] = IntegerAttr(least_bytes(ranges), i64)
        arenas = self._make_arenas("workspace", "workspace", layout, anchor)
        result: dict[SSAValue, SSAValue] = {}
        for value, (arena, offset) in zip(values, layout.places, strict=True):
            result[value] = self._view(value, arenas[arena], offset, anchor).result
        return result

    def _make_arenas(self, label: str, role: str, layout: Layout, anchor: Operation) -> list[ArenaOp]:
        arenas: list[ArenaOp] = []
        for number, size in enumerate(layout.sizes):
            name = label if len(layout.sizes) == 1 else f"{label}{number}"
            arena = ArenaOp.of(name, role, max(-(-size // 4) * 4, 4))  # no device has empty buffers
            arena.location = self.function.location
            self.block.insert_op_before(arena, anchor)
            self.total += arena.size
            arenas.append(arena)
        return arenas

    def _view(self, value: SSAValue, arena: ArenaOp, offset: int, anchor: Operation) -> ViewOp:
        view = ViewOp.of(arena.result, offset, cast(Buffer, value.type))
        owner = value.owner
        view.location = owner.location if isinstance(owner, Operation) else self.function.location
        self.block.insert_op_before(view, anchor)
        return view


class _ControlPlan(_Plan):
    """Plans one function that runs others in loops and branches."""

    def __init__(self, module: ModuleOp, function: FuncOp, target: Target):
        super().__init__(function, target)
        self.tree = ControlTree(module, function, target.min_storage_buffer_offset_alignment)
        self.starts: dict[Root, tuple[SSAValue, int]] = {}
        self.views: dict[tuple[Root, int, Attribute], SSAValue] = {}
        self.rows: dict[tuple[Place, Attribute], SSAValue] = {}
        anchor = self.block.first_op
        assert anchor is not None
        self.anchor: Operation = anchor

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
                copy = memref.CopyOp(named[after], named[before])
                copy.location = last.location
                self.block.insert_op_before(copy, last)
        for op in reversed(old):
            op.detach()
            op.erase()
        for argument in self.arguments:
            self.block.erase_arg(argument)
        set_signature(self.function, [], [])
        self.function.properties.pop("arg_attrs", None)
        self.function.attributes[PEAK_BYTES] = IntegerAttr(self.total, i64)

    # Storage

    def _named_arenas(self) -> dict[SSAValue, SSAValue]:
        """Memory for the arguments but those that lie where what they update lies."""
        groups: dict[tuple[str, str], list[tuple[SSAValue, Slot]]] = {}
        for argument, slot in zip(self.arguments, self.slots, strict=True):
            root = self.tree.arguments[argument]
            if slot.role != "update" or (root not in self.tree.in_place and root.uses):
                groups.setdefault(arena_of(slot), []).append((argument, slot))
        views: dict[SSAValue, SSAValue] = {}
        for (label, role), members in groups.items():
            views.update(self._named_arena(label, role, members, self.anchor))
        for argument, view in views.items():
            view.name_hint = argument.name_hint
            owner, root = cast(ViewOp, view.owner), self.tree.arguments[argument]
            self.starts[root] = owner.arena, owner.start
            self.views[root, 0, view.type] = view
        return views

    def _shared_workspace(self) -> None:
        roots = [root for root in self.tree.roots if root.uses and root.size]
        ranges: list[Range] = []
        for root in roots:
            limit = self.target.max_storage_buffer_binding_size
            if root.size > limit:
                raise DiagnosticException(
                    f"a tensor around a loop or branch of @{self.function.sym_name.data} takes {root.size} bytes, more "
                    f"than a binding of target {self.target.name} can hold ({limit})"
                )
            ranges.append(Range(root.size, *root.lifetime()))
        alignment = self.target.min_storage_buffer_offset_alignment
        layout = by_lifetime(ranges, alignment, self.target.max_buffer_size)
        self.function.attributes[WORKSPACE_BYTES] = IntegerAttr(sum(layout.sizes), i64)
        self.function.attributes[LEAST_WORKSPACE_BYTES] = IntegerAttr(least_bytes(ranges), i64)
        arenas = self._make_arenas("workspace", "workspace", layout, self.anchor)
        for root, (arena, offset) in zip(roots, layout.places, strict=True):
            self.starts[root] = arenas[arena].result, offset

    def _counters(self) -> SSAValue | None:
        """The numbers of all times of the longest loop, each where a binding can start."""
        if not self.tree.loops:
            return None
        most = max(loop.count for loop in self.tree.loops)
        words = self.target.min_storage_buffer_offset_alignment // 4
        arena = self._make_arenas("counters", "counter", Layout([], [4 * words * most]), self.anchor)[0]
        return self._new_view(arena.result, 0, buffer_type([words * most], i32), self.function.location)

    def _new_view(self, arena: SSAValue, offset: int, kind: Buffer, location: LocationAttr) -> SSAValue:
        view = ViewOp.of(arena, offset, kind)
        view.location = location
        self.block.insert_op_before(view, self.anchor)
        return view.result

    # Kernels

    def _emit(self, items: Sequence[Item], block: Block, counters: SSAValue | None) -> None:
        """Puts kernels, loops and branches at the end of a block."""
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
                for inner, found in zip(branch.branches, item.branches, strict=True):
                    self._emit(found, inner, counters)
            else:
                assert counters is not None
                block.add_op(item.loop.op)
                self._count(item.loop, counters)
                self._emit(item.items, item.loop.op.body.block, counters)

    def _count(self, loop: Loop, counters: SSAValue) -> None:
        """The loop's number of the present time as a buffer."""
        words = self.target.min_storage_buffer_offset_alignment // 4
        at = AffineMap(1, 0, (AffineDimExpr(0) * words,))
        row = RowOp.of(counters, [loop.op.iteration], at, buffer_type([1], i32))
        row.location = loop.op.location
        loop.op.body.block.add_op(row)

    def _buffer(self, place: Place, kind: Attribute, location: LocationAttr) -> SSAValue:
        """A place as a view, or as a row of one."""
        arena, start = self.starts[place.root]
        if not place.terms:
            key = place.root, place.offset, kind
            if key not in self.views:
                self.views[key] = self._new_view(arena, start + place.offset, cast(Buffer, kind), location)
            return self.views[key]
        if (place, kind) not in self.rows:
            element = cast(Buffer, kind).get_element_type()
            width = element_bytes(element)
            whole = buffer_type([place.root.size // width], element)
            view = self._buffer(Place(place.root), whole, location)
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
        """Puts a row where all of its loops run, in front of the kernels."""
        innermost = next(loop for loop in reversed(self.tree.loops) if loop in loops)
        block = innermost.op.body.block
        first = block.first_op
        assert first is not None  # the counter
        block.insert_op_after(row, first)
