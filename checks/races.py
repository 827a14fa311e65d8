"""Finds data races in `wgsl` kernels: a write and an access by another invocation, without a barrier between them.

All invocations of a workgroup are interpreted at once, but only the integer ops that compute addresses and conditions;
floats are skipped. Software adapters run invocations in an order that hides a missing barrier, so tests on them don't
detect it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias, cast

import numpy as np
from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
)
from xdsl.ir import Block, Operation, SSAValue

from tensorgrad.dialects import wgsl
from tensorgrad.dialects.buf import ArenaOp, DispatchOp
from tensorgrad.dialects.buf_control import view_of
from tensorgrad.dialects.locations import line_in
from tensorgrad.dialects.signature import Role, read_slot
from tensorgrad.dialects.tg.base import dense_to_numpy
from tensorgrad.interpreters.scalars import RULES, Array, evaluate, narrow
from tensorgrad.runtime.errors import NumericsError

Value: TypeAlias = "Array | None"
"""An integer for each invocation; `None` if unknown."""

Contents: TypeAlias = Mapping[int, Array]
"""The known contents of a dispatch's bindings, such as the offsets of its buffers, by binding number."""

SUBGROUP = 32
"""The subgroup size that is assumed where addresses depend on it."""

WORKGROUPS = 2
"""The number of workgroups along each axis that is assumed where addresses depend on it."""

LEADING = 3
"""The number of leading iterations of a loop that are interpreted, besides the last one."""

ITERATION = 1
"""The iteration index of the loops around a dispatch that is assumed where addresses depend on it."""

NOBODY, SEVERAL = -1, -2
"""Markers in place of an invocation: no invocation, or several, have accessed an element since the last barrier."""


class _Memory:
    """Tracks which invocation has written and read each element of a memory since the last barrier."""

    def __init__(self, size: int = 0):
        self.writers = np.full(size, NOBODY, np.int16)
        self.readers = np.full(size, NOBODY, np.int16)
        self._used: list[Array] = []

    def clear(self) -> None:
        """Forgets all accesses, as a barrier orders them before later ones."""
        for places in self._used:
            self.writers[places] = NOBODY
            self.readers[places] = NOBODY
        self._used.clear()

    def read(self, addresses: Array, lanes: Array) -> bool:
        """Records reads; returns whether one races with another invocation's write."""
        meets = _others(self.writers[addresses], lanes)
        self._used.append(_note(self.readers, addresses, lanes))
        return meets

    def write(self, addresses: Array, lanes: Array) -> bool:
        """Records writes; returns whether one races with another invocation's access."""
        meets = _others(self.writers[addresses], lanes) or _others(self.readers[addresses], lanes)
        self._used.append(_note(self.writers, addresses, lanes))
        return meets or bool((self.writers[addresses] == SEVERAL).any())


def _others(users: Array, lanes: Array) -> bool:
    return bool(((users != NOBODY) & (users != lanes)).any())


def _note(users: Array, addresses: Array, lanes: Array) -> Array:
    """Records which invocations access elements; returns the distinct elements."""
    order = np.lexsort((lanes, addresses))
    places, who = addresses[order], lanes[order]
    first = np.flatnonzero(np.r_[True, places[1:] != places[:-1]])
    places = places[first]
    lowest, highest = np.minimum.reduceat(who, first), np.maximum.reduceat(who, first)
    mine = np.where(lowest == highest, lowest, SEVERAL)
    before = users[places]
    users[places] = np.where((before == NOBODY) | (before == mine), mine, SEVERAL)
    return places


