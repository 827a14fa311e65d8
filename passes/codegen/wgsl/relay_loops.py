"""The pass `relay-loops`: distributes loops too long for one invocation over several, which run in sequence."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import (
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    UnknownLoc,
    i32,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects import wgsl
from tensorgrad.dialects.buf import KernelOp as BufKernelOp
from tensorgrad.dialects.buf import buffer_bytes
from tensorgrad.dialects.locations import line_of
from tensorgrad.passes.analyses.trips import (
    EXCLUSIVE,
    ITERATIONS,
    MOST_TRIPS,
    has_uniform_bounds,
    holds,
    is_uniform,
    iterations,
    kernel_iterations,
    masked_iterations,
    most_trips,
    total,
)
from tensorgrad.passes.analyses.walking import operations
from tensorgrad.passes.levels import LOWERED_BY, Level, TargetedPass, level_of
from tensorgrad.passes.scalars import ScalarBuilder, Value, both
from tensorgrad.runtime.target import WEBGPU_DEFAULT, Target

SHARED, INSIDE = "shared", "inside"
NEVER = 1 << 62
"""Larger than any iteration count."""


@dataclass(frozen=True)
class RelayLoopsPass(TargetedPass):
    """Splits loops that are too long for one invocation over several ("relays"), which run their parts in sequence.

    Drivers that run kernels on a CPU silently terminate every loop of an invocation once it has run some total number
    of iterations over all its loops (Mesa's llvmpipe: 65,535); so nesting doesn't help, but more invocations do.
    Expects kernels after `lower-buf-to-wgsl`. Guarantees the same results, bit for bit, and that no invocation of a
    kernel runs more iterations than the target allows. Kernels that never exceed the limit are unchanged.

    A kernel that may exceed it gets larger workgroups: `relays` times the invocations, along x. All of them run the
    same code, but only the first stores results. The relays run a shared loop one after another, each in its range of
    the iterations; carried values are passed through workgroup memory:

    ```
    for relay in 0 .. relays:
      if relay is mine: carried = loop over this relay's range of the iterations, from carried
      barrier
    ```

    Conditions around such a loop that differ between invocations, such as the bounds guard of the last workgroup, are
    sunk to the stores: barriers must be reached by every invocation.

    Attributes:
        target: The device, with its limits on iterations and workgroups.
        relays: The number of invocations that share every loop, however short, if the target permits; 0 derives it from
            the limit.
        inner: With `relays`, whether they share the innermost shareable loops rather than the outermost.
    """

    name = "relay-loops"

    target: Target = WEBGPU_DEFAULT
    relays: int = 0
    inner: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        current_level = level_of(op)
        # Without kernels, a lowered module looks like a planned one.
        if current_level in (Level.TG, Level.BUF) or any(
            isinstance(inner, BufKernelOp) and inner.collective is None
            for function in op.ops
            if isinstance(function, FuncOp)
            for inner in function.walk()
        ):
            level = "buf" if current_level is None else current_level.value
            raise DiagnosticException(
                f"{self.name} expects a module at level wgsl, this one is at level {level}: "
                f"run `{LOWERED_BY[Level.WGSL]}` first"
            )
        kernels = [kernel for kernel in op.ops if isinstance(kernel, wgsl.KernelOp)]
        for kernel, plan in [(kernel, self._plan(kernel)) for kernel in kernels]:
            if plan is not None:
                _Relays(kernel, plan).write()

    def _plan(self, kernel: wgsl.KernelOp) -> RelayPlan | None:
        if self.relays:
            loops = dict(_all_shared(kernel.body.block, self.inner))
            fits = loops and self.relays <= _room(kernel, self.target)
            return RelayPlan(self.relays, loops, kernel_iterations(kernel)) if fits else None
        limit = self.target.max_loop_iterations
        return None if limit is None else plan_relays(kernel, self.target, limit)


# Planning: how many relays, in which loops


@dataclass(frozen=True)
class RelayPlan:
    """How a kernel's loops are relayed.

    Attributes:
        relays: The number of invocations that share a loop.
        loops: For each loop that isn't run by all relays: whether it is shared itself, or nested loops are.
        iterations: The most iterations that any of them runs then.
    """

    relays: int
    loops: dict[Operation, str]
    iterations: int


def plan_relays(kernel: wgsl.KernelOp, target: Target, limit: int) -> RelayPlan | None:
    """Returns the fewest relays, a power of two, that keep a kernel below a limit; `None` if it needs none.

    Raises:
        DiagnosticException: No number of relays does, or it exceeds the target's limits.
    """
    needed = kernel_iterations(kernel)
    if needed <= limit:
        return None
    most, updated, relays = _room(kernel, target), _updated(kernel), 2
    while relays <= most:
        loops: dict[Operation, str] = {}
        planned = _planned(kernel.body.block, relays, loops, updated)
        if planned <= limit:
            _check_memory(kernel, loops, target)
            return RelayPlan(relays, loops, planned)
        relays *= 2
    raise _too_long(kernel, target, f"up to {needed} iterations, more than {most} can run together")


def _room(kernel: wgsl.KernelOp, target: Target) -> int:
    """Returns the most relays that fit in a workgroup; the driver counts a vector of invocations as one."""
    width, *others = kernel.workgroup_size.get_values()
    if width % (target.subgroup_size or 1):
        return 1
    room = target.max_compute_invocations_per_workgroup // math.prod(others)
    return min(room, target.max_compute_workgroup_size_x) // width


def _too_long(kernel: wgsl.KernelOp, target: Target, problem: str) -> DiagnosticException:
    return DiagnosticException(
        f"the loops of the kernel made at {line_of(kernel.location)} are too long for {target.name!r}, which ends an "
        f"invocation's loops silently after {target.max_loop_iterations} iterations: {problem}. "
        "Reduce in several steps (reshape an axis into two, then reduce one after the other), or take another device"
    )


def _planned(block: Block, relays: int, loops: dict[Operation, str], updated: set[SSAValue]) -> int:
    """Returns the most iterations of a block that a relay runs; records how each loop is handled."""

    def count(op: Operation) -> int:
        if isinstance(op, scf.ForOp):
            return _planned_loop(op, relays, loops, updated)
        return sum(_planned(inner, relays, loops, updated) for region in op.regions for inner in region.blocks)

    return total(block, count)


def _planned_loop(loop: scf.ForOp, relays: int, loops: dict[Operation, str], updated: set[SSAValue]) -> int:
    """Decides whether all relays run a loop, share it, or share nested loops, to minimize each one's iterations."""
    trips, inside, masked = most_trips(loop), iterations(loop.body.block), masked_iterations(loop)
    options: list[tuple[int, dict[Operation, str]]] = []
    if not any(isinstance(op, memref.StoreOp) and op.memref in updated for op in operations(loop.body.block)):
        options.append((trips * (1 + inside) + masked, {}))
    if not holds(loop, wgsl.BarrierOp):
        turn = -(-trips // relays) * (1 + inside) + masked
        options.append((turn + relays * (1 + masked) + 1, {loop: SHARED}))
    if has_uniform_bounds(loop):
        within: dict[Operation, str] = {}
        planned = trips * (1 + _planned(loop.body.block, relays, within, updated)) + masked
        if within:
            options.append((planned, {loop: INSIDE, **within}))
    least, chosen = min(options, key=lambda option: option[0], default=(NEVER, dict[Operation, str]()))
    loops.update(chosen)
    return least


def _all_shared(block: Block, inner: bool) -> Iterator[tuple[Operation, str]]:
    """Yields how each shareable loop is handled if all are shared."""
    for op in block.ops:
        if not isinstance(op, scf.ForOp):
            for region in op.regions:
                for nested in region.blocks:
                    yield from _all_shared(nested, inner)
        elif has_uniform_bounds(op) and (inner or holds(op, wgsl.BarrierOp)) and holds(op, scf.ForOp):
            yield op, INSIDE
            yield from _all_shared(op.body.block, inner)
        elif not holds(op, wgsl.BarrierOp):
            yield op, SHARED


def _updated(kernel: wgsl.KernelOp) -> set[SSAValue]:
    """Returns the bindings that a kernel both reads and writes."""
    ops = list(operations(kernel.body.block))
    loaded = {op.memref for op in ops if isinstance(op, memref.LoadOp)}
    return {op.memref for op in ops if isinstance(op, memref.StoreOp) and op.memref in loaded} & {
        *kernel.body.block.args
    }


def _check_memory(kernel: wgsl.KernelOp, loops: dict[Operation, str], target: Target) -> None:
    ops = operations(kernel.body.block)
    used = sum(buffer_bytes(op.memref.type) for op in ops if isinstance(op, wgsl.WorkgroupAllocOp))
    size = math.prod(kernel.workgroup_size.get_values())
    kinds = [_kinds_held(loop, size) for loop, what in loops.items() if what == SHARED]
    for kind in {kind_ for held in kinds for kind_ in held}:
        used += max(held.count(kind) for held in kinds) * buffer_bytes(kind)
    if used > target.max_compute_workgroup_storage_size:
        limit = target.max_compute_workgroup_storage_size
        raise _too_long(kernel, target, f"relaying needs {used} bytes of workgroup memory, there are {limit}")


def _kinds_held(loop: Operation, size: int) -> list[wgsl.Memref]:
    """Returns the types of the arrays that pass on carried values: one element per invocation."""
    kinds = [i32 if isinstance(result.type, IndexType) else result.type for result in loop.results]
    return [MemRefType(kind, [size]) for kind in kinds]


# Rewriting


@dataclass(frozen=True)
class _Guard:
    """The conditions under which a store runs.

    Attributes:
        first: For code that all relays run: that this is the first relay, and the original condition.
        inside: The original condition; `None` if there is none.
    """

    first: SSAValue
    inside: SSAValue | None = None


class _Code(ScalarBuilder):
    """Inserts ops before another one, with that op's location."""

    def __init__(self, anchor: Operation):
        super().__init__(cast(Block, anchor.parent))
        self.anchor = anchor

    def append(self, op: Operation) -> None:
        for inner in op.walk():
            if isinstance(inner.location, UnknownLoc):
                inner.location = self.anchor.location
        if self.block is self.anchor.parent:
            self.block.insert_op_before(op, self.anchor)
        else:
            self.block.add_op(op)

    def number(self, value: int) -> Value:
        """Returns a constant index."""
        return self.constant(value, IndexType())


_PLACES = (wgsl.LocalIdOp, wgsl.LocalIndexOp, wgsl.GlobalIdOp)


class _Relays:
    """Rewrites a kernel according to a plan."""

    def __init__(self, kernel: wgsl.KernelOp, plan: RelayPlan):
        self.kernel, self.plan = kernel, plan
        self.updated = _updated(kernel)
        self.size = math.prod(kernel.workgroup_size.get_values())
        self.arrays: dict[wgsl.Memref, list[SSAValue]] = {}
        self.read: set[SSAValue] = set()
        """Memory that relays may have read since the last barrier."""

    def write(self) -> None:
        """Rewrites the kernel in place."""
        block, (width, *others) = self.kernel.body.block, self.kernel.workgroup_size.get_values()
        ops, within = list(block.ops), [op for op in operations(block) if isinstance(op, _PLACES)]
        code = _Code(ops[0])
        lane, extent = code.add(wgsl.LocalIdOp(0)), code.number(width)
        number, along = lane // extent, lane % extent
        place = along
        for dim, stride in ((1, width), (2, width * others[0])):
            if others[dim - 1] > 1:
                place = place + code.add(wgsl.LocalIdOp(dim)) * code.number(stride)
        point = code.add(wgsl.WorkgroupIdOp(0)) * extent + along
        values = {wgsl.LocalIdOp: along.ssa, wgsl.LocalIndexOp: place.ssa, wgsl.GlobalIdOp: point.ssa}
        self.number, self.place, self.is_first = number.ssa, place.ssa, number.equals(0).ssa
        for op in within:
            if isinstance(op, wgsl.LocalIndexOp) or op.dim.value.data == 0:
                op.results[0].replace_all_uses_with(values[type(op)])
                Rewriter.erase_op(op)
        self._rewrite([op for op in ops if op.parent is block], _Guard(self.is_first))
        self.kernel.properties["workgroup_size"] = DenseArrayBase.from_list(i64, [width * self.plan.relays, *others])
        self.kernel.attributes[ITERATIONS] = IntegerAttr(self.plan.iterations, i64)

    def _rewrite(self, ops: Sequence[Operation], guard: _Guard) -> None:
        """Rewrites ops that all invocations of a workgroup reach."""
        for op in ops:
            if isinstance(op, wgsl.ReturnIfOp):
                guard = self._narrowed(guard, _Code(op), op.condition, False)
                Rewriter.erase_op(op)
            elif self.plan.loops.get(op) == SHARED:
                self._share(cast(scf.ForOp, op), guard)
            elif self.plan.loops.get(op) == INSIDE:
                self._rewrite_inside(cast(scf.ForOp, op), guard)
            elif isinstance(op, scf.IfOp) and any(inner in self.plan.loops for inner in op.walk()):
                self._open(op, guard)
            else:
                self._run_by_all(op, guard)

    def _rewrite_inside(self, loop: scf.ForOp, guard: _Guard) -> None:
        """Rewrites a loop that all relays run around shared ones: an iteration may start while others still read."""
        before = set(self.read)
        self.read |= _loaded(loop)
        for inner in loop.walk():
            if self.plan.loops.get(inner) == SHARED:
                self.read.update(self._held(cast(scf.ForOp, inner)))
        self._rewrite(list(loop.body.block.ops), guard)
        self.read |= before  # with no iterations, none of the nested barriers runs

    def _narrowed(self, guard: _Guard, code: _Code, condition: SSAValue, outcome: bool) -> _Guard:
        met = code.value(condition) if outcome else code.value(condition) ^ 1
        inside = None if guard.inside is None else code.value(guard.inside)
        return _Guard((code.value(guard.first) & met).ssa, both(inside, met).ssa)

    def _open(self, op: scf.IfOp, guard: _Guard) -> None:
        """Rewrites an `if` around a shared loop: it stays if its condition is uniform; else both branches run."""
        regions = [region for region in (op.true_region, op.false_region) if region.blocks]
        if is_uniform(op.cond):
            before, after = self.read, set(self.read)
            for region in regions:
                self.read = set(before)
                self._rewrite(list(region.block.ops), guard)
                after |= self.read
            # A workgroup runs only one of the kernels that share a dispatch.
            self.read = before if EXCLUSIVE in op.attributes else after
            return
        code, ends = _Code(op), list[scf.YieldOp]()
        for region, outcome in zip(regions, (True, False), strict=False):
            narrowed, moved = self._narrowed(guard, code, op.cond, outcome), list[Operation]()
            for inner in list(region.block.ops):
                inner.detach()
                if isinstance(inner, scf.YieldOp):
                    ends.append(inner)
                else:
                    Rewriter.insert_op(inner, InsertPoint.before(op))
                    moved.append(inner)
            self._rewrite(moved, narrowed)
        for number, result in enumerate(op.results):
            chosen = code.select(code.value(op.cond), *(code.value(end.operands[number]) for end in ends))
            result.replace_all_uses_with(chosen.ssa)
        for end in ends:
            end.erase()
        Rewriter.erase_op(op)

    def _run_by_all(self, op: Operation, guard: _Guard) -> None:
        """Rewrites an op that all relays run: only the first one stores, once all have read the old values."""
        fenced = any(isinstance(inner, memref.StoreOp) and inner.memref in self.updated for inner in op.walk())
        after = op.next_op
        if fenced:
            _Code(op).append(wgsl.BarrierOp(storage=True))
        _guard_stores(op, guard.first)
        if isinstance(op, wgsl.BarrierOp):
            self.read = set() if op.storage is not None else {value for value in self.read if not _is_shared(value)}
        self.read |= _loaded(op)
        if fenced and after is not None:
            _Code(after).append(wgsl.BarrierOp(storage=True))
            self.read.clear()

    # Loops

    def _share(self, loop: scf.ForOp, guard: _Guard) -> None:
        """Runs the relays one after another, each in its range of a loop's iterations."""
        code, held, trips = _Code(loop), self._held(loop), -(-most_trips(loop) // self.plan.relays)
        if not self.read.isdisjoint([*held, *_stored(loop)]):
            code.append(wgsl.BarrierOp(storage=True))
        if held:  # the first relay reads the initial values itself
            begin = Block()
            with code.within(begin):
                self._put(code, held, loop.iter_args)
            code.append(scf.IfOp(self.is_first, [], Region(begin)))
        lower, upper, step = code.values((loop.lb, loop.ub, loop.step))
        share = step * code.number(trips)
        turn, mine = Block(arg_types=[IndexType()]), Block()
        with code.within(mine):
            low = lower + code.value(turn.args[0]) * share
            high = (low + share).at_most(upper)
            inits = [value.ssa for value in self._taken(code, held, loop)]
            inner = scf.ForOp(low.ssa, high.ssa, step.ssa, inits, loop.detach_region(loop.body))
            inner.attributes[MOST_TRIPS] = IntegerAttr(trips, i64)
            mine.add_op(inner)
            self._put(code, held, inner.results)
        with code.within(turn):
            is_mine = code.value(self.number).equals(code.value(turn.args[0]))
            turn.add_ops([scf.IfOp(is_mine.ssa, [], Region(mine)), wgsl.BarrierOp(storage=True), scf.YieldOp()])
        first, stop, one = (code.number(value).ssa for value in (0, self.plan.relays, 1))
        code.append(scf.ForOp(first, stop, one, [], turn))
        _guard_stores(inner, guard.inside)
        self.read = set(held)
        for old, new in zip(loop.results, self._taken(code, held, loop), strict=True):
            old.replace_all_uses_with(new.ssa)
        Rewriter.erase_op(loop)

    def _held(self, loop: scf.ForOp) -> list[SSAValue]:
        """Returns the arrays that pass on a loop's carried values; loops reuse them."""
        counts, results = dict[wgsl.Memref, int](), list[SSAValue]()
        top = self.kernel.body.block.first_op
        assert top is not None
        for kind in _kinds_held(loop, self.size):
            position, arrays_of_kind = counts.get(kind, 0), self.arrays.setdefault(kind, [])
            if position == len(arrays_of_kind):
                arrays_of_kind.append(_Code(top).add(wgsl.WorkgroupAllocOp(kind)).ssa)
            counts[kind] = position + 1
            results.append(arrays_of_kind[position])
        return results

    def _put(self, code: _Code, held: Sequence[SSAValue], values: Sequence[SSAValue]) -> None:
        """Stores values for the next relay, and terminates the block."""
        for memory, value in zip(held, code.values(values), strict=True):
            stored = value.cast(arith.IndexCastOp, i32) if isinstance(value.type, IndexType) else value
            code.append(memref.StoreOp.get(stored.ssa, memory, [self.place]))
        code.append(scf.YieldOp())

    def _taken(self, code: _Code, held: Sequence[SSAValue], loop: scf.ForOp) -> list[Value]:
        """Returns the values that the previous relay stored."""
        loads = [code.add(memref.LoadOp.get(memory, [self.place])) for memory in held]
        return [
            value.as_index() if isinstance(result.type, IndexType) else value
            for value, result in zip(loads, loop.results, strict=True)
        ]


def _loaded(op: Operation) -> set[SSAValue]:
    """Returns the memory that an op or its nested ops read."""
    return {inner.memref for inner in op.walk() if isinstance(inner, memref.LoadOp)}


def _stored(op: Operation) -> set[SSAValue]:
    """Returns the memory that an op or its nested ops write."""
    return {inner.memref for inner in op.walk() if isinstance(inner, memref.StoreOp)}


def _guard_stores(op: Operation, condition: SSAValue | None) -> None:
    """Guards the stores in an op by a condition, except for those into an invocation's private memory.

    A branch whose only effects are stores is guarded as a whole: its loads would race with the stores.
    """
    if condition is None:
        return
    if isinstance(op, memref.StoreOp) and not _is_own(op):
        block = Block()
        guarded = scf.IfOp(condition, [], Region(block))
        _Code(op).append(guarded)
        op.detach()
        block.add_ops([op, end := scf.YieldOp()])
        end.location = op.location
    elif isinstance(op, scf.IfOp) and _only_stores(op):
        code = _Code(op)
        op.operands[0] = (code.value(op.cond) & code.value(condition)).ssa
    else:
        for region in op.regions:
            for block in region.blocks:
                for inner in list(block.ops):
                    _guard_stores(inner, condition)


def _is_shared(memory: SSAValue) -> bool:
    return isinstance(memory.owner, wgsl.WorkgroupAllocOp)


def _is_own(store: memref.StoreOp) -> bool:
    return isinstance(store.memref.owner, memref.AllocaOp)


def _only_stores(op: scf.IfOp) -> bool:
    """Returns whether the only effects of an `if` without `else` are stores to memory that isn't private."""
    stores = [inner for inner in op.walk() if isinstance(inner, memref.StoreOp)]
    others = op.results or op.false_region.blocks or holds(op, wgsl.BarrierOp)
    return bool(stores) and not others and not any(map(_is_own, stores))
