"""The pass `fuse`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects import memref
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.attention import AttentionOp
from tensorgrad.dialects.buf import KernelOp, PackOp, parts_of
from tensorgrad.dialects.functions import defined_functions
from tensorgrad.passes.analyses.cuts import fits
from tensorgrad.passes.analyses.graph import KernelGraph, has_calls, updates_of
from tensorgrad.passes.analyses.machine import DEEPEST_NESTING, MOST_OPS, SMALL_WORK
from tensorgrad.passes.analyses.stages import Parts, put_together, take_apart
from tensorgrad.passes.analyses.storage import Accesses, Bindings, is_temporary, may_write_over
from tensorgrad.passes.buffers.fuse import cost, explain
from tensorgrad.passes.buffers.fuse.derivative import as_one
from tensorgrad.passes.buffers.fuse.inline import can_inline, inline, inlined_accesses
from tensorgrad.passes.buffers.fuse.merge import GridMap, aligned_loops, divided_loops, merge, merged_accesses
from tensorgrad.passes.buffers.fuse.prologues import (
    Costs,
    prologue_fits,
    prologue_pays,
    reads_in_sum,
    recomputing_is_slow,
)
from tensorgrad.passes.buffers.fuse.scans import is_scan, keeps_scans, makes_scan
from tensorgrad.passes.functions import return_of
from tensorgrad.passes.levels import KERNELS, LevelPass
from tensorgrad.runtime.target import WEBGPU_DEFAULT, Target


@dataclass(frozen=True)
class FusePass(LevelPass):
    """Merges kernels where that saves memory traffic or dispatches.

    Expects functions of `buf` before `plan-memory`. Guarantees the same results up to the rounding of the same
    operations, at most as many kernels as before, each within the target's number of bindings, and kernels in a valid
    order: updates of parameters and state come after the readers of the old values, so that `plan-memory` can do them
    in place.

    The rules, each applied wherever it saves something:

    - `inline`: a pointwise kernel with a single reader is computed in the reader. Its result is never stored.
    - `recompute`: a pointwise kernel that several kernels read is computed in each, if that moves fewer bytes. In
      native code, guards of terms that let one more pass at each point are computed where they are read (`scans`).
    - `epilogue`: a kernel that reads another's result at the same grid point runs after it in the same kernel: bias,
      activation and optimizer after a contraction, further reductions over the same rows after the first. A pointwise
      kernel takes over the loops of a kernel that divide its own, such as the phases of a transposed convolution, or
      that number the same elements as an array of another shape.
    - `prologue`: a pointwise kernel that contractions read in their sums is computed there, if `prologues` says that it
      pays.
    - `row`: pointwise work on whole rows runs in the kernel that reduces them.
    - `siblings`: independent kernels over the same grid run as one.
    - `derivative`: in native code, the two parts of an attention's derivative run as one if `joins_cotangents` says so.

    Attributes:
        target: A profile or JSON with the number of bindings that a kernel may have.
        only: The rules to apply; all of them by default.
        all_prologues: Whether contractions compute all operands that they can, whatever the cost.
    """

    name = "fuse"
    levels = KERNELS

    target: Target = WEBGPU_DEFAULT
    only: tuple[str, ...] = ()
    all_prologues: bool = False

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        unknown = [name for name in self.only if name not in RULES]
        if unknown:
            raise DiagnosticException(f"fuse has no rule {', '.join(unknown)}; the rules are {', '.join(RULES)}")
        for function in defined_functions(op):
            if not has_calls(function):
                Fusion(function, self.target, self.all_prologues).run(self.only)


@dataclass(frozen=True)
class Aligned:
    """A kernel can run after a producer of its operands, in one kernel.

    Attributes:
        grid_map: How it runs over the producer's grid.
    """

    grid_map: GridMap


@dataclass(frozen=True)
class Apart:
    """A kernel can't run after a producer of its operands in one kernel.

    Attributes:
        reason: Why.
    """

    reason: str


Alignment: TypeAlias = Aligned | Apart


class Fusion:
    """Fuses one function. Its kernels are decomposed first, and reassembled at the end."""

    def __init__(self, function: FuncOp, target: Target, all_prologues: bool = False):
        self.function, self.target, self.all_prologues = function, target, all_prologues
        kernels = [op for op in function.body.block.ops if isinstance(op, KernelOp)]
        parts = [take_apart(kernel) for kernel in kernels]
        for kernel in kernels:
            Rewriter.erase_op(kernel)
        self.graph: KernelGraph[Parts] = KernelGraph(parts, updates_of(function), _updates_over)
        self.bindings = Bindings(function, target, self.graph.places)
        self.contraction_costs = Costs(target)

    def run(self, only: Sequence[str] = ()) -> None:
        """Applies the rules until none applies."""
        chosen = [rule for name, rule in RULES.items() if not only or name in only]
        changed = True
        # Rules enable each other. Each application leaves fewer kernels, so this ends.
        while changed:
            changed = False
            for rule in chosen:
                while rule(self):
                    changed = True
        if explain.is_followed():
            self._explain()
        self._finish()

    # Rules

    def inline_single(self) -> bool:
        """Inlines pointwise kernels that one kernel reads."""
        return self._inline_where("inline", self._can_inline_single)

    def recompute(self) -> bool:
        """Inlines pointwise kernels that several kernels read, where that moves fewer bytes."""
        return self._inline_where("recompute", self._recomputing_pays)

    def prologue(self) -> bool:
        """Inlines pointwise kernels that contractions read, where the model of `prologues` says that it pays."""
        return self._inline_where("prologue", self._prologue_pays)

    def _inline_where(self, rule: str, applies: Callable[[Parts, Sequence[Parts]], bool]) -> bool:
        """Inlines pointwise kernels for which `applies` holds, a function of a kernel and its readers."""
        changed = False
        for kernel in list(self.graph.kernels):
            if kernel not in self.graph or not _is_temporary(kernel) or not can_inline(kernel):
                continue
            readers = self.graph.readers(kernel)
            if applies(kernel, readers):
                self._inline(kernel, readers, rule)
                changed = True
        return changed

    def merge_points(self) -> bool:
        """Merges kernels with the kernels whose results they read at their own grid point."""
        return self._merge_readers(rows=False)

    def merge_rows(self) -> bool:
        """Merges kernels with the kernels whose results they read on their own row."""
        return self._merge_readers(rows=True)

    def _merge_readers(self, rows: bool) -> bool:
        changed = False
        for kernel in list(self.graph.kernels):
            merged = True
            while merged and kernel in self.graph:
                merged = False
                for producer in reversed(self.graph.producers(kernel)):
                    alignment = self._alignment(producer, kernel, rows)
                    if isinstance(alignment, Aligned):
                        kernel = self._merge(producer, kernel, alignment.grid_map, "row" if rows else "epilogue")
                        changed = merged = True
                        break
        return changed

    def merge_siblings(self) -> bool:
        """Merges independent kernels over one grid: pointwise ones, reductions that share an input or are small."""
        changed = False
        groups: dict[tuple[int, Parts | None, tuple[int, ...]], list[Parts]] = {}
        rounds = self.graph.rounds()
        for kernel in self.graph.kernels:
            if kernel.contraction is None and kernel.single is None:
                # A merge must not make a kernel wait for an exchange, nor an exchange for a sibling of its producer.
                exchange = next((reader for reader in self.graph.readers(kernel) if reader.is_exchange), None)
                groups.setdefault((rounds[kernel], exchange, kernel.grid), []).append(kernel)
        for group in groups.values():
            current: list[Parts] = []
            for kernel in group:
                for position, other in enumerate(current):
                    if self._are_siblings(other, kernel):
                        current[position] = self._merge(other, kernel, _same_grid(kernel), "siblings")
                        changed = True
                        break
                else:
                    current.append(kernel)
        return changed

    def join_derivative(self) -> bool:
        """Merges the two kernels of an attention's derivative into one."""
        changed = False
        parts = [kernel for kernel in self.graph.kernels if isinstance(kernel.single, AttentionOp)]
        for first in parts:
            for second in parts:
                whole = None if first is second else as_one(first, second, self.target)
                if whole is not None and self.graph.can_merge(first, second):
                    explain.fused("derivative", second, first)
                    self.graph.replace([first, second], whole)
                    for part in (first.single, second.single):
                        assert part is not None
                        part.erase()
                    changed = True
                    break
        return changed

    # Conditions of the rules

    def _can_inline_single(self, kernel: Parts, readers: Sequence[Parts]) -> bool:
        if len(readers) != 1 or self._belongs_to_producer(kernel, readers[0]):
            return False
        return self._refusal(kernel, readers[0]) is None

    def _recomputing_pays(self, kernel: Parts, readers: Sequence[Parts]) -> bool:
        if not readers or kernel.operations * len(readers) > MOST_OPS:
            return False
        size = cost.bytes_of(kernel.outputs)
        stored = cost.bytes_of(kernel.inputs) + size * (1 + len(readers))
        again = sum(cost.bytes_of(v for v in kernel.inputs if v not in reader.inputs) for reader in readers)
        return again <= stored and self._accept(kernel, readers)

    def _prologue_pays(self, kernel: Parts, readers: Sequence[Parts]) -> bool:
        if not any(reads_in_sum(reader, kernel.outputs[0]) for reader in readers):
            return False
        if not self._accept(kernel, readers, in_sum=True):
            return False
        if self.all_prologues:
            return True
        alone = not any(self._can_run_after(producer, kernel, rows=True) for producer in self.graph.producers(kernel))
        return prologue_pays(kernel, readers, self.contraction_costs, alone)

    def _belongs_to_producer(self, kernel: Parts, reader: Parts) -> bool:
        """Returns whether a kernel should run after the reduction of its rows, not in a reader over another grid."""
        if reader.grid == kernel.grid:
            return False
        return any(
            not producer.is_pointwise and self._can_run_after(producer, kernel, rows=False)
            for producer in self.graph.producers(kernel)
        )

    def _accept(self, producer: Parts, readers: Sequence[Parts], in_sum: bool = False) -> bool:
        """Returns whether `producer` may be computed inside all of its readers."""
        if sum(1 for writer in self.graph.waiting_updates(producer) if writer in readers) > 1:
            return False  # each reader would overwrite a value that the other has yet to read
        return not any(self._refusal(producer, reader, in_sum) for reader in readers)

    def _refusal(self, producer: Parts, reader: Parts, in_sum: bool = False) -> str | None:
        """Returns why `producer` can't be computed inside `reader`; unless `in_sum`, prologues may only move data."""
        source = producer.outputs[0]
        if reader.single is not None:
            return f"{reader.single.name} can't compute operands"
        if producer.has_computed_loops and any(stage.own for stage in reader.stages if source in stage.buffers()):
            return "its trip counts depend on values, so each row would take as long as the longest"
        if any(self.graph.runs_before(w, reader) for w in self.graph.waiting_updates(producer) if w is not reader):
            return "the reader runs after an update of one of its operands"
        scans = makes_scan(producer, reader, self.target)
        summed = reads_in_sum(reader, source) and not scans
        if summed and not cost.moves_only(producer):
            if not in_sum:
                return "it would be recomputed for each term of a contraction"
            if not prologue_fits(producer, reader):
                return "the contraction's loop would be too long"
        again = cost.reading_points(reader, source) > cost.points(producer.grid) and not (summed and in_sum)
        if again and not scans and (not cost.is_cheap(producer) or recomputing_is_slow(producer, reader, self.target)):
            return "each element is read several times, and recomputing it costs more than loading it"
        if producer.operations * cost.copies(reader, source) + reader.operations > MOST_OPS:
            return TOO_MANY_OPS
        if producer.nesting and producer.nesting + reader.nesting > DEEPEST_NESTING:
            return f"conditions and loops would be nested deeper than {DEEPEST_NESTING}"
        buffers = [value for value in (*producer.inputs, *reader.inputs, *reader.outputs) if value is not source]
        if not fits(self.bindings, reader.grid, lambda: inlined_accesses(producer, reader), buffers):
            return TOO_MANY_BINDINGS
        updates = [(old, new) for old, new in self.graph.updated_in_place(reader) if old in producer.inputs]
        if updates and not _all_may_write_over(inlined_accesses(producer, reader), updates):
            return OUT_OF_PLACE
        return None

    def _alignment(self, producer: Parts, kernel: Parts, rows: bool) -> Alignment:
        """Returns how `kernel` can run after `producer` in one kernel, or why it can't.

        Args:
            producer: The kernel that runs first.
            kernel: A reader of its results.
            rows: Whether `kernel` has further loops, over the elements of each row of `producer`.
        """
        if single := kernel.single or producer.single:
            return Apart(f"{single.name} must be the only op of its kernel")
        divided = divided_loops(producer, kernel)
        demoted = 0 if divided is not None else len(kernel.grid) - len(producer.grid)
        if demoted < 0 or (demoted > 0) != rows:
            return Apart("the grids differ")
        if kernel.contraction is not None:
            return Apart("a contraction must be the first stage of its kernel")
        pointwise = kernel.is_pointwise
        if producer.contraction is not None and (demoted or not pointwise):
            return Apart("only pointwise work over the same grid can run after a contraction")
        if demoted and (kernel.locals or producer.is_pointwise or not pointwise or kernel.has_computed_loops):
            return Apart("only pointwise work on the same rows can run after their reduction")
        if producer.operations + kernel.operations > MOST_OPS:
            return Apart(TOO_MANY_OPS)
        if not self.graph.can_merge(producer, kernel):
            return Apart("another kernel runs between the two")
        loops = aligned_loops(producer, kernel) if divided is None else None
        if divided is not None:
            grid_map = GridMap(tuple(producer.grid), tuple(divided))
        elif loops is not None:
            grid_map = GridMap.in_order(loops, kernel.grid)
        else:
            return Apart("it is read at another grid point than the one that writes it")
        own = [*grid_map.grid[len(producer.grid) :]]
        own += [extent for stage in kernel.stages for extent in stage.extents[len(kernel.grid) :]]
        if demoted and is_scan(producer, self.target):
            return Apart("it would run between two points of a scan")
        if demoted and not cost.parallel_enough(producer.grid, own):
            return Apart("too few rows to keep the device busy")
        refusal = self._merge_refusal(producer, kernel, grid_map)
        return Aligned(grid_map) if refusal is None else Apart(refusal)

    def _can_run_after(self, producer: Parts, kernel: Parts, rows: bool) -> bool:
        return isinstance(self._alignment(producer, kernel, rows), Aligned)

    def _merge_refusal(self, first: Parts, second: Parts, grid_map: GridMap) -> str | None:
        """Returns why two kernels can't be merged: scans among others, too many bindings, an update out of place."""
        if not keeps_scans(first, second, grid_map, self.target):
            return "only one of them is a scan, or their points follow each other in different orders"
        private = self._private_to(first, second)
        buffers = [v for v in (*first.inputs, *first.outputs, *second.inputs, *second.outputs) if v not in private]
        if not fits(self.bindings, first.grid, lambda: merged_accesses(first, second, grid_map), buffers):
            return TOO_MANY_BINDINGS
        read = {*first.inputs, *second.inputs}
        updates = [*self.graph.updated_in_place(first), *self.graph.updated_in_place(second)]
        updates = [(old, new) for old, new in updates if old in read]
        if updates and not _all_may_write_over(merged_accesses(first, second, grid_map), updates):
            return OUT_OF_PLACE
        return None

    def _are_siblings(self, first: Parts, second: Parts) -> bool:
        if self.graph.runs_before(first, second) or self.graph.runs_before(second, first):
            return False
        both_pointwise = first.is_pointwise and second.is_pointwise
        both_small = max(cost.work(first), cost.work(second)) <= SMALL_WORK
        if not both_pointwise and not both_small and not set(first.inputs) & set(second.inputs):
            return False
        if first.operations + second.operations > MOST_OPS:
            return False
        return self._merge_refusal(first, second, _same_grid(second)) is None

    def _private_to(self, producer: Parts, reader: Parts) -> list[SSAValue]:
        return [output for output in producer.outputs if is_temporary(output) and self.graph.users(output) == [reader]]

    # Logging

    def _explain(self) -> None:
        """Logs why each remaining kernel and its readers are not merged."""
        for kernel in self.graph.kernels:
            for reader in self.graph.readers(kernel):
                explain.stored(kernel, reader, self._why_apart(kernel, reader))

    def _why_apart(self, kernel: Parts, reader: Parts) -> str:
        alignment = self._alignment(kernel, reader, rows=len(reader.grid) > len(kernel.grid))
        outside = alignment.reason if isinstance(alignment, Apart) else "its rule is not among those that were applied"
        return f"not computed in it: {self._why_not_inside(kernel, reader)}; not run in one kernel: {outside}"

    def _why_not_inside(self, kernel: Parts, reader: Parts) -> str:
        if not _is_temporary(kernel):
            return "its result is also a result of the program"
        if not can_inline(kernel):
            return "it has loops or several results"
        readers = self.graph.readers(kernel)
        in_sum = any(reads_in_sum(other, kernel.outputs[0]) for other in readers)
        for consumer in sorted(readers, key=lambda other: other is not reader):
            reason = self._refusal(kernel, consumer, in_sum)
            if reason is not None:
                return reason if consumer is reader else f"another reader can't: {reason}"
        if len(readers) == 1 and self._belongs_to_producer(kernel, reader):
            return "it can run after the reduction of its rows"
        return "computing it in each reader costs more than it saves"

    # Rewrites

    def _inline(self, producer: Parts, readers: Sequence[Parts], rule: str) -> None:
        read = list(producer.inputs)
        for reader in readers:
            explain.fused(rule, producer, reader)
            before = reader.inputs
            inline(producer, reader)
            self.graph.reads_anew(reader, before)
            read += before
        self._drop(producer)
        self._drop_unread(read)

    def _drop_unread(self, values: Iterable[SSAValue]) -> None:
        """Erases the producers of values that nothing reads any longer, since the guards of the loads never held."""
        for value in values:
            writer = self.graph.writer(value)
            if writer is not None and _is_temporary(writer) and not self.graph.readers(writer):
                inputs = writer.inputs
                self._drop(writer)
                self._drop_unread(inputs)

    def _drop(self, kernel: Parts) -> None:
        """Removes a kernel from the graph and erases its ops."""
        self.graph.remove(kernel)
        done: list[Operation] = [op for stage in kernel.stages for op in stage.body.ops]
        if kernel.single is not None:
            done.append(kernel.single)
        for op in reversed(done):
            Rewriter.erase_op(op)

    def _merge(self, first: Parts, second: Parts, grid_map: GridMap, rule: str) -> Parts:
        explain.fused(rule, second, first)
        private = self._private_to(first, second)
        new = merge(first, second, grid_map, private)  # the graph still needs the inputs of the old kernels
        self.graph.replace([first, second], new)
        return new

    def _finish(self) -> None:
        """Moves allocations to the front and kernels into a valid order."""
        block, last = self.function.body.block, return_of(self.function)
        order = self.graph.in_rounds()
        remaining = {
            part
            for kernel in order
            for value in (*kernel.inputs, *kernel.outputs)
            for part in (value, *parts_of(value))
        }
        storage = [op for op in block.ops if isinstance(op, memref.AllocOp | PackOp)]
        for op in sorted(storage, key=lambda op: isinstance(op, PackOp)):
            op.detach()
            if op.results[0] in remaining:
                block.insert_op_before(op, last)
            else:
                op.erase()
        for kernel in order:
            block.insert_op_before(put_together(kernel), last)