class _Workgroup:
    """Interprets the address computations of a kernel for one workgroup.

    Args:
        kernel: The kernel.
        number: The workgroup's index along the first axis.
        contents: The known contents of bindings.
    """

    def __init__(self, kernel: wgsl.KernelOp, number: int, contents: Contents):
        self._kernel = kernel
        self._contents: dict[SSAValue, Array] = {
            kernel.body.block.args[binding]: known for binding, known in contents.items()
        }
        self._place = (number, WORKGROUPS - 1, WORKGROUPS - 1)
        size = tuple(cast("Sequence[int]", kernel.workgroup_size.get_values()))
        index = np.arange(size[0] * size[1] * size[2])
        self._lanes = index
        self._local = (index % size[0], index // size[0] % size[1], index // (size[0] * size[1]))
        self._size = size
        self._values: dict[SSAValue, Value] = {}
        self._shared: dict[SSAValue, _Memory] = {}
        self._storage = {value: _Memory(_size_of(value)) for value in _updated(kernel)}

    def run(self) -> None:
        """Runs the kernel.

        Raises:
            NumericsError: Two invocations race, or not all of them reach a barrier.
        """
        self._block(self._kernel.body.block, np.ones(len(self._lanes), np.bool_))

    def _block(self, block: Block, active: Array) -> list[Value]:
        """Runs a block; returns what it yields."""
        for op in block.ops:
            if isinstance(op, scf.YieldOp):
                return [self._values.get(operand) for operand in op.operands]
            if isinstance(op, wgsl.ReturnIfOp):
                condition = self._values.get(op.condition)
                active = active if condition is None else active & ~condition
            else:
                self._op(op, active)
        return []

    def _op(self, op: Operation, active: Array) -> None:
        special = _SPECIAL.get(type(op))
        if special is not None:
            special(self, op, active)
            return
        operands = [self._values.get(operand) for operand in op.operands]
        known = op.name in RULES and all(map(_is_integer, [*op.operands, *op.results]))
        if known and all(operand is not None for operand in operands):
            results = evaluate(op, [operand for operand in operands if operand is not None])
            self._values.update(
                zip(
                    op.results,
                    (np.broadcast_to(lane_values, self._lanes.shape) for lane_values in results),
                    strict=True,
                )
            )

    # Position in the grid

    def _workgroup_id(self, op: wgsl.WorkgroupIdOp, active: Array) -> None:
        self._give(op, self._place[op.dim.value.data])

    def _workgroups(self, op: Operation, active: Array) -> None:
        self._give(op, WORKGROUPS)

    def _local_id(self, op: wgsl.LocalIdOp, active: Array) -> None:
        self._give(op, self._local[op.dim.value.data])

    def _global_id(self, op: wgsl.GlobalIdOp, active: Array) -> None:
        dim = op.dim.value.data
        self._give(op, self._local[dim] + self._place[dim] * self._size[dim])

    def _local_index(self, op: Operation, active: Array) -> None:
        self._give(op, self._lanes)

    def _subgroup_lane(self, op: Operation, active: Array) -> None:
        self._give(op, self._lanes % SUBGROUP)

    def _subgroup_size(self, op: Operation, active: Array) -> None:
        self._give(op, SUBGROUP)

    def _give(self, op: Operation, value: Array | int) -> None:
        self._values[op.results[0]] = narrow(np.broadcast_to(np.asarray(value), self._lanes.shape), op.results[0].type)

    # Control

    def _if(self, op: scf.IfOp, active: Array) -> None:
        condition = self._values.get(op.cond)
        actives = [active, active] if condition is None else [active & condition, active & ~condition]
        regions = [region for region in (op.true_region, op.false_region) if region.blocks]
        blocks = [self._block(region.block, where) for region, where in zip(regions, actives, strict=False)]
        for number, result in enumerate(op.results):
            then, other = (values[number] for values in blocks)
            self._values[result] = None if condition is None else _chosen(condition, then, other)

    def _for(self, op: scf.ForOp, active: Array) -> None:
        bounds = [self._values.get(value) for value in (op.lb, op.ub, op.step)]
        carried = [self._values.get(value) for value in op.iter_args]
        first, *arguments = op.body.block.args
        if any(bound is None for bound in bounds):
            self._values[first] = None
            self._values.update((argument, None) for argument in arguments)
            self._block(op.body.block, active)
            self._values.update((result, None) for result in op.results)
            return
        low, high, step = (cast(Array, bound) for bound in bounds)
        trips = np.where(active, np.maximum(-(-(high - low) // np.maximum(step, 1)), 0), 0)
        last = int(trips.max(initial=0)) - 1
        history = [carried]
        for number in sorted({*range(min(LEADING, last + 1)), last} - {-1}):
            carried = (
                history[-1]
                if number <= LEADING
                else [_extrapolated(steps, number) for steps in zip(*history, strict=True)]
            )
            runs = active & (trips > number)
            self._values[first] = low + number * step
            self._values.update(zip(arguments, carried, strict=True))
            after = self._block(op.body.block, runs)
            history.append([_chosen(runs, new, old) for new, old in zip(after, carried, strict=True)])
        self._values.update(zip(op.results, history[-1], strict=True))

    # Memory

    def _alloc(self, op: wgsl.WorkgroupAllocOp, active: Array) -> None:
        self._shared[op.memref] = _Memory(_size_of(op.memref))

    def _barrier(self, op: wgsl.BarrierOp, active: Array) -> None:
        if active.any() and not active.all():
            raise NumericsError(f"{self._named(op)} is a barrier that not all invocations reach")
        for memory in self._shared.values():
            memory.clear()
        if op.storage is not None:
            for memory in self._storage.values():
                memory.clear()

    def _load(self, op: memref.LoadOp, active: Array) -> None:
        self._access(op, op.memref, op.indices[0], active, "reads", _Memory.read)
        addresses, known = self._values.get(op.indices[0]), self._contents.get(op.memref)
        if known is not None and addresses is not None:
            self._give(op, known[np.clip(addresses, 0, len(known) - 1)])

    def _store(self, op: memref.StoreOp, active: Array) -> None:
        self._access(op, op.memref, op.indices[0], active, "writes", _Memory.write)

    def _access(
        self,
        op: Operation,
        buffer: SSAValue,
        index: SSAValue,
        active: Array,
        verb: str,
        note: Callable[[_Memory, Array, Array], bool],
    ) -> None:
        is_shared = buffer in self._shared
        memory = self._shared.get(buffer) or self._storage.get(buffer)
        addresses = self._values.get(index)
        if memory is None or not active.any() or (addresses is None and not is_shared):
            return
        lanes = self._lanes[active]
        if addresses is None:  # an unknown address may be any
            addresses = np.tile(np.arange(len(memory.writers)), len(lanes))
            lanes = np.repeat(lanes, len(memory.writers))
        else:
            addresses = addresses[active]
            inside = (addresses >= 0) & (addresses < len(memory.writers))
            addresses, lanes = addresses[inside], lanes[inside]
        if len(lanes) and note(memory, addresses, lanes):
            what = "workgroup memory" if is_shared else "a buffer"
            raise NumericsError(
                f"{self._named(op)} {verb} {what} that another invocation uses, with no barrier in between"
            )

    def _named(self, op: Operation) -> str:
        where = line_in(op.location)
        line = "" if where is None else f", from {where.filename.data}:{where.line.data},"
        return f"kernel {self._kernel.sym_name.data}: {op.name}{line}"


_SPECIAL: dict[type[Operation], Callable[[_Workgroup, object, Array], None]] = cast(
    "dict[type[Operation], Callable[[_Workgroup, object, Array], None]]",
    {
        wgsl.WorkgroupIdOp: _Workgroup._workgroup_id,
        wgsl.NumWorkgroupsOp: _Workgroup._workgroups,
        wgsl.LocalIdOp: _Workgroup._local_id,
        wgsl.GlobalIdOp: _Workgroup._global_id,
        wgsl.LocalIndexOp: _Workgroup._local_index,
        wgsl.SubgroupLaneOp: _Workgroup._subgroup_lane,
        wgsl.SubgroupSizeOp: _Workgroup._subgroup_size,
        wgsl.WorkgroupAllocOp: _Workgroup._alloc,
        wgsl.BarrierOp: _Workgroup._barrier,
        memref.LoadOp: _Workgroup._load,
        memref.StoreOp: _Workgroup._store,
        scf.IfOp: _Workgroup._if,
        scf.ForOp: _Workgroup._for,
    },
)
"""The handlers of ops that are not pure functions of integers."""


def check_races(module: ModuleOp) -> None:
    """Checks that a barrier separates every write of an invocation from accesses by others of its workgroup.

    An address in workgroup memory that is computed from data is treated as any address; in a buffer it is not checked.
    Of each loop, the first iterations and the last one are interpreted. A kernel is interpreted once for each set of
    offsets that its dispatches bind.

    Args:
        module: A module with kernels and the functions that dispatch them; other ops are ignored.

    Raises:
        NumericsError: Two invocations race, or not all of them reach a barrier; names the kernel, the op and its line.
    """
    dispatches = dispatches_of(module)
    for kernel in module.walk():
        if isinstance(kernel, wgsl.KernelOp):
            for contents in dispatches.get(kernel.sym_name.data, [{}]):
                check_kernel(kernel, contents)


def dispatches_of(module: ModuleOp) -> dict[str, list[Contents]]:
    """Returns the distinct binding contents with which each kernel is dispatched, by the kernel's name."""
    contents_by_name: dict[str, dict[bytes, Contents]] = {}
    for op in module.walk():
        if isinstance(op, DispatchOp):
            contents = _contents(op)
            key = b"".join(bytes([binding]) + array.tobytes() for binding, array in contents.items())
            contents_by_name.setdefault(op.kernel.root_reference.data, {})[key] = contents
    return {name: list(by_key.values()) for name, by_key in contents_by_name.items()}


def check_kernel(kernel: wgsl.KernelOp, contents: Contents) -> None:
    """Checks one kernel in one dispatch.

    Args:
        kernel: The kernel.
        contents: The known contents of its bindings.

    Raises:
        NumericsError: As `check_races`.
    """
    if any(isinstance(op, wgsl.WorkgroupAllocOp) for op in kernel.body.block.ops) or _updated(kernel):
        for number in sorted({0, WORKGROUPS - 1, *_thresholds(kernel)}):
            _Workgroup(kernel, number, contents).run()


def _contents(op: DispatchOp) -> Contents:
    """Returns the contents of a dispatch's bindings that are integer constants or hold an iteration index."""
    result: dict[int, Array] = {}
    for binding, value in enumerate(op.bindings):
        view = view_of(value)
        if _is_integer(value):
            constant = read_slot(view.attributes).value
            if constant is not None:
                result[binding] = dense_to_numpy(cast("DenseIntOrFPElementsAttr[IntegerType]", constant)).reshape(-1)
            elif cast(ArenaOp, view.arena.owner).role.data == Role.COUNTER:
                result[binding] = np.full(_size_of(value), ITERATION, np.int32)
    return result


def _thresholds(kernel: wgsl.KernelOp) -> Iterator[int]:
    """Yields the workgroup indices on both sides of each comparison of a workgroup's index with a constant.

    Such comparisons select the kernel in a dispatch that several kernels share.
    """
    for op in kernel.walk():
        if isinstance(op, arith.CmpiOp):
            place, constant = _linear(op.lhs), _linear(op.rhs)
            if place is not None and constant is not None and place[0] > 0 and not constant[0]:
                threshold = -(-(constant[1] - place[1]) // place[0])
                yield from (number for number in (threshold - 1, threshold) if number >= 0)


def _linear(value: SSAValue) -> tuple[int, int] | None:
    """Returns the coefficients (a, b) of a value of the form `a * workgroup_id.x + b`; `None` for other values."""
    op = value.owner
    if isinstance(op, wgsl.WorkgroupIdOp):
        return (1, 0) if op.dim.value.data == 0 else None
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
        return 0, op.value.value.data
    if not isinstance(op, arith.AddiOp | arith.SubiOp | arith.MuliOp):
        return None
    first, second = _linear(op.lhs), _linear(op.rhs)
    if first is None or second is None:
        return None
    if isinstance(op, arith.MuliOp):
        return None if first[0] and second[0] else (first[0] * second[1] + second[0] * first[1], first[1] * second[1])
    sign = 1 if isinstance(op, arith.AddiOp) else -1
    return first[0] + sign * second[0], first[1] + sign * second[1]


def _chosen(condition: Array, then: Value, other: Value) -> Value:
    return None if then is None or other is None else np.where(condition, then, other)


def _extrapolated(history: Sequence[Value], number: int) -> Value:
    """Returns a carried value at a later iteration, if it grew by the same amount in each of the leading ones."""
    known = [value for value in history if value is not None]
    if len(known) < len(history):
        return None
    steps = np.diff(np.stack(known), axis=0)
    return known[0] + number * steps[0] if (steps == steps[0]).all() else None


def _updated(kernel: wgsl.KernelOp) -> set[SSAValue]:
    """Returns the bindings that a kernel both reads and writes."""
    loaded = {op.memref for op in kernel.walk() if isinstance(op, memref.LoadOp)}
    stored = {op.memref for op in kernel.walk() if isinstance(op, memref.StoreOp)}
    return {argument for argument in kernel.body.block.args if argument in loaded & stored}


def _size_of(value: SSAValue) -> int:
    """Returns the number of elements of a memref."""
    assert isinstance(value.type, MemRefType)
    return value.type.element_count()


def _is_integer(value: SSAValue) -> bool:
    """Returns whether a value is an integer, or a memref of integers."""
    kind = value.type.get_element_type() if isinstance(value.type, MemRefType) else value.type
    return isinstance(kind, IntegerType | IndexType)
