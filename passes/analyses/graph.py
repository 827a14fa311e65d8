"""The dependence graph of a function's kernels."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from tensorgrad.dialects.buf import KernelOp, PackOp, SingleOp, pack_of, parts_of
from tensorgrad.dialects.buf_control import ChooseOp, RunOp
from tensorgrad.dialects.collective import CollectiveOp
from tensorgrad.dialects.signature import Role, arguments_of
from tensorgrad.passes.analyses.storage import writes_in_place


class KernelNode(Protocol):
    """A node of the graph: a kernel, as an op or as `Parts`."""

    @property
    def inputs(self) -> Sequence[SSAValue]:
        """The buffers that it reads."""
        ...

    @property
    def outputs(self) -> Sequence[SSAValue]:
        """The buffers that it writes."""
        ...

    @property
    def single(self) -> SingleOp | None:
        """The op that it consists of, if it has no stages."""
        ...


N = TypeVar("N", bound=KernelNode)


def has_calls(function: FuncOp) -> bool:
    """Returns whether a function calls others, which contain the kernels."""
    return any(isinstance(op, RunOp | ChooseOp) for op in function.body.block.ops)


def updates_of(function: FuncOp) -> dict[SSAValue, SSAValue]:
    """Returns, for each argument that has one, the argument that receives its new value."""
    slots = arguments_of(function)
    values = list(zip(slots, function.body.block.args, strict=True))
    old = {slot.name: value for slot, value in values if slot.role in (Role.PARAMETER, Role.STATE)}
    return {old[slot.name]: value for slot, value in values if slot.role == Role.UPDATE and slot.name in old}


class KernelGraph(Generic[N]):
    """The dependences between kernels, maintained while kernels are merged.

    A kernel runs after the writers of what it reads. It also runs after the readers of what it updates in place, unless
    that creates a cycle: an update that its readers depend on gets separate memory instead.

    Reachability is an integer per kernel, used as a bit set: merging takes time linear in the number of kernels.

    Attributes:
        updates: The new value of each argument that has one.
        in_place: The new values that may overwrite the old ones.
        places: The location of each of these, and of each row of them.
    """

    def __init__(
        self,
        kernels: Sequence[N],
        updates: Mapping[SSAValue, SSAValue],
        may_update: Callable[[N, SSAValue, SSAValue], bool],
    ):
        """Builds the graph; `may_update` tells whether a kernel may overwrite the old value with the new one."""
        self._order: dict[int, N] = dict(enumerate(kernels))
        self._number = {kernel: number for number, kernel in self._order.items()}
        self.updates = updates
        self._olds = {new: old for old, new in updates.items()}
        self._writers: dict[SSAValue, N] = {}
        self._readers: dict[SSAValue, dict[N, None]] = {}
        for kernel in kernels:
            self._note(kernel)
        self._bit = {kernel: 1 << number for kernel, number in self._number.items()}
        self._reach: dict[N, int] = {}
        self.in_place: set[SSAValue] = set()
        self._updated_packs: dict[tuple[PackOp, PackOp], bool] = {}
        for kernel in reversed(kernels):
            self._reach[kernel] = self._union(self.readers(kernel))
        self._add_update_edges(may_update)
        self.places = self._places()

    @staticmethod
    def of(function: FuncOp) -> KernelGraph[KernelOp]:
        """Returns the graph of a function's kernels."""
        kernels = [op for op in function.body.block.ops if isinstance(op, KernelOp)]
        return KernelGraph(kernels, updates_of(function), writes_in_place)

    @property
    def kernels(self) -> list[N]:
        """The kernels, in a valid order except for those that wait for in-place updates."""
        return list(self._order.values())

    def __contains__(self, kernel: object) -> bool:
        return kernel in self._bit

    def _note(self, kernel: N) -> None:
        for value in _with_parts(kernel.outputs):
            self._writers[value] = kernel
        for value in _with_parts(kernel.inputs):
            self._readers.setdefault(value, {})[kernel] = None

    def _forget(self, kernel: N, inputs: Iterable[SSAValue]) -> None:
        for value in _with_parts(inputs):
            self._readers.get(value, {}).pop(kernel, None)

    def _union(self, kernels: Iterable[N]) -> int:
        result = 0
        for kernel in kernels:
            result |= self._bit[kernel] | self._reach[kernel]
        return result

    def _add_update_edges(self, may_update: Callable[[N, SSAValue, SSAValue], bool]) -> None:
        for old, new in self.updates.items():
            writer = self._writers.get(new)
            place = None if writer is None else self._place(writer, old, new)
            if writer is None or place is None or not may_update(writer, *place):
                continue
            readers = [reader for reader in self.users(old) if reader is not writer]
            if any(self._reach[writer] & self._bit[reader] for reader in readers):
                continue
            self.in_place.add(new)
            for reader in readers:
                self.add_order(reader, writer)

    def _place(self, writer: N, old: SSAValue, new: SSAValue) -> tuple[SSAValue, SSAValue] | None:
        """Returns an update and the updated value as a kernel accesses them: their packs, if it writes one."""
        olds, news = pack_of(old), pack_of(new)
        if news is None:
            return None if olds is not None and olds.result in writer.inputs else (old, new)
        if olds is None or olds.starts != news.starts or olds.result.type != news.result.type:
            return None
        if (olds, news) not in self._updated_packs:  # compared once for all of their parts
            same = all(self.updates.get(part) is other for part, other in zip(olds.parts, news.parts, strict=True))
            self._updated_packs[olds, news] = same
        return (olds.result, news.result) if self._updated_packs[olds, news] else None

    def _places(self) -> dict[SSAValue, SSAValue]:
        results = {new: self._olds[new] for new in self.in_place}
        packs = {pack_of(new): pack_of(old) for new, old in results.items()}
        for news, olds in packs.items():
            if news is not None and olds is not None and all(part in self.in_place for part in news.parts):
                results[news.result] = olds.result
        return results

    def waiting_updates(self, kernel: N) -> list[N]:
        """Returns the kernels that update in place what `kernel` reads, and so must run after it."""
        news = (self.updates.get(value) for value in _with_parts(kernel.inputs))
        writers = (self._writers.get(new) for new in news if new is not None and new in self.in_place)
        return [writer for writer in dict.fromkeys(writers) if writer is not None and writer is not kernel]

    def updated_in_place(self, kernel: N) -> list[tuple[SSAValue, SSAValue]]:
        """Returns the old and the new value of each in-place update by `kernel`."""
        return [(self.places[new], new) for new in kernel.outputs if new in self.places]

    def add_order(self, before: N, after: N) -> None:
        """Records that `after` must run after `before`."""
        gained = self._bit[after] | self._reach[after]
        if not gained & ~self._reach[before]:
            return
        bit = self._bit[before]
        for kernel, reach in self._reach.items():
            if kernel is before or reach & bit:
                self._reach[kernel] = reach | gained

    def users(self, buffer: SSAValue) -> list[N]:
        """Returns the kernels that read a buffer, or the row that contains it."""
        return list(self._readers.get(buffer, ()))

    def readers(self, kernel: N) -> list[N]:
        """Returns the kernels that read what `kernel` writes."""
        written = _with_parts(kernel.outputs)
        return list(dict.fromkeys(r for out in written for r in self._readers.get(out, ()) if r is not kernel))

    def writer(self, buffer: SSAValue) -> N | None:
        """Returns the kernel that writes a buffer."""
        return self._writers.get(buffer)

    def producers(self, kernel: N) -> list[N]:
        """Returns the kernels that write what `kernel` reads."""
        producers = (self._writers.get(value) for value in _with_parts(kernel.inputs))
        return list(dict.fromkeys(producer for producer in producers if producer is not None))

    def successors(self, kernel: N) -> list[N]:
        """Returns the kernels that depend directly on `kernel`."""
        return list(dict.fromkeys([*self.readers(kernel), *self.waiting_updates(kernel)]))

    def runs_before(self, first: N, second: N) -> bool:
        """Returns whether `second` must run after `first`."""
        return bool(self._reach[first] & self._bit[second])

    def can_merge(self, first: N, second: N) -> bool:
        """Returns whether no third kernel must run between the two, and `second` need not run first."""
        if self.runs_before(second, first):
            return False
        bit = self._bit[second]
        return not any(k is not second and self._reach[k] & bit for k in self.successors(first))

    def replace(self, old: Sequence[N], new: N) -> None:
        """Replaces the kernels that `new` was merged from; their inputs and outputs must still exist."""
        bits = 0
        reach = 0
        for kernel in old:
            bits |= self._bit.pop(kernel)
            reach |= self._reach.pop(kernel)
            self._forget(kernel, kernel.inputs)
        reach &= ~bits
        number = self._number[old[-1]]
        for kernel in old[:-1]:
            del self._order[self._number[kernel]]
        for kernel in old:
            del self._number[kernel]
        self._order[number], self._number[new] = new, number
        self._note(new)
        self._bit[new], self._reach[new] = bits, reach
        for kernel, reached in self._reach.items():
            if reached & bits:
                self._reach[kernel] = reached | bits | reach

    def reads_anew(self, kernel: N, before: Sequence[SSAValue]) -> None:
        """Records that a kernel that read `before` now reads other buffers, whose writers precede it already."""
        self._forget(kernel, before)
        self._note(kernel)
        for writer in self.waiting_updates(kernel):
            self.add_order(kernel, writer)

    def remove(self, kernel: N) -> None:
        """Removes an erased kernel."""
        del self._order[self._number.pop(kernel)]
        self._forget(kernel, kernel.inputs)
        for value in _with_parts(kernel.outputs):
            del self._writers[value]
        del self._bit[kernel], self._reach[kernel]

    def order(self) -> list[N]:
        """Returns the kernels in a valid order, as close to the current one as dependences permit."""
        return topological(self.kernels, self.successors)

    def in_rounds(self) -> list[N]:
        """Returns the kernels in a valid order, with collectives in rounds.

        First come the kernels that depend on no collective, then all collectives that this enables, similar ones
        adjacent, then the kernels that depend on no others, and so on. So one message can carry several collectives,
        and there are as few sequential messages as collectives on the longest path.
        """
        order = self.order()
        if not any(isinstance(kernel.single, CollectiveOp) for kernel in order):
            return order
        rounds, kinds = self.rounds(), dict[object, int]()

        def place(kernel: N) -> tuple[int, int]:
            op = kernel.single
            return rounds[kernel], 1 + kinds.setdefault(op.alike, len(kinds)) if isinstance(op, CollectiveOp) else 0

        return topological(sorted(order, key=place), self.successors)

    def rounds(self) -> dict[N, int]:
        """Returns the depth of each kernel in collectives: the most of them on a path to it."""
        results = dict.fromkeys(topological(self.kernels, self.successors), 0)
        for kernel, before in results.items():
            for later in self.successors(kernel):
                results[later] = max(results[later], before + isinstance(kernel.single, CollectiveOp))
        return results


