"""The pass `recompute`: chooses which values of the forward pass are kept for the derivative, and which recomputed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeGuard

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from tensorgrad.dialects.buf import element_bytes
from tensorgrad.dialects.functions import defined_functions
from tensorgrad.dialects.signature import Role, results_of
from tensorgrad.dialects.tg.base import TensorOp, size_of
from tensorgrad.dialects.tg.build import element_of, shape_of
from tensorgrad.dialects.tg.traits import is_elementwise, is_leaf, is_view
from tensorgrad.passes.functions import block_of, return_of
from tensorgrad.passes.levels import TENSORS, LevelPass


def _is_cheap(op: object) -> TypeGuard[TensorOp]:
    """Returns whether a kernel that reads an op's result can compute it itself."""
    return is_elementwise(op) or is_view(op)


@dataclass(frozen=True)
class RecomputePass(LevelPass):
    """Recomputes values of the forward pass where the derivative reads them, if that keeps fewer bytes.

    Expects functions on `tg` with gradients or updates among their results, when no later pass merges equal ops.
    Guarantees the same results, bit for bit.

    The forward pass is everything that the results of role `output` need. Of its values that the derivative reads
    elementwise, the pass keeps those of a minimum cut between values that can't be recomputed elementwise (products,
    reductions) and the values that are read. Values after the cut are recomputed from the kept ones and from those that
    are available anyway: arguments, constants, and values that the derivative reads in other ways. The weight of a
    value is its bytes; twice as many if the forward pass doesn't have to store it. (Z. Jia et al. and PyTorch's
    AOTAutograd choose by such a cut, too.)
    """

    name = "recompute"
    levels = TENSORS

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            _recompute(function)


def _recompute(function: FuncOp) -> None:
    block, returned = block_of(function), return_of(function)
    slots = results_of(function)
    roles = [slot.role for slot in slots]
    if all(role == Role.OUTPUT for role in roles):
        return
    forward = _needed([value for value, role in zip(returned.operands, roles, strict=True) if role == Role.OUTPUT])
    backward = [op for op in block.ops if op not in forward and op is not returned]
    read_otherwise = {operand for op in (*backward, returned) if not _is_cheap(op) for operand in op.operands}
    read = [operand for op in backward if _is_cheap(op) for operand in op.operands]
    read_once = [v for v in dict.fromkeys(read) if v.owner in forward and v not in read_otherwise]
    kept = _Cut(forward, read_otherwise, read_once).kept()
    _Copies(block, forward, kept | read_otherwise).replace(backward)


def _needed(values: Iterable[SSAValue]) -> set[Operation | Block]:
    """Returns the ops that compute values."""
    results: set[Operation | Block] = set()
    waiting = [value.owner for value in values]
    while waiting:
        op = waiting.pop()
        if isinstance(op, Operation) and op not in results:
            results.add(op)
            waiting.extend(operand.owner for operand in op.operands)
    return results


def _is_free(value: SSAValue) -> bool:
    return not isinstance(value.owner, Operation) or is_leaf(value.owner)


@dataclass
class _Node:
    """An end of a value in the flow network; the edge from its first to its second end has its bytes as capacity."""

    edges: dict[_Node, float] = field(default_factory=dict["_Node", float])

    __hash__ = object.__hash__
    __eq__ = object.__eq__