RULES: dict[str, Callable[[Fusion], bool]] = {
    "inline": Fusion.inline_single,
    "recompute": Fusion.recompute,
    "epilogue": Fusion.merge_points,
    "prologue": Fusion.prologue,
    "row": Fusion.merge_rows,
    "siblings": Fusion.merge_siblings,
    "derivative": Fusion.join_derivative,
}
"""The rules by name, in the order in which they are tried."""

TOO_MANY_OPS = f"the kernel would have more than {MOST_OPS} operations"
TOO_MANY_BINDINGS = "the kernel would have more bindings than the target allows"
OUT_OF_PLACE = "an update could not be made in place"


def _same_grid(kernel: Parts) -> GridMap:
    return GridMap.in_order(range(len(kernel.grid)), kernel.grid)


def _is_temporary(kernel: Parts) -> bool:
    """Returns whether a kernel writes nothing that is visible outside the function."""
    return all(is_temporary(output) for output in kernel.outputs)


def _updates_over(kernel: Parts, old: SSAValue, new: SSAValue) -> bool:
    """Returns whether a kernel may overwrite an old value with its new one."""
    if kernel.single is not None:
        return old not in kernel.inputs
    return _all_may_write_over([stage.accesses() for stage in kernel.stages], [(old, new)])


def _all_may_write_over(stages: Sequence[Accesses], updates: Sequence[tuple[SSAValue, SSAValue]]) -> bool:
    return all(may_write_over(stages, old, new) for old, new in updates)
