"""Runs the address computations of a dispatch for all invocations and iterations: the truth that proofs are held to.

It shares nothing with the proofs: numbers are arrays over all invocations, in 32 bits that wrap around.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, TypeAlias, cast

import numpy as np
from xdsl.dialects import arith, memref, scf, vector
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, MemRefType, VectorType
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tensorgrad.dialects import cpu, wgsl
from tensorgrad.dialects.buf import DispatchOp

Array: TypeAlias = np.ndarray
WORD = 1 << 32

NOT_STORED = WORD - 1
"""What a table holds where nothing has been stored: it is within no bounds."""

SUBGROUP = 8
"""The invocations of a subgroup: those of the software adapter."""

ARITHMETIC: dict[type[Operation], Callable[[Array, Array], Array]] = {
    arith.AddiOp: np.add,
    arith.SubiOp: np.subtract,
    arith.MuliOp: np.multiply,
    arith.DivUIOp: lambda x, y: x // np.maximum(y, 1),
    arith.RemUIOp: lambda x, y: x % np.maximum(y, 1),
    arith.MinUIOp: np.minimum,
    arith.MaxUIOp: np.maximum,
}
LOGIC: dict[type[Operation], Callable[[Array, Array], Array]] = {
    arith.AndIOp: np.logical_and,
    arith.OrIOp: np.logical_or,
    arith.XOrIOp: np.logical_xor,
}
COMPARISONS: dict[int, Callable[[Array, Array], Array]] = {
    0: np.equal,
    1: np.not_equal,
    6: np.less,
    7: np.less_equal,
    8: np.greater,
    9: np.greater_equal,
}


class Faults:
    """What is wrong with a kernel in a dispatch, found by going through all of its invocations.

    Attributes:
        found: The properties that don't hold: `bounds`, `races`, `barriers` or `results`.
    """

    def __init__(self, kernel: wgsl.KernelOp | cpu.KernelOp, dispatch: DispatchOp):
        self.found: set[str] = set()
        self._kernel = kernel
        groups = dispatch.groups
        self._values: dict[SSAValue, Array | None] = {}
        size = (1, 1, 1)
        if isinstance(kernel, wgsl.KernelOp):
            x, y, z = kernel.workgroup_size.get_values()
            size = (x, y, z)
        count, members = math.prod(groups), math.prod(size)
        lanes = np.arange(count * members)
        self._member, self._group = lanes % members, lanes // members
        self._lanes, self._groups = lanes, count
        self._local = _split(self._member, size)
        self._place = _split(self._group, groups)
        self._size, self._counts = size, groups
        self._phase = np.zeros(count, np.int64)
        self._accesses: dict[SSAValue, list[tuple[Array, Array, Array, bool]]] = {}
        self._tables: dict[SSAValue, Array] = {}
        if isinstance(kernel, cpu.KernelOp):
            first, last = kernel.body.block.args[-2:]
            self._values[first], self._values[last] = lanes, lanes + 1
        self._block(kernel.body.block, np.ones(len(lanes), np.bool_))
        self._judge()

    # Judging

    def _judge(self) -> None:
        for buffer, accesses in self._accesses.items():
            places = np.concatenate([place for place, _, _, _ in accesses])
            lanes = np.concatenate([lane for _, lane, _, _ in accesses])
            phases = np.concatenate([phase for _, _, phase, _ in accesses])
            writes = np.concatenate([np.full(len(place), store) for place, _, _, store in accesses])
            stored = isinstance(buffer, BlockArgument)
            if not stored and isinstance(buffer.owner, memref.AllocaOp):
                continue
            groups = lanes // len(self._member[self._group == 0])
            keys = places if stored else (places * self._groups + groups) * (int(self._phase.max()) + 1) + phases
            order = np.lexsort((lanes, keys))
            keys, sorted_lanes, sorted_writes = keys[order], lanes[order], writes[order]
            starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]]) if len(keys) else np.array([], int)
            if len(starts):
                several = np.maximum.reduceat(sorted_lanes, starts) != np.minimum.reduceat(sorted_lanes, starts)
                if (several & np.logical_or.reduceat(sorted_writes, starts)).any():
                    self.found.add("races")
            if stored and writes.any():
                size = cast("MemRefType[Any]", buffer.type).element_count()
                if set(places[writes].tolist()) != set(range(size)):
                    self.found.add("results")

    # Execution

    def _block(self, block: Block, active: Array) -> list[Array | None]:
        for op in block.ops:
            if isinstance(op, scf.YieldOp):
                return [self._values.get(operand) for operand in op.operands]
            if isinstance(op, wgsl.ReturnIfOp):
                active = active & ~self._known(op.condition)
            else:
                self._op(op, active)
        return []

    def _known(self, value: SSAValue) -> Array:
        known = self._values.get(value)
        assert known is not None, f"{value} depends on data: choose another kernel"
        return known

    def _op(self, op: Operation, active: Array) -> None:
        match op:
            case scf.IfOp():
                self._if(op, active)
            case scf.ForOp():
                self._for(op, active)
            case wgsl.BarrierOp():
                self._barrier(active)
            case memref.LoadOp() | memref.StoreOp() | vector.LoadOp() | vector.StoreOp() | cpu.LoadLanesOp():
                self._access(op, active)
            case _:
                for result in op.results:
                    self._values[result] = self._result(op)

    def _result(self, op: Operation) -> Array | None:
        match op:
            case wgsl.LocalIdOp(dim=dim):
                return self._local[dim.value.data]
            case wgsl.WorkgroupIdOp(dim=dim):
                return self._place[dim.value.data]
            case wgsl.GlobalIdOp(dim=dim):
                axis = dim.value.data
                return self._place[axis] * self._size[axis] + self._local[axis]
            case wgsl.LocalIndexOp():
                return self._member
            case wgsl.SubgroupLaneOp():
                return self._member % SUBGROUP
            case arith.ConstantOp() if isinstance(op.value, IntegerAttr):
                number = op.value.value.data
                return np.full(len(self._lanes), bool(number) if op.result.type == IntegerType(1) else number % WORD)
            case _:
                pass
        operands = [self._values.get(operand) for operand in op.operands]
        if any(operand is None for operand in operands):
            return None
        known = cast("list[Array]", operands)
        if isinstance(op, arith.IndexCastOp):
            return known[0]
        if isinstance(op, arith.CmpiOp):
            return COMPARISONS[op.predicate.value.data](*known)
        if isinstance(op, arith.SelectOp):
            return np.where(*known)
        if type(op) in ARITHMETIC and op.results[0].type == IndexType():
            return ARITHMETIC[type(op)](*known) % WORD
        return LOGIC[type(op)](*known) if type(op) in LOGIC and op.results[0].type == IntegerType(1) else None

    def _if(self, op: scf.IfOp, active: Array) -> None:
        condition = self._known(op.cond)
        then = self._block(op.true_region.block, active & condition)
        other = self._block(op.false_region.block, active & ~condition) if op.false_region.blocks else []
        for result, first, second in itertools.zip_longest(op.results, then, other):
            if result is not None:
                self._values[result] = _merged(condition, first, second)

    def _for(self, op: scf.ForOp, active: Array) -> None:
        low, high, step = map(self._known, (op.lb, op.ub, op.step))
        trips = np.where(active & (high > low), -(-(high - low) // np.maximum(step, 1)), 0)
        counter, *carried = op.body.block.args
        values = [self._values.get(argument) for argument in op.iter_args]
        for number in range(int(trips.max(initial=0))):
            runs = trips > number
            self._values[counter] = low + number * step
            self._values.update(zip(carried, values, strict=True))
            after = self._block(op.body.block, runs)
            values = [_merged(runs, new, old) for new, old in zip(after, values, strict=True)]
        self._values.update(zip(op.results, values, strict=True))

    def _barrier(self, active: Array) -> None:
        reached = np.bincount(self._group, active, self._groups)
        members = np.bincount(self._group, minlength=self._groups)
        if ((reached > 0) & (reached < members)).any():
            self.found.add("barriers")
        self._phase = self._phase + (reached > 0)

    def _access(self, op: Operation, active: Array) -> None:
        store = isinstance(op, memref.StoreOp | vector.StoreOp)
        value = op.operands[0] if store else op.results[0]
        buffer, index = (op.operands[1], op.operands[2]) if store else (op.operands[0], op.operands[1])
        vectors = isinstance(op, vector.LoadOp | vector.StoreOp)
        width = cast("VectorType[Any]", value.type).element_count() if vectors else 1
        if isinstance(op, cpu.LoadLanesOp):
            width = len(op.lanes)
        if not store:
            self._values[op.results[0]] = None
        size = cast("MemRefType[Any]", buffer.type).element_count()
        if isinstance(buffer.owner, memref.AllocaOp) and isinstance(value.type, IntegerType):
            self._look_up(op, active, self._tables.setdefault(buffer, np.full((len(self._lanes), size), NOT_STORED)))
        lanes = self._lanes[active]
        for offset in range(width):
            places = self._known(index)[active] + offset
            inside = (places >= 0) & (places < size)
            if not inside.all():
                self.found.add("bounds")
            phases = self._phase[self._group[active]]
            recorded = places[inside], lanes[inside], phases[inside], store
            self._accesses.setdefault(buffer, []).append(recorded)

    def _look_up(self, op: Operation, active: Array, table: Array) -> None:
        """Reads or writes a table, of which each task has its own."""
        place = self._known(op.operands[-1])
        lanes = self._lanes[active & (place >= 0) & (place < table.shape[1])]
        if isinstance(op, memref.StoreOp):
            table[lanes, place[lanes]] = self._known(op.value)[lanes]
            return
        read = np.full(len(self._lanes), NOT_STORED)
        read[lanes] = table[lanes, place[lanes]]
        below = op.attributes.get(cpu.BELOW)
        if isinstance(below, IntegerAttr) and (read[active] >= below.value.data).any():
            self.found.add("bounds")
        self._values[op.results[0]] = read


def _merged(condition: Array, first: Array | None, second: Array | None) -> Array | None:
    return None if first is None or second is None else np.where(condition, first, second)


def _split(number: Array, extents: tuple[int, int, int]) -> list[Array]:
    x, y, _ = extents
    return [number % x, number // x % y, number // (x * y)]
