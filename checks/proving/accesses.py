"""The accesses of a kernel: where, under which conditions, and which of them no barrier separates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from xdsl.dialects import memref, scf, vector
from xdsl.dialects.builtin import MemRefType, VectorType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, SSAValue

from tensorgrad.checks.proving.symbols import Symbols
from tensorgrad.checks.proving.terms import Condition, Linear, negation, nonnegative, number
from tensorgrad.dialects import cpu, wgsl

ACCESSES = (memref.LoadOp, memref.StoreOp, vector.LoadOp, vector.StoreOp, cpu.LoadLanesOp)
WRITES = (memref.StoreOp, vector.StoreOp)
NO_ACCESSES = (wgsl.WorkgroupAllocOp, memref.AllocaOp, cpu.PrefetchOp)
"""Ops of a memory that neither read nor write it."""

Loops: TypeAlias = "frozenset[scf.ForOp]"


@dataclass(frozen=True, eq=False)
class Access:
    """A load or a store.

    Attributes:
        op: The op.
        buffer: The memory.
        indices: The index along each axis.
        extents: The memory's extents.
        width: The number of consecutive elements.
        conditions: What holds whenever the op is executed.
        loops: The loops around it, outermost first.
    """

    op: Operation
    buffer: SSAValue
    indices: tuple[Linear, ...]
    extents: tuple[int, ...]
    width: int
    conditions: tuple[Condition, ...]
    loops: tuple[scf.ForOp, ...]

    @property
    def writes(self) -> bool:
        """Whether it is a store."""
        return isinstance(self.op, WRITES)

    @property
    def address(self) -> Linear:
        """The position of the first element in row-major order."""
        total = number(0)
        for index, extent in zip(self.indices, self.extents, strict=True):
            total = total.times(extent).plus(index)
        return total


@dataclass(frozen=True)
class Meeting:
    """Two accesses that invocations of a workgroup may execute at the same time.

    Attributes:
        first: One access.
        second: The other, which the program executes later, or the same one.
        together: Loops around both that are in the same iteration.
        following: A loop that is one iteration further at the second access.
    """

    first: Access
    second: Access
    together: Loops
    following: scf.ForOp | None


@dataclass(frozen=True)
class _Pending:
    """An access since the last barrier, and the loops whose iteration hasn't ended since."""

    access: Access
    together: Loops
    following: scf.ForOp | None


class Accesses:
    """The accesses of a kernel.

    Args:
        symbols: What the kernel's integers are.
        block: The kernel's body.

    Attributes:
        accesses: All loads and stores.
        meetings: The pairs in a workgroup, at least one of which is a store, that no barrier separates.
        synchronous: The ops that all invocations of a workgroup must reach, with the ops around each.
        unknown: Other ops that use memory.
    """

    def __init__(self, symbols: Symbols, block: Block):
        self._symbols = symbols
        self.accesses: list[Access] = []
        self.meetings: dict[Meeting, None] = {}
        self.synchronous: list[Operation] = []
        self.unknown: list[Operation] = []
        self._of_op: dict[Operation, Access] = {}
        self._pending: list[_Pending] = []
        self._walk(block, (), ())

    def _walk(self, block: Block, conditions: tuple[Condition, ...], loops: tuple[scf.ForOp, ...]) -> None:
        for op in block.ops:
            match op:
                case wgsl.ReturnIfOp():
                    conditions = (*conditions, negation(self._symbols.condition(op.condition)))
                case scf.IfOp():
                    self._branches(op, conditions, loops)
                case scf.ForOp():
                    self._loop(op, conditions, loops)
                case wgsl.BarrierOp():
                    self._barrier(op)
                case wgsl.SubgroupOp():
                    self._reached(op)
                case _:
                    self._plain(op, conditions, loops)

    def _plain(self, op: Operation, conditions: tuple[Condition, ...], loops: tuple[scf.ForOp, ...]) -> None:
        if isinstance(op, ACCESSES):
            access = self._of_op.get(op)
            if access is None:
                access = self._of_op[op] = self._access(op, conditions, loops)
                self.accesses.append(access)
            self._meet(access)
        elif not isinstance(op, NO_ACCESSES) and any(
            isinstance(value.type, MemRefType) for value in (*op.operands, *op.results)
        ):
            self.unknown.append(op)

    def _access(self, op: Operation, conditions: tuple[Condition, ...], loops: tuple[scf.ForOp, ...]) -> Access:
        written = isinstance(op, WRITES)
        value = op.operands[0] if written else op.results[0]
        buffer, *indices = op.operands[1:] if written else op.operands
        shape = cast("MemRefType[Attribute]", buffer.type).get_shape()
        width = 1
        if isinstance(op, vector.LoadOp | vector.StoreOp):
            width = cast("VectorType[Any]", value.type).element_count()
        elif isinstance(op, cpu.LoadLanesOp):
            width = len(op.lanes)
        symbols = tuple(self._symbols.value(index) for index in indices)
        return Access(op, buffer, symbols, tuple(shape), width, conditions, loops)

    def _branches(self, op: scf.IfOp, conditions: tuple[Condition, ...], loops: tuple[scf.ForOp, ...]) -> None:
        condition = self._symbols.condition(op.cond)
        before, after = self._pending, list[_Pending]()
        for region, holds in ((op.true_region, condition), (op.false_region, negation(condition))):
            # Invocations in the one branch don't wait for those in the other.
            self._pending = list(dict.fromkeys([*before, *after]))
            if region.blocks:
                self._walk(region.block, (*conditions, holds), loops)
            after += self._pending
        self._pending = list(dict.fromkeys(after))

    def _loop(self, op: scf.ForOp, conditions: tuple[Condition, ...], loops: tuple[scf.ForOp, ...]) -> None:
        counter = self._symbols.value(op.body.block.args[0])
        remaining = self._symbols.value(op.ub).plus(number(-1)).minus(counter)
        inside = (*conditions, nonnegative(remaining), nonnegative(counter.minus(self._symbols.value(op.lb))))
        before = self._pending
        self._walk(op.body.block, inside, (*loops, op))
        self._pending = [_in_next(pending, op) for pending in self._pending]
        self._walk(op.body.block, inside, (*loops, op))
        kept = [
            _Pending(pending.access, pending.together - {op}, None if pending.following is op else pending.following)
            for pending in self._pending
        ]
        self._pending = list(dict.fromkeys([*before, *kept]))  # perhaps there is no iteration

    def _meet(self, access: Access) -> None:
        stored = isinstance(access.buffer, BlockArgument)
        waits = frozenset(loop for loop in access.loops if _surely_waits(loop.body.block, stored))
        for pending in [*self._pending, _Pending(access, waits, None)]:
            other = pending.access
            if other.buffer is access.buffer and (other.writes or access.writes):
                meeting = Meeting(other, access, pending.together & waits, pending.following)
                self.meetings.setdefault(meeting)
        self._pending.append(_Pending(access, waits, None))

    def _barrier(self, op: wgsl.BarrierOp) -> None:
        self._reached(op)
        ordered = op.storage is not None
        self._pending = [
            pending for pending in self._pending if isinstance(pending.access.buffer, BlockArgument) and not ordered
        ]

    def _reached(self, op: Operation) -> None:
        if op not in self.synchronous:
            self.synchronous.append(op)


