"""The kernels of a function as a graph: who must run before whom."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.signature import arguments_of


def updates_of(function: FuncOp) -> dict[SSAValue, SSAValue]:
    """For each argument that has one: the argument that takes its new value."""
    slots = arguments_of(function)
    old = {slot.name: value for slot, value in zip(slots, function.body.block.args, strict=True) if _kept(slot.role)}
    return {
        old[slot.name]: value
        for slot, value in zip(slots, function.body.block.args, strict=True)
        if slot.role == "update" and slot.name in old
    }


def _kept(role: str) -> bool:
    return role in ("parameter", "state")


class KernelGraph:
    """The dependences between kernels, kept up to date while they merge.

    A kernel runs behind the writers of what it reads. It also runs behind the readers of what it updates in place, as
    long as that leaves an order: an update that its readers wait for gets memory of its own instead.

    Reachability is one integer a kernel, used as a bit set: merging is linear in the number of kernels.
    """

    def __init__(self, function: FuncOp):
        self.kernels: list[KernelOp] = [op for op in function.body.block.ops if isinstance(op, KernelOp)]
        self.updates = updates_of(function)
        self._olds = {new: old for old, new in self.updates.items()}
        self._bit = {kernel: 1 << number for number, kernel in enumerate(self.kernels)}
        self._reach: dict[KernelOp, int] = {}
        self.in_place: set[SSAValue] = set()
        for kernel in reversed(self.kernels):
            self._reach[kernel] = self._union(self.readers(kernel))
        self._add_update_edges()

    def __contains__(self, kernel: object) -> bool:
        return kernel in self._bit

    def _union(self, kernels: Iterable[KernelOp]) -> int:
        result = 0
        for kernel in kernels:
            result |= self._bit[kernel] | self._reach[kernel]
        return result

    def _add_update_edges(self) -> None:
        for old, new in self.updates.items():
            writer = self.writer(new)
            if writer is None:
                continue
            readers = [reader for reader in users(old) if reader is not writer]
            if any(self._reach[writer] & self._bit[reader] for reader in readers):
                continue
            self.in_place.add(new)
            for reader in readers:
                self._add_edge(reader, writer)

    def waiting_updates(self, kernel: KernelOp) -> list[KernelOp]:
        """The kernels that update in place what `kernel` reads, and so must run behind it."""
        news = (self.updates.get(value) for value in kernel.inputs)
        writers = (self.writer(new) for new in news if new is not None and new in self.in_place)
        return [writer for writer in dict.fromkeys(writers) if writer is not None and writer is not kernel]

    def add_order(self, before: KernelOp, after: KernelOp) -> None:
        """Notes that `after` must run behind `before`."""
        self._add_edge(before, after)

    def _add_edge(self, before: KernelOp, after: KernelOp) -> None:
        gained = self._bit[after] | self._reach[after]
        for kernel in self.kernels:
            if kernel is before or self._reach[kernel] & self._bit[before]:
                self._reach[kernel] |= gained

    def readers(self, kernel: KernelOp) -> list[KernelOp]:
        """The kernels that read what `kernel` writes."""
        return list(dict.fromkeys(r for out in kernel.outputs for r in users(out) if r is not kernel))

    def writer(self, buffer: SSAValue) -> KernelOp | None:
        """The kernel that writes a buffer."""
        for use in buffer.uses:
            op = use.operation
            if isinstance(op, KernelOp) and use.index >= len(op.inputs):
                return op
        return None

    def producers(self, kernel: KernelOp) -> list[KernelOp]:
        """The kernels that write what `kernel` reads."""
        found = (self.writer(value) for value in kernel.inputs)
        return list(dict.fromkeys(producer for producer in found if producer is not None))

    def successors(self, kernel: KernelOp) -> list[KernelOp]:
        """The kernels that must run behind `kernel` because of it directly."""
        behind = self.readers(kernel)
        return list(dict.fromkeys([*behind, *self.waiting_updates(kernel)]))

    def runs_before(self, first: KernelOp, second: KernelOp) -> bool:
        """Whether `second` must run behind `first`."""
        return bool(self._reach[first] & self._bit[second])

    def waits_for(self, kernel: KernelOp, others: Iterable[KernelOp]) -> bool:
        """Whether a kernel must run behind one of the others."""
        bit = self._bit[kernel]
        return any(self._reach[other] & bit for other in others)

    def can_merge(self, first: KernelOp, second: KernelOp) -> bool:
        """Whether no third kernel must run between the two, and `second` need not run first."""
        if self.runs_before(second, first):
            return False
        bit = self._bit[second]
        return not any(k is not second and self._reach[k] & bit for k in self.successors(first))

    def replace(self, old: Sequence[KernelOp], new: KernelOp) -> None:
        """Puts `new` in the place of kernels that it was made of."""
        bits = 0
        reach = 0
        for kernel in old:
            bits |= self._bit.pop(kernel)
            reach |= self._reach.pop(kernel)
        reach &= ~bits
        position = self.kernels.index(old[-1])
        self.kernels[position] = new
        for kernel in old[:-1]:
            self.kernels.remove(kernel)
        self._bit[new], self._reach[new] = bits, reach
        for kernel, found in self._reach.items():
            if found & bits:
                self._reach[kernel] = found | bits | reach

    def remove(self, kernel: KernelOp) -> None:
        """Forgets a kernel that is gone."""
        self.kernels.remove(kernel)
        del self._bit[kernel], self._reach[kernel]

    def order(self) -> list[KernelOp]:
        """The kernels in an order that runs: as they stand, as far as dependences let them."""
        return topological(self.kernels, self.successors)


def topological(kernels: Sequence[KernelOp], successors: object) -> list[KernelOp]:
    """A topological order that prefers the given one."""
    import heapq
    from collections.abc import Callable
    from typing import cast

    after = cast("Callable[[KernelOp], list[KernelOp]]", successors)
    number = {kernel: i for i, kernel in enumerate(kernels)}
    following = {kernel: [k for k in after(kernel) if k in number] for kernel in kernels}
    waiting = dict.fromkeys(kernels, 0)
    for kernel in kernels:
        for later in following[kernel]:
            waiting[later] += 1
    ready = [number[kernel] for kernel in kernels if not waiting[kernel]]
    heapq.heapify(ready)
    result: list[KernelOp] = []
    while ready:
        kernel = kernels[heapq.heappop(ready)]
        result.append(kernel)
        for later in following[kernel]:
            waiting[later] -= 1
            if not waiting[later]:
                heapq.heappush(ready, number[later])
    assert len(result) == len(kernels), "the kernels depend on each other in a circle"
    return result


def users(buffer: SSAValue) -> list[KernelOp]:
    """The kernels that read a buffer, each once."""
    found = (
        use.operation
        for use in buffer.uses
        if isinstance(use.operation, KernelOp) and use.index < len(use.operation.inputs)
    )
    return list(dict.fromkeys(found))


def steps_of(order: Sequence[KernelOp]) -> dict[KernelOp, int]:
    """The number of each kernel's dispatch, given all kernels in the order that they run in."""
    result: dict[KernelOp, int] = {}
    step, previous = -1, None
    for kernel in order:
        shared = kernel.dispatch_number
        if shared is None or shared != previous:
            step += 1
        previous = shared
        result[kernel] = step
    return result
