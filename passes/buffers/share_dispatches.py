"""The pass `share-dispatches`."""

from __future__ import annotations

import math
from bisect import insort
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.buf import Buffer, KernelOp, buffer_bytes
from tensorgrad.dialects.functions import defined_functions
from tensorgrad.dialects.schedule import Schedule, ScheduleAttr
from tensorgrad.passes.analyses.graph import KernelGraph, has_calls
from tensorgrad.passes.analyses.identity import kernel_structure
from tensorgrad.passes.analyses.liveness import allocated, most_bytes, readers_of
from tensorgrad.passes.analyses.machine import BUSY_BYTES, MOST_SHARED_OPS, MOST_SHARING, OPS_FOR_A_DISPATCH
from tensorgrad.passes.analyses.storage import Bindings
from tensorgrad.passes.codegen.choose import code_size, workgroup_bytes
from tensorgrad.passes.codegen.wgsl.shared_workgroups import agreed
from tensorgrad.passes.functions import return_of
from tensorgrad.passes.levels import KERNELS, LevelPass
from tensorgrad.runtime.target import WEBGPU_DEFAULT, Target

MOST_TRIALS = 8
"""The most times that kernels are divided into dispatches again, each time with more pairs that may not share one."""


@dataclass(frozen=True)
class ShareDispatchesPass(LevelPass):
    """Co-schedules independent kernels in one dispatch.

    Expects functions of `buf` before `plan-memory`, with a `schedule` on every kernel. Guarantees the same results, the
    same kernels, and a valid order. Kernels that share a dispatch are adjacent and have the same number `dispatch`,
    their workgroups have equal extents, and together they keep to the target's limits on bindings and workgroup memory.
    No kernel starts later than before, and the peak memory of temporary buffers grows by at most `slack` percent.

    The pass takes kernels in order; each is joined by later kernels that are ready at the same time. So the number of
    dispatches approaches the length of the longest chain of dependent kernels.

    Each different set of co-scheduled kernels is a separate shader. So kernels that recur, such as those of a model's
    layers, don't share a dispatch with kernels that occur once: their code would be compiled again.

    Attributes:
        target: The device: its limits.
        slack: The percentage by which the peak memory of temporary buffers may grow.
    """

    name = "share-dispatches"
    levels = KERNELS

    target: Target = WEBGPU_DEFAULT
    slack: int = 5

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            if not has_calls(function):
                _check_scheduled(function)
                _Sharing(function, self.target, self.slack).run()


def _check_scheduled(function: FuncOp) -> None:
    """Checks that a function's kernels have been scheduled: without schedules none would share a dispatch.

    Raises:
        DiagnosticException: No kernel has a schedule.
    """
    kernels = [op for op in function.body.block.ops if isinstance(op, KernelOp) and op.collective is None]
    if kernels and all(kernel.schedule is None for kernel in kernels):
        raise DiagnosticException("share-dispatches expects a schedule on every kernel: run `schedule` first")


