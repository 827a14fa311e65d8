"""The pass `overlap-collectives`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.context import Context
from xdsl.dialects import memref
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from tensorgrad.dialects.buf import Buffer, KernelOp, buffer_bytes
from tensorgrad.dialects.collective import REQUEST, START, WAIT
from tensorgrad.dialects.functions import defined_functions
from tensorgrad.passes.analyses.graph import KernelGraph, has_calls, steps_of
from tensorgrad.passes.analyses.machine import bucket_bytes
from tensorgrad.passes.buffers.lower_tg_to_buf.kernels import set_location
from tensorgrad.passes.functions import return_of
from tensorgrad.passes.levels import KERNELS, LevelPass


@dataclass(frozen=True)
class OverlapCollectivesPass(LevelPass):
    """Overlaps collectives with computation.

    Expects functions of `buf` before `plan-memory`, with their kernels in execution order. Guarantees the same results,
    bit for bit, from the same kernels in the same order. Compatible collectives become one message of at most
    `message_bytes`; a larger buffer is a message by itself. A message becomes two phases if kernels can run in the
    meantime: its start comes after the last kernel that it depends on, its wait before the first kernel that depends on
    it. Otherwise it stays one op. Messages are exchanged in the order of their starts.

    Attributes:
        message_bytes: The most bytes of a message with several buffers, which are copied side by side. The default
            grows with the size of the group; see `bucket_bytes` of the machine model.
    """

    name = "overlap-collectives"
    levels = KERNELS

    message_bytes: int | None = None

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            if not has_calls(function):
                _overlap(function, self.message_bytes)


@dataclass
class _Message:
    """Collectives that are exchanged together.

    Attributes:
        kernels: The collectives.
        start: The position in the order after which all operands are available.
        wait: The position in the order before which the first result is needed.
        bytes: The bytes of all operands.
    """

    kernels: list[KernelOp] = field(default_factory=list[KernelOp])
    start: float = -1.0
    wait: float = float("inf")
    bytes: int = 0

    def takes(self, other: _Message, most: int) -> bool:
        """Returns whether another message, which starts no earlier, can be combined with this one."""
        buffers = {buffer for kernel in self.kernels for buffer in kernel.operands}
        return (
            other.start < self.wait
            and self.bytes + other.bytes <= most
            and not any(buffer in buffers for kernel in other.kernels for buffer in kernel.operands)
        )

    def take(self, other: _Message) -> None:
        """Adds the collectives of another message to this one."""
        self.kernels += other.kernels
        self.start, self.wait = max(self.start, other.start), min(self.wait, other.wait)
        self.bytes += other.bytes


def _overlap(function: FuncOp, most: int | None) -> None:
    if not any(isinstance(op, KernelOp) and _is_at_once(op) for op in function.body.block.ops):
        return
    graph = KernelGraph.of(function)
    order = graph.order()
    places = {kernel: place for place, kernel in enumerate(order)}
    events: list[tuple[float, KernelOp]] = [(places[kernel], kernel) for kernel in order if not _is_at_once(kernel)]
    computing = [place for place, kernel in enumerate(order) if kernel.collective is None]
    for message in _messages(graph, order, most):
        if any(message.start < place < message.wait for place in computing):
            events += zip((message.start, message.wait), _in_two_phases(message.kernels), strict=True)
        else:
            events.append((message.start, _as_one(message.kernels)))
    last = return_of(function)
    for kernel in order:
        kernel.detach()
    for _, kernel in sorted(events, key=lambda event: event[0]):
        function.body.block.insert_op_before(kernel, last)
    for kernel in order:
        if kernel.parent is None:  # replaced by the kernels of a message
            kernel.erase()


def _is_at_once(kernel: KernelOp) -> bool:
    return kernel.collective is not None and kernel.collective.phase is None


def _messages(graph: KernelGraph[KernelOp], order: Sequence[KernelOp], most: int | None) -> list[_Message]:
    """Returns the messages, ordered by their start."""
    alone = sorted(_alone(graph, order), key=lambda message: message.start)
    messages: list[_Message] = []
    open_by_kind: dict[object, _Message] = {}
    for message in alone:
        op = message.kernels[0].collective
        assert op is not None
        into = open_by_kind.get(op.alike)
        if into is not None and into.takes(message, most or bucket_bytes(op.size)):
            into.take(message)
        else:
            open_by_kind[op.alike] = message
            messages.append(message)
    return sorted(messages, key=lambda message: message.start)


def _alone(graph: KernelGraph[KernelOp], order: Sequence[KernelOp]) -> list[_Message]:
    """Returns a message for each collective, with the positions between which it can be exchanged."""
    places = {kernel: place for place, kernel in enumerate(order)}
    before: dict[KernelOp, list[KernelOp]] = {kernel: [] for kernel in order}
    for kernel in order:
        for later in graph.successors(kernel):
            before[later].append(kernel)
    first, last = _ends_of_dispatches(order)
    results: list[_Message] = []
    for kernel in filter(_is_at_once, order):
        start = max((last[previous] + 0.25 for previous in before[kernel]), default=-0.5)
        if any(previous.collective is not None for previous in before[kernel]):
            start = places[kernel]  # the latest position at which the collectives that it depends on are over
        wait = min((first[successor] - 0.25 for successor in graph.successors(kernel)), default=len(order) - 0.25)
        size = sum(buffer_bytes(cast(Buffer, value.type)) for value in kernel.operands)
        results.append(_Message([kernel], start, wait, size))
    return results


def _ends_of_dispatches(order: Sequence[KernelOp]) -> tuple[Mapping[KernelOp, int], Mapping[KernelOp, int]]:
    """Returns, for each kernel, the positions of the first and of the last kernel of its dispatch."""
    steps = steps_of(order)
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for place, kernel in enumerate(order):
        first.setdefault(steps[kernel], place)
        last[steps[kernel]] = place
    return {kernel: first[steps[kernel]] for kernel in order}, {kernel: last[steps[kernel]] for kernel in order}


def _as_one(kernels: Sequence[KernelOp]) -> KernelOp:
    """Returns one kernel that performs the exchanges of `kernels`; a single kernel is returned unchanged."""
    if len(kernels) == 1:
        return kernels[0]
    inputs = [value for kernel in kernels for value in kernel.inputs]
    return _kernel(kernels[0], inputs, [value for kernel in kernels for value in kernel.outputs], None)


def _in_two_phases(kernels: Sequence[KernelOp]) -> tuple[KernelOp, KernelOp]:
    """Returns the kernels that start and await the exchanges of `kernels`, and allocates the request between them."""
    request = memref.AllocOp([], [], REQUEST)
    request.location = kernels[0].location
    block = cast(Block, kernels[0].parent)
    block.insert_op_before(request, cast(Operation, block.first_op))
    inputs = [value for kernel in kernels for value in kernel.inputs]
    outputs = [value for kernel in kernels for value in kernel.outputs]
    start = _kernel(kernels[0], inputs, [request.memref], START)
    return start, _kernel(kernels[0], [*inputs, request.memref], outputs, WAIT)


def _kernel(like: KernelOp, inputs: Sequence[SSAValue], outputs: Sequence[SSAValue], phase: str | None) -> KernelOp:
    op = like.collective
    assert op is not None
    block = Block(arg_types=[value.type for value in (*inputs, *outputs)])
    block.add_op(op.like(block.args[: len(inputs)], block.args[len(inputs) :], phase))
    kernel = KernelOp.build_kernel((), inputs, outputs, block)
    set_location(kernel, like.location)
    return kernel