def _in_next(pending: _Pending, loop: scf.ForOp) -> _Pending:
    """Returns an access as the next iteration of a loop sees it."""
    if loop not in pending.together:
        return pending
    return _Pending(pending.access, pending.together - {loop}, loop)


def _surely_waits(block: Block, stored: bool) -> bool:
    """Returns whether each iteration of a loop waits at a barrier, for what is stored in buffers if so asked."""
    return any(isinstance(op, wgsl.BarrierOp) and (op.storage is not None or not stored) for op in block.ops)


def enclosing(op: Operation) -> Iterator[scf.IfOp | scf.ForOp]:
    """Yields the branches and loops around another one, up to the kernel."""
    parent = op.parent_op()
    while parent is not None and isinstance(parent, scf.IfOp | scf.ForOp):
        yield parent
        parent = parent.parent_op()


class Uniformity:
    """Which values are the same in all invocations of a workgroup.

    Args:
        constant: Buffers that don't change while the kernel runs.
    """

    def __init__(self, constant: frozenset[SSAValue]):
        self._constant = constant
        self._same: dict[SSAValue, bool] = {}

    def of(self, value: SSAValue) -> bool:
        """Returns whether a value is surely uniform."""
        known = self._same.get(value)
        if known is None:
            self._same[value] = True  # a number that a loop carries is uniform if assuming so shows that it is
            known = self._same[value] = self._computed(value)
            if not known:  # what was concluded from the assumption may be wrong
                self._same = {other: same for other, same in self._same.items() if not same}
        return known

    def _computed(self, value: SSAValue) -> bool:
        if isinstance(value, BlockArgument):
            loop = value.owner.parent_op()
            if not isinstance(loop, scf.ForOp):
                return False
            bounds = self._all((loop.lb, loop.ub, loop.step))
            if value.index == 0 or not bounds:
                return bounds
            last = cast(Operation, loop.body.block.last_op)
            return self._all((loop.iter_args[value.index - 1], last.operands[value.index - 1]))
        op = cast(Operation, value.owner)
        match op:
            case wgsl.WorkgroupIdOp() | wgsl.NumWorkgroupsOp() | wgsl.SubgroupSizeOp():
                return True
            case wgsl.DimensionBuiltin() | wgsl.ScalarBuiltin() | wgsl.SubgroupOp():
                return False
            case memref.LoadOp():
                return op.memref in self._constant and self._all(op.indices)
            case scf.IfOp():
                place = cast(OpResult, value).index
                return self.of(op.cond) and all(
                    self.of(cast(Operation, region.block.last_op).operands[place]) for region in op.regions
                )
            case scf.ForOp():
                return self.of(op.body.block.args[cast(OpResult, value).index + 1])
            case _:
                return not op.regions and self._all(op.operands)

    def _all(self, values: Sequence[SSAValue]) -> bool:
        return all(self.of(value) for value in values)

    def around(self, op: Operation) -> Iterator[tuple[Operation, SSAValue]]:
        """Yields the ops that decide whether an op is reached, or how often, by values that may not be uniform."""
        for parent in enclosing(op):
            values = (parent.cond,) if isinstance(parent, scf.IfOp) else (parent.lb, parent.ub, parent.step)
            yield from ((parent, value) for value in values if not self.of(value))