class _Sharing:
    """Co-schedules the kernels of one function."""

    def __init__(self, function: FuncOp, target: Target, slack: int):
        self.function = function
        self.target = target
        self.graph = KernelGraph.of(function)
        self.order = self.graph.order()
        self.place = {kernel: place for place, kernel in enumerate(self.order)}
        self.successors = {kernel: self.graph.successors(kernel) for kernel in self.order}
        self.schedules = {kernel: kernel.schedule.data for kernel in self.order if kernel.schedule is not None}
        numbers: dict[object, int] = {}
        self.structures = {k: numbers.setdefault((kernel_structure(k), k.schedule), len(numbers)) for k in self.order}
        self.code = {self.structures[k]: code_size(schedule, k) for k, schedule in self.schedules.items()}
        self.apart: set[frozenset[int]] = set()
        self.sizes = allocated(function)
        self.readers = readers_of(self.sizes)
        self.live_limit = most_bytes(self.order, self.sizes, self.readers) * (100 + slack) // 100
        self.bindings = Bindings(function, target, self.graph.places, workspace=self.live_limit)

    def run(self) -> None:
        """Numbers the dispatches and reorders the kernels."""
        dispatches = self._dispatches()
        for _ in range(MOST_TRIALS):
            if not self._part(dispatches):
                break
            dispatches = self._dispatches()
        last = return_of(self.function)
        number = 0
        for kernels in dispatches:
            if len(kernels) > 1:
                agreed = self._agreed(kernels)
                assert agreed is not None
                for kernel, schedule in zip(kernels, agreed, strict=True):
                    kernel.properties["schedule"] = ScheduleAttr(schedule)
                    kernel.properties["dispatch"] = IntegerAttr(number, i64)
                number += 1
            for kernel in kernels:
                kernel.detach()
                self.function.body.block.insert_op_before(kernel, last)

    def _dispatches(self) -> list[list[KernelOp]]:
        """Divides the kernels into dispatches: each starts with a ready kernel, which other ready ones may join."""
        waiting = dict.fromkeys(self.order, 0)
        for kernel in self.order:
            for later in self.successors[kernel]:
                waiting[later] += 1
        ready = [self.place[kernel] for kernel in self.order if not waiting[kernel]]
        result: list[list[KernelOp]] = []
        live: dict[SSAValue, set[KernelOp]] = {}
        while ready:
            kernels = [self.order[ready.pop(0)]]
            for place in list(ready):
                if self._may_join(self.order[place], kernels, live):
                    kernels.append(self.order[place])
                    ready.remove(place)
            result.append(kernels)
            self._run(kernels, live)
            for later in (later for kernel in kernels for later in self.successors[kernel]):
                waiting[later] -= 1
                if not waiting[later]:
                    insort(ready, self.place[later])
        return result

    def _part(self, dispatches: Sequence[Sequence[KernelOp]]) -> bool:
        """Records pairs of kernels that must not share a dispatch; returns whether any are new.

        If a set is rare and a subset of it is also co-scheduled elsewhere, the subset's code would be compiled twice.
        """
        groups = Counter(self._group_structures(kernels) for kernels in dispatches)
        before = len(self.apart)
        for group, times in groups.items():
            if len(group) == 1:
                continue
            parts = [part for part in groups if part < group]
            known = max(parts, key=self._code_of, default=None)
            if known is not None and self._code_of(known) > OPS_FOR_A_DISPATCH * times:
                rest = group - known
                self.apart |= {frozenset((a, b)) for a, _ in known for b, _ in rest if a != b}
        return len(self.apart) > before

    def _group_structures(self, kernels: Sequence[KernelOp]) -> frozenset[tuple[int, int]]:
        """Returns the distinct kernels of a dispatch, each with the number of its occurrences."""
        return frozenset(Counter(self.structures[kernel] for kernel in kernels).items())

    def _code_of(self, group: frozenset[tuple[int, int]]) -> int:
        return sum(self.code.get(structure, 0) for structure, _ in group)

    def _run(self, kernels: Sequence[KernelOp], live: dict[SSAValue, set[KernelOp]]) -> None:
        """Updates the live buffers, each with the kernels that have yet to read it, after `kernels` have run."""
        for kernel in kernels:
            for value in kernel.outputs:
                if value in self.sizes:
                    live[value] = set(self.readers[value])
        for value in [value for value, waiting in live.items() if waiting <= set(kernels)]:
            del live[value]
        for waiting in live.values():
            waiting.difference_update(kernels)

    def _may_join(self, kernel: KernelOp, kernels: Sequence[KernelOp], live: Mapping[SSAValue, set[KernelOp]]) -> bool:
        """Returns whether a ready kernel may join the dispatch of `kernels`."""
        if len(kernels) == MOST_SHARING or kernel not in self.schedules or kernels[0] not in self.schedules:
            return False
        mine, others = self.structures[kernel], {self.structures[other] for other in kernels}
        if any(frozenset((mine, other)) in self.apart for other in others):
            return False
        if sum(self.code[member] for member in {mine, *others}) > MOST_SHARED_OPS:
            return False
        together = [*kernels, kernel]
        kinds = {type(self.schedules[member]) for member in together}
        if len(kinds) > 1 and max(_bytes(member) for member in together) > BUSY_BYTES:
            return False
        new = sum(self.sizes.get(value, 0) for member in together for value in member.outputs)
        if new + sum(self.sizes[value] for value in live) > self.live_limit:
            return False
        schedules = self._agreed(together)
        if schedules is None or workgroup_bytes(schedules, together) > self.target.max_compute_workgroup_storage_size:
            return False
        return self.bindings.fit([value for member in together for value in member.operands])

    def _agreed(self, kernels: Sequence[KernelOp]) -> list[Schedule] | None:
        return agreed([self.schedules[kernel] for kernel in kernels], [math.prod(kernel.extents) for kernel in kernels])


def _bytes(kernel: KernelOp) -> int:
    return sum(buffer_bytes(cast(Buffer, value.type)) for value in kernel.operands)