class _Cut:
    """A minimum cut between values that can't be recomputed and the needed ones."""

    def __init__(self, forward: set[Operation | Block], saved: set[SSAValue], needed: list[SSAValue]):
        self.forward, self.saved, self.needed = forward, saved, needed
        self.source, self.sink = _Node(), _Node()
        self.ends: dict[SSAValue, tuple[_Node, _Node]] = {}

    def kept(self) -> set[SSAValue]:
        """Returns the values on the minimum cut nearest to the needed values, which recomputes the least."""
        for value in self.needed:
            self._connect(self._add(value)[1], self.sink, float("inf"))
        while self._push():
            pass
        behind = self._reaching_sink()
        return {value for value, (first, second) in self.ends.items() if first not in behind and second in behind}

    def _add(self, value: SSAValue) -> tuple[_Node, _Node]:
        """Adds a value, and everything that it can be computed from, to the network."""
        waiting, uses = [value], list[tuple[SSAValue, _Node]]()
        while waiting:
            op = waiting.pop()
            if op in self.ends:
                continue
            first, second = self.ends[op] = (_Node(), _Node())
            self._connect(first, second, _cost(op, self.forward))
            if not _is_cheap(op.owner):
                self._connect(self.source, first, float("inf"))
                continue
            operands = [v for v in op.owner.operands if not _is_free(v) and v not in self.saved]
            waiting += operands
            uses += [(operand, first) for operand in operands]
        for operand, first in uses:
            self._connect(self.ends[operand][1], first, float("inf"))
        return self.ends[value]

    def _connect(self, first: _Node, second: _Node, width: float) -> None:
        first.edges[second] = first.edges.get(second, 0.0) + width
        second.edges.setdefault(first, 0.0)

    def _push(self) -> bool:
        """Augments the flow along a shortest path with residual capacity (Edmonds and Karp, 1972)."""
        came: dict[_Node, _Node] = {self.source: self.source}
        waiting = deque([self.source])
        while waiting and self.sink not in came:
            node = waiting.popleft()
            for other, room in node.edges.items():
                if room > 0 and other not in came:
                    came[other] = node
                    waiting.append(other)
        if self.sink not in came:
            return False
        way = [self.sink]
        while way[-1] is not self.source:
            way.append(came[way[-1]])
        steps = list(zip(way[1:], way, strict=False))
        amount = min(first.edges[second] for first, second in steps)
        for first, second in steps:
            first.edges[second] -= amount
            second.edges[first] += amount
        return True

    def _reaching_sink(self) -> set[_Node]:
        results = {self.sink}
        waiting = [self.sink]
        while waiting:
            node = waiting.pop()
            for other in node.edges:
                if other not in results and other.edges[node] > 0:
                    results.add(other)
                    waiting.append(other)
        return results


def _cost(value: SSAValue, forward: set[Operation | Block]) -> float:
    """Returns the cost of keeping a value: its bytes, doubled if the forward pass need not store it."""
    size = size_of(shape_of(value)) * element_bytes(element_of(value))
    written = any(use.operation in forward and not _is_cheap(use.operation) for use in value.uses)
    return float(size if written else 2 * size)


class _Copies:
    """Copies ops of the forward pass to where the derivative first reads them."""

    def __init__(self, block: Block, forward: set[Operation | Block], kept: set[SSAValue]):
        self.block, self.kept = block, kept
        self.places = {op: place for place, op in enumerate(block.ops) if op in forward}
        self.copies: dict[SSAValue, SSAValue] = {}

    def replace(self, backward: list[Operation]) -> None:
        """Makes the derivative read copies of all values that aren't kept."""
        for op in backward:
            if _is_cheap(op):
                for source in self._missing(op):
                    self._copy(source, op)
                self._read_copies(op)

    def _missing(self, op: Operation) -> list[Operation]:
        """Returns the ops that must be copied before an op can read copies only, in order."""
        ops: set[Operation] = set()
        waiting = list(op.operands)
        while waiting:
            value = waiting.pop()
            source = value.owner
            if value in self.kept or value in self.copies or _is_free(value) or source in ops:
                continue
            if isinstance(source, Operation) and source in self.places:
                ops.add(source)
                waiting += source.operands
        return sorted(ops, key=self.places.__getitem__)

    def _copy(self, source: Operation, before: Operation) -> None:
        copy = source.clone()
        self._read_copies(copy)
        self.block.insert_op_before(copy, before)
        self.copies[source.results[0]] = copy.results[0]

    def _read_copies(self, op: Operation) -> None:
        for place, operand in enumerate(op.operands):
            op.operands[place] = self.copies.get(operand, operand)
