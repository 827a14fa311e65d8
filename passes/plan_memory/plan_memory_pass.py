"""The pass `plan-memory`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects import memref
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.buf import ArenaOp, Buffer, KernelOp, ViewOp, buffer_bytes
from tensorgrad.dialects.signature import Slot, arguments_of
from tensorgrad.passes.functions import return_of, set_signature
from tensorgrad.passes.kernels.graph import KernelGraph, steps_of, users
from tensorgrad.passes.kernels.storage import arena_of, writes_in_place
from tensorgrad.passes.plan_memory.arenas import Layout, Range, by_lifetime, least_bytes, side_by_side
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

    Attributes:
        target: A profile or JSON: alignment, and the limits on bindings and buffers.
    """

    name = "plan-memory"

    target: str = "webgpu-default"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = Target.from_spec(self.target)
        for function in op.ops:
            if isinstance(function, FuncOp) and function.body.blocks:
                _Plan(function, target).run()


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
