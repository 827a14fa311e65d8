"""The pass `order-kernels`."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.functions import defined_functions
from tensorgrad.passes.analyses.graph import KernelGraph
from tensorgrad.passes.analyses.liveness import allocated, most_bytes, readers_of
from tensorgrad.passes.functions import return_of
from tensorgrad.passes.levels import KERNELS, LevelPass


@dataclass(frozen=True)
class OrderKernelsPass(LevelPass):
    """Reorders kernels to lower the peak memory of temporary buffers, if it finds a better order.

    Expects functions of `buf` after `fuse` and before `share-dispatches`. Guarantees the same kernels in a valid order,
    in which temporary buffers take at most as many bytes at a time as before.

    The order is greedy: of the kernels that are ready, the next is the one that frees the most bytes net of those that
    it allocates; ties keep the old order. So an update runs as soon as its gradient has been computed, which ends the
    gradient's live range.
    """

    name = "order-kernels"
    levels = KERNELS

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            _order(function)


def _order(function: FuncOp) -> None:
    graph = KernelGraph.of(function)
    before = graph.order()
    sizes = allocated(function)
    readers = readers_of(sizes)
    after = _greedy(graph, before, sizes, {value: len(kernels) for value, kernels in readers.items()})
    if most_bytes(after, sizes, readers) >= most_bytes(before, sizes, readers):
        return
    last = return_of(function)
    for kernel in after:
        kernel.detach()
        function.body.block.insert_op_before(kernel, last)


def _greedy(
    graph: KernelGraph[KernelOp], kernels: list[KernelOp], sizes: dict[SSAValue, int], readers: dict[SSAValue, int]
) -> list[KernelOp]:
    waiting = dict.fromkeys(kernels, 0)
    following = {kernel: graph.successors(kernel) for kernel in kernels}
    for successors in following.values():
        for kernel in successors:
            waiting[kernel] += 1
    ready = [kernel for kernel in kernels if not waiting[kernel]]
    place = {kernel: number for number, kernel in enumerate(kernels)}
    pending = dict(readers)

    def growth(kernel: KernelOp) -> tuple[int, int]:
        new = sum(sizes.get(value, 0) for value in kernel.outputs if pending.get(value))
        freed = sum(sizes[value] for value in dict.fromkeys(kernel.inputs) if value in sizes and pending[value] == 1)
        return new - freed, place[kernel]

    result: list[KernelOp] = []
    while ready:
        kernel = min(ready, key=growth)
        ready.remove(kernel)
        result.append(kernel)
        for value in dict.fromkeys(kernel.inputs):
            if value in pending:
                pending[value] -= 1
        for later in following[kernel]:
            waiting[later] -= 1
            if not waiting[later]:
                ready.append(later)
    return result