def topological(kernels: Sequence[N], successors: Callable[[N], Sequence[N]]) -> list[N]:
    """Returns a topological order, stable with respect to the given one."""
    number = {kernel: i for i, kernel in enumerate(kernels)}
    following = {kernel: [k for k in successors(kernel) if k in number] for kernel in kernels}
    waiting = dict.fromkeys(kernels, 0)
    for kernel in kernels:
        for later in following[kernel]:
            waiting[later] += 1
    ready = [number[kernel] for kernel in kernels if not waiting[kernel]]
    heapq.heapify(ready)
    result: list[N] = []
    while ready:
        kernel = kernels[heapq.heappop(ready)]
        result.append(kernel)
        for later in following[kernel]:
            waiting[later] -= 1
            if not waiting[later]:
                heapq.heappush(ready, number[later])
    assert len(result) == len(kernels), "the kernels have a cyclic dependency"
    return result


def _with_parts(values: Iterable[SSAValue]) -> list[SSAValue]:
    """Returns buffers, with each row followed by the buffers in it."""
    return [part for value in values for part in ((value,) if not _is_pack(value) else (value, *parts_of(value)))]


def _is_pack(value: SSAValue) -> bool:
    return type(value.owner) is PackOp


def users(buffer: SSAValue) -> list[KernelOp]:
    """Returns the kernels that read a buffer, or the pack that contains it, each once."""
    pack = pack_of(buffer)
    operations = (
        use.operation
        for name in ([buffer] if pack is None else [buffer, pack.result])
        for use in name.uses
        if isinstance(use.operation, KernelOp) and use.index < len(use.operation.inputs)
    )
    return list(dict.fromkeys(operations))


