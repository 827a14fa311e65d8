"""The pass `share-dispatches`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from tensorgrad.dialects.buf import Buffer, KernelOp, buffer_bytes
from tensorgrad.passes.functions import return_of
from tensorgrad.passes.kernels.graph import KernelGraph, has_calls
from tensorgrad.passes.kernels.liveness import allocated, most_bytes, readers_of
from tensorgrad.passes.kernels.storage import Bindings
from tensorgrad.passes.schedule.schedules import Schedule
from tensorgrad.passes.schedule.sharing import agreed, workgroup_bytes
from tensorgrad.runtime.target import Target

MOST_KERNELS = 12
"""So many kernels share a dispatch at most: drivers compile all of them as one."""

MOST_OPERATIONS = 1200
"""The bodies of kernels that share a dispatch hold so many ops at most."""

BUSY_BYTES = 1 << 24
"""A kernel that alone moves so many bytes keeps a device busy: it gains nothing from company of another kind."""


@dataclass(frozen=True)
class ShareDispatchesPass(ModulePass):
    """Lets kernels that don't depend on each other run side by side, in one dispatch.

    Expects functions of `buf` before `plan-memory`, with a `schedule` on every kernel. Guarantees the same results, the
    same kernels, and an order that runs; kernels that share a dispatch stand in a row with one number `dispatch`, their
    workgroups have equal extents, and together they keep to the target's limits on bindings and workgroup memory. A
    kernel never starts later than it did, and the most bytes in use at one time don't grow beyond what they were by
    more than `slack` percent.

    Kernels are taken in order; each takes along those further down that are ready when it is. So the number of
    dispatches comes close to the longest chain of kernels that wait for each other.

    Attributes:
        target: A profile or JSON: limits.
        slack: By how many percent the bytes in use at one time may grow.
    """

    name = "share-dispatches"

    target: str = "webgpu-default"
    slack: int = 5

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = Target.from_spec(self.target)
        for function in op.ops:
            if isinstance(function, FuncOp) and function.body.blocks and not has_calls(function):
                _Sharing(function, target, self.slack).run()


class _Sharing:
    """Shares the dispatches of one function."""

    def __init__(self, function: FuncOp, target: Target, slack: int):
        self.function = function
        self.target = target
        self.graph = KernelGraph.of(function)
        self.order = self.graph.order()
        self.schedules = {
            kernel: Schedule.read(kernel.schedule) for kernel in self.order if kernel.schedule is not None
        }
        self.operations = {k: self._operations(k) for k in self.order}
        self.sizes = allocated(function)
        self.readers = readers_of(self.sizes)
        self.live_limit = most_bytes(self.order, self.sizes, self.readers) * (100 + slack) // 100
        self.bindings = Bindings(function, target, self.graph.places, workspace=self.live_limit)

    def _operations(self, kernel: KernelOp) -> int:
        """How many operations the code of a kernel has."""
        schedule = self.schedules.get(kernel)
        width = 1 if schedule is None else schedule.width
        return width * sum(len(list(stage.body.walk())) for stage in kernel.stages)

    def run(self) -> None:
        """Marks the kernels and puts them in order."""
        dispatches = self._dispatches()
        last = return_of(self.function)
        number = 0
        for kernels in dispatches:
            if len(kernels) > 1:
                found = self._agreed(kernels)
                assert found is not None
                for kernel, schedule in zip(kernels, found, strict=True):
                    kernel.properties["schedule"] = schedule.attribute()
                    kernel.properties["dispatch"] = IntegerAttr(number, i64)
                number += 1
            for kernel in kernels:
                kernel.detach()
                self.function.body.block.insert_op_before(kernel, last)

    def _dispatches(self) -> list[list[KernelOp]]:
        left = list(self.order)
        result: list[list[KernelOp]] = []
        live: dict[SSAValue, set[KernelOp]] = {}
        while left:
            kernels = [left.pop(0)]
            for kernel in list(left):
                if self._may_join(kernel, kernels, left, live):
                    kernels.append(kernel)
                    left.remove(kernel)
            result.append(kernels)
            self._run(kernels, live)
        return result

    def _run(self, kernels: Sequence[KernelOp], live: dict[SSAValue, set[KernelOp]]) -> None:
        """Keeps track of the buffers in use: each with the kernels that still read it."""
        for kernel in kernels:
            for value in kernel.outputs:
                if value in self.sizes:
                    live[value] = set(self.readers[value])
        for value in [value for value, waiting in live.items() if waiting <= set(kernels)]:
            del live[value]
        for waiting in live.values():
            waiting.difference_update(kernels)

    def _may_join(
        self,
        kernel: KernelOp,
        kernels: Sequence[KernelOp],
        left: Sequence[KernelOp],
        live: dict[SSAValue, set[KernelOp]],
    ) -> bool:
        """Whether a kernel may run beside those that were taken before it."""
        if len(kernels) == MOST_KERNELS or kernel not in self.schedules or kernels[0] not in self.schedules:
            return False
        together = [*kernels, kernel]
        if any(one.attention is not None for one in together):
            return False
        if sum(self.operations[one] for one in together) > MOST_OPERATIONS:
            return False
        if self.graph.waits_for(kernel, (*kernels, *left)):
            return False
        kinds = {self.schedules[one].archetype for one in together}
        if len(kinds) > 1 and max(_bytes(one) for one in together) > BUSY_BYTES:
            return False
        new = sum(self.sizes.get(value, 0) for one in together for value in one.outputs)
        if new + sum(self.sizes[value] for value in live) > self.live_limit:
            return False
        schedules = self._agreed(together)
        if schedules is None or workgroup_bytes(together, schedules) > self.target.max_compute_workgroup_storage_size:
            return False
        return self.bindings.fit([value for one in together for value in one.operands])

    def _agreed(self, kernels: Sequence[KernelOp]) -> list[Schedule] | None:
        return agreed([self.schedules[one] for one in kernels], [math.prod(one.extents) for one in kernels])


def _bytes(kernel: KernelOp) -> int:
    return sum(buffer_bytes(cast(Buffer, value.type)) for value in kernel.operands)
