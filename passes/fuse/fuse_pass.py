"""The pass `fuse`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import memref
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.buf import KernelOp, element_of, loop_extents
from tensorgrad.dialects.signature import Slot, arguments_of
from tensorgrad.passes.functions import return_of
from tensorgrad.passes.fuse import cost
from tensorgrad.passes.fuse.inline import can_inline, inline
from tensorgrad.passes.fuse.merge import aligned_loops, merge
from tensorgrad.passes.kernels.graph import KernelGraph, users
from tensorgrad.passes.kernels.kinds import contraction_of, is_contraction, is_pointwise
from tensorgrad.passes.kernels.storage import arena_of
from tensorgrad.runtime.target import Target

ALIGNMENT = 256
"""How much an arena may lose to the alignment of each range, in bytes."""


@dataclass(frozen=True)
class FusePass(ModulePass):
    """Merges kernels where that saves memory traffic or dispatches.

    Expects functions of `buf` before `plan-memory`. Guarantees the same results up to the rounding of the same
    operations, at most as many kernels as before, each within the target's number of bindings, and kernels in an order
    that runs: updates of parameters and state stand behind the readers of the old values, so that `plan-memory` can
    make them in place.

    The rules, each applied wherever it saves:

    - `inline`: a pointwise kernel whose result one other kernel reads is computed there. Its result is never stored.
    - `epilogue`: a kernel that reads another's result at the same grid point runs behind it in the same kernel: bias,
      activation and optimizer behind a contraction, further reductions over the same rows behind the first.
    - `recompute`: a pointwise kernel that several kernels read is computed in each, if that moves fewer bytes.
    - `row`: pointwise work on whole rows runs in the kernel that reduced them.
    - `siblings`: kernels over the same grid that don't depend on each other run as one.

    Attributes:
        target: A profile or JSON that says how many bindings a kernel may have.
        only: The rules to apply; all of them by default.
    """

    name = "fuse"

    target: str = "webgpu-default"
    only: tuple[str, ...] = ()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = Target.from_spec(self.target)
        for function in op.ops:
            if isinstance(function, FuncOp) and function.body.blocks:
                Fusion(function, target).run(self.only)


class Fusion:
    """Fuses one function."""

    def __init__(self, function: FuncOp, target: Target):
        self.function = function
        self.graph = KernelGraph(function)
        self.bindings = target.max_storage_buffers_per_shader_stage
        slots = arguments_of(function)
        self._arenas = self._shared_arenas(slots, target.max_storage_buffer_binding_size)
        self._scalars = {
            value for value, slot in zip(function.body.block.args, slots, strict=True) if slot.role == "scalar"
        }

    def run(self, only: Sequence[str] = ()) -> None:
        """Applies the rules until none applies."""
        rules: dict[str, Callable[[], bool]] = {
            "inline": self.inline_single,
            "epilogue": lambda: self.merge_readers(rows=False),
            "recompute": self.recompute,
            "row": lambda: self.merge_readers(rows=True),
            "siblings": self.merge_siblings,
        }
        unknown = [name for name in only if name not in rules]
        if unknown:
            raise DiagnosticException(f"fuse has no rule {', '.join(unknown)}; the rules are {', '.join(rules)}")
        chosen = [rule for name, rule in rules.items() if not only or name in only]
        changed = True
        while changed:
            changed = False
            for rule in chosen:
                while rule():
                    changed = True
        self._finish()

    # Rules

    def inline_single(self) -> bool:
        """Inlines pointwise kernels that one kernel reads."""
        changed = False
        for kernel in list(self.graph.kernels):
            if kernel not in self.graph or not self._is_private(kernel) or not can_inline(kernel):
                continue
            readers = self.graph.readers(kernel)
            if len(readers) != 1 or self._belongs_to_producer(kernel, readers[0]):
                continue
            if self._accepts(kernel, readers[0]):
                self._inline(kernel, readers)
                changed = True
        return changed

    def recompute(self) -> bool:
        """Inlines pointwise kernels that several kernels read, where that moves fewer bytes."""
        changed = False
        for kernel in list(self.graph.kernels):
            if kernel not in self.graph or not self._is_private(kernel) or not can_inline(kernel):
                continue
            readers = self.graph.readers(kernel)
            if not readers or not all(self._accepts(kernel, reader) for reader in readers):
                continue
            if cost.operations(kernel) * len(readers) > cost.LARGEST_BODY:
                continue
            size = cost.bytes_of(kernel.outputs)
            stored = cost.bytes_of(kernel.inputs) + size * (1 + len(readers))
            again = sum(cost.bytes_of(v for v in kernel.inputs if v not in reader.inputs) for reader in readers)
            if again <= stored:
                self._inline(kernel, readers)
                changed = True
        return changed

    def merge_readers(self, rows: bool) -> bool:
        """Merges kernels with the kernels whose results they read at their own grid point, or (`rows`) row."""
        changed = False
        for kernel in list(self.graph.kernels):
            merged = True
            while merged and kernel in self.graph:
                merged = False
                for producer in reversed(self.graph.producers(kernel)):
                    loops = self._mergeable(producer, kernel, rows)
                    if loops is not None:
                        kernel = self._merge(producer, kernel, loops)
                        changed = merged = True
                        break
        return changed

    def merge_siblings(self) -> bool:
        """Merges independent kernels over one grid: pointwise ones, reductions that share an input or are small."""
        changed = False
        groups: dict[tuple[int, ...], list[KernelOp]] = {}
        for kernel in self.graph.kernels:
            if contraction_of(kernel) is None:
                groups.setdefault(kernel.extents, []).append(kernel)
        for group in groups.values():
            current: list[KernelOp] = []
            for kernel in group:
                for position, other in enumerate(current):
                    if self._are_siblings(other, kernel):
                        current[position] = self._merge(other, kernel, list(range(len(kernel.extents))))
                        changed = True
                        break
                else:
                    current.append(kernel)
        return changed

    # What the rules ask

    def _is_private(self, kernel: KernelOp) -> bool:
        return all(isinstance(output.owner, memref.AllocOp) for output in kernel.outputs)

    def _belongs_to_producer(self, kernel: KernelOp, reader: KernelOp) -> bool:
        """Whether work on the rows of a reduction is better done behind it than in a reader over another grid."""
        if reader.extents == kernel.extents:
            return False
        return any(
            not is_pointwise(producer) and self._mergeable(producer, kernel, rows=False) is not None
            for producer in self.graph.producers(kernel)
        )

    def _accepts(self, producer: KernelOp, reader: KernelOp) -> bool:
        """Whether `producer` may be computed inside `reader`."""
        source = producer.outputs[0]
        if any(self.graph.runs_before(w, reader) for w in self.graph.waiting_updates(producer) if w is not reader):
            return False  # the reader runs behind the update of what it would have to read then
        in_sum = contraction_of(reader) is not None and not self._reads_in_epilogue(source, reader)
        if in_sum and not cost.moves_only(producer):
            return False
        again = cost.reading_points(reader, source) > cost.points(producer.extents)
        if again and not cost.is_cheap(producer):
            return False
        copies = cost.copies(reader, source)
        if cost.operations(producer) * copies + cost.operations(reader) > cost.LARGEST_BODY:
            return False
        inputs = [value for value in (*producer.inputs, *reader.inputs) if value is not source]
        return self._fits([*inputs, *reader.outputs])

    def _reads_in_epilogue(self, source: SSAValue, reader: KernelOp) -> bool:
        """Whether a contraction reads `source` only behind its sum."""
        argument = reader.body.block.args[list(reader.inputs).index(source)]
        stages = [stage for stage in reader.stages if any(argument in op.operands for op in stage.walk())]
        return not any(is_contraction(stage, len(reader.extents)) for stage in stages)

    def _mergeable(self, producer: KernelOp, kernel: KernelOp, rows: bool) -> list[int] | None:
        """The alignment of the grids when `kernel` may run behind `producer` in one kernel, else `None`."""
        if contraction_of(kernel) is not None:
            return None
        demoted = len(kernel.extents) - len(producer.extents)
        if demoted < 0 or (demoted > 0) != rows:
            return None
        pointwise = is_pointwise(kernel)
        if contraction_of(producer) is not None and (demoted or not pointwise):
            return None
        if demoted and (kernel.locals or is_pointwise(producer) or not pointwise):
            return None
        loops = aligned_loops(producer, kernel)
        if loops is None or not self.graph.can_merge(producer, kernel):
            return None
        own = [extent for loop, extent in enumerate(kernel.extents) if loop not in loops]
        own += [e for stage in kernel.stages for e in loop_extents(stage)[len(kernel.extents) :]]
        if demoted and not cost.parallel_enough(producer.extents, own):
            return None
        if cost.operations(producer) + cost.operations(kernel) > cost.LARGEST_BODY:
            return None
        private = self._private_to(producer, kernel)
        buffers = {*producer.operands, *kernel.operands} - set(private)
        return loops if self._fits(list(buffers)) else None

    def _are_siblings(self, first: KernelOp, second: KernelOp) -> bool:
        if self.graph.runs_before(first, second) or self.graph.runs_before(second, first):
            return False
        both_pointwise = is_pointwise(first) and is_pointwise(second)
        both_small = max(cost.work(first), cost.work(second)) <= cost.SMALL_WORK
        if not both_pointwise and not both_small and not set(first.inputs) & set(second.inputs):
            return False
        if cost.operations(first) + cost.operations(second) > cost.LARGEST_BODY:
            return False
        return self._fits([*first.operands, *second.operands])

    def _private_to(self, producer: KernelOp, reader: KernelOp) -> list[SSAValue]:
        return [
            output
            for output in producer.outputs
            if isinstance(output.owner, memref.AllocOp) and users(output) == [reader]
        ]

    def _fits(self, buffers: Sequence[SSAValue]) -> bool:
        """Whether a kernel has bindings enough: scalars share one, an arena may, an update is in its old place."""
        unique = set(buffers)
        in_place = {old for old, new in self.graph.updates.items() if new in unique and new in self.graph.in_place}
        scalars = unique & self._scalars
        needed = unique - in_place - scalars
        if len(needed) + bool(scalars) <= self.bindings:
            return True
        arenas = {self._arenas[value] for value in needed if value in self._arenas}
        apart = sum(1 for value in needed if value not in self._arenas)
        return len(arenas) + apart + bool(scalars) <= self.bindings

    def _shared_arenas(self, slots: Sequence[Slot], limit: int) -> dict[SSAValue, str]:
        """The arena of each parameter, state and update, where one binding can hold all of it."""
        values = list(zip(self.function.body.block.args, slots, strict=True))
        kept = {slot.name: arena_of(slot)[0] for _, slot in values if slot.role in ("parameter", "state")}
        members: dict[str, list[SSAValue]] = {}
        for value, slot in values:
            if slot.role in ("parameter", "state"):
                members.setdefault(kept[slot.name], []).append(value)
        whole = {
            label
            for label, found in members.items()
            if cost.bytes_of(found) + ALIGNMENT * len(found) <= limit and len({element_of(v) for v in found}) == 1
        }
        return {
            value: kept[slot.name]
            for value, slot in values
            if slot.role in ("parameter", "state", "update") and kept.get(slot.name) in whole
        }

    # What the rules do

    def _inline(self, producer: KernelOp, readers: Sequence[KernelOp]) -> None:
        source = producer.outputs[0]
        for reader in readers:
            new = inline(producer, reader)
            self._replace([reader], new)
            for writer in self.graph.waiting_updates(new):
                self.graph.add_order(new, writer)
        self.graph.remove(producer)
        _erase(producer)
        _erase_buffer(source)

    def _merge(self, first: KernelOp, second: KernelOp, loops: Sequence[int]) -> KernelOp:
        private = self._private_to(first, second)
        new = merge(first, second, loops, private)
        self._replace([first, second], new)
        for value in private:
            _erase_buffer(value)
        return new

    def _replace(self, old: Sequence[KernelOp], new: KernelOp) -> None:
        block = self.function.body.block
        block.insert_op_before(new, old[-1])
        self.graph.replace(old, new)
        for kernel in old:
            _erase(kernel)

    def _finish(self) -> None:
        """Puts allocations first and kernels in an order that runs."""
        block, last = self.function.body.block, return_of(self.function)
        order = self.graph.order()
        for op in [op for op in block.ops if isinstance(op, memref.AllocOp)]:
            op.detach()
            if op.memref.uses:
                block.insert_op_before(op, last)
            else:
                op.erase()
        for kernel in order:
            kernel.detach()
            block.insert_op_before(kernel, last)


def _erase(kernel: KernelOp) -> None:
    kernel.detach()
    kernel.erase()


def _erase_buffer(value: SSAValue) -> None:
    op = value.owner
    if isinstance(op, memref.AllocOp) and not value.uses:
        op.detach()
        op.erase()