def starts_of(order: Sequence[KernelOp]) -> dict[KernelOp, KernelOp]:
    """Returns, for each kernel that waits for a collective, the one that starts it and begins to write its results."""
    starts = {
        kernel.outputs[0]: kernel for kernel in order if kernel.collective is not None and kernel.collective.is_start
    }
    return {
        kernel: starts[kernel.inputs[-1]]
        for kernel in order
        if kernel.collective is not None and kernel.collective.is_wait
    }


@dataclass(frozen=True)
class ExecutionOrder:
    """The order in which kernels run.

    Attributes:
        places: The number of each kernel.
        starts: For each kernel that waits for a collective, the one that starts it and begins to write its results.
    """

    places: Mapping[KernelOp, int]
    starts: Mapping[KernelOp, KernelOp]

    @staticmethod
    def of(order: Sequence[KernelOp]) -> ExecutionOrder:
        """Returns the order of kernels that are listed as they run."""
        return ExecutionOrder({kernel: place for place, kernel in enumerate(order)}, starts_of(order))

    def reads_after(self, buffer: SSAValue, writer: KernelOp) -> bool:
        """Returns whether a kernel reads a buffer after another has begun to write."""
        start = self.places[self.starts.get(writer, writer)]
        return any(self.places.get(kernel, start) > start for kernel in users(buffer))


def steps_of(order: Sequence[KernelOp]) -> dict[KernelOp, int]:
    """Returns the index of each kernel's dispatch, given all kernels in execution order."""
    result: dict[KernelOp, int] = {}
    step, previous = -1, None
    for kernel in order:
        shared = kernel.dispatch_number
        if shared is None or shared != previous:
            step += 1
        previous = shared
        result[kernel] = step
    return result
