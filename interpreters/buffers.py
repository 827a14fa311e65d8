"""Interprets a `buf` function with NumPy, at any stage of the pipeline: an oracle for the passes on buffers.

Undefined contents deliberately read as garbage: storage is initialized with a pattern that is NaN in every float type,
outputs are filled with it when their kernel starts, and so is every range after its last read. Liveness is computed
here, from the IR alone, so a memory plan that assigns one byte to two live buffers shows up as NaN.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
from xdsl.dialects import memref
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.ir import Block, BlockArgument, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineMap, AffineSymExpr

from tensorgrad.dialects import buf
from tensorgrad.dialects.buf_control import BranchOp, ChooseOp
from tensorgrad.dialects.buf_tiles import TiledOp
from tensorgrad.dialects.signature import NAME, Role, Slot, arguments_of, read_slot
from tensorgrad.dialects.tg.base import dense_to_numpy
from tensorgrad.interpreters.control import BoundRun, Decide, Env, Storage, Unrolling, decided
from tensorgrad.interpreters.functions import function_of
from tensorgrad.interpreters.prepared import PreparedKernel, poison
from tensorgrad.interpreters.scalars import Array, scalar_dtype
from tensorgrad.interpreters.stages import read
from tensorgrad.interpreters.tiles import PreparedTiles
from tensorgrad.runtime.conversion import kind_of
from tensorgrad.runtime.errors import ExecutionError, InputError
from tensorgrad.runtime.plan import HOST_DTYPES

INPUTS = (Role.PARAMETER, Role.STATE, Role.INPUT, Role.SCALAR, Role.CONSTANT)
DESTINATIONS = (Role.OUTPUT, Role.GRADIENT, Role.UPDATE)
UPDATED = (Role.PARAMETER, Role.STATE)
KEPT = (Role.PARAMETER, Role.STATE, Role.CONSTANT, *DESTINATIONS)
"""The roles whose buffers outlive the run."""

Packs: TypeAlias = Mapping[Storage, Sequence[Storage]]
"""Packs, which only name a range of adjacent buffers, each with those buffers."""


def packs_of(block: Block) -> Packs:
    """Returns the packs of a block: `buf.pack` ops, and the views that `plan-memory` replaces them with."""
    views = [op for op in block.ops if isinstance(op, buf.ViewOp)]
    plain = [Storage.of(view.result) for view in views if buf.PACKED_VIEW not in view.attributes]
    places = [Storage.of(view.result) for view in views if buf.PACKED_VIEW in view.attributes]
    parts = {row: [place for place in plain if place.overlaps(row)] for row in places}
    packs = [op for op in block.ops if isinstance(op, buf.PackOp)]
    return parts | {Storage.of(op.result): [Storage.of(part) for part in op.parts] for op in packs}


def without_packs(places: Iterable[Storage], packs: Packs) -> list[Storage]:
    """Returns the buffers, with each pack replaced by its parts."""
    return [part for place in places for part in packs.get(place, (place,))]


@dataclass
class _Hygiene:
    """What a step poisons: buffers before it, buffers after it, and dead buffers except bytes shared with live ones."""

    before: list[Storage]
    clashing: list[Storage]
    dead: list[tuple[Storage, list[Storage]]]


def _without_unit_loops(affine: AffineMap, shape: tuple[int, ...], extents: tuple[int, ...]) -> AffineMap:
    """Returns a map with loops and axes of extent 1 replaced by 0, so that equal accesses have equal maps."""
    zero = AffineConstantExpr(0)
    loops = [zero if extent == 1 else AffineDimExpr(loop) for loop, extent in enumerate(extents)]
    symbols = [AffineSymExpr(symbol) for symbol in range(affine.num_symbols)]
    results = tuple(
        zero if extent == 1 else result.replace_dims_and_symbols(loops, symbols)
        for result, extent in zip(affine.results, shape, strict=True)
    )
    return AffineMap(affine.num_dims, affine.num_symbols, results)


def works_in_place(kernel: buf.KernelOp, source: BlockArgument, target: BlockArgument) -> bool:
    """Returns whether `source` and `target` may share bytes: each point reads only what it alone writes afterwards."""
    if source.type != target.type or kernel.single is not None:
        return False
    shape = buf.shape_of(source)
    reads: list[tuple[int, AffineMap]] = []
    write: tuple[int, AffineMap] | None = None
    for position, stage in enumerate(kernel.stages):
        extents, inputs = buf.loop_extents(stage), len(stage.inputs)
        maps = [
            _without_unit_loops(affine, shape, extents) if operand in (source, target) else None
            for operand, affine in zip(stage.operands, buf.maps_of(stage), strict=True)
        ]
        for index, (operand, affine) in enumerate(zip(stage.operands, maps, strict=True)):
            if affine is not None and operand == source:
                reads.append((position, affine))
            elif affine is not None and index >= inputs:
                write = position, affine
        if any(isinstance(op, memref.LoadOp) and op.memref == source for op in stage.body.walk()):
            return False
    if write is None:
        return False
    # Earlier stages have their own loops, but equal maps in them address the same element at each point.
    return all(position <= write[0] and affine.results == write[1].results for position, affine in reads)


def _partly_written(run: BoundRun) -> Iterator[Storage]:
    """Yields the windows of a value that a kernel writes only partly, while other kernels write the rest."""
    op = run.op
    for stage in op.stages if isinstance(op, buf.KernelOp) else ():
        points = math.prod(
            loop
            for loop, kind in zip(buf.loop_extents(stage), buf.iterators_of(stage), strict=True)
            if kind == IteratorType.PARALLEL
        )
        for target in stage.outputs:
            if isinstance(target, BlockArgument):
                place = run.operands[target.index]
                if isinstance(place.value, int) and points < math.prod(place.shape):
                    yield place


class _Liveness:
    """The steps at which each buffer is read and written, and the buffers that share bytes."""

    def __init__(self, runs: list[BoundRun], storage: Iterable[Storage], kept: set[Storage], packs: Packs):
        self.kept, self._packs = kept, packs
        known = dict.fromkeys([*storage, *(place for run in runs for place in without_packs(run.operands, packs))])
        for pack in packs:
            known.pop(pack, None)
        self._by_arena: dict[SSAValue, list[Storage]] = {}
        for value in known:
            self._by_arena.setdefault(value.arena, []).append(value)
        self._ranges = {
            arena: np.array([(value.start, value.end) for value in values]) for arena, values in self._by_arena.items()
        }
        self._related = {value: [other for other in self.sharing(value) if value.is_part(other)] for value in known}
        self._partly_written = {place for run in runs for place in _partly_written(run)}
        self._steps: dict[Storage, list[int]] = {value: [] for value in known}
        self._reads: dict[Storage, list[bool]] = {value: [] for value in known}
        for index, run in enumerate(runs):
            reads = without_packs(run.reads, packs)
            for value in dict.fromkeys(without_packs(run.operands, packs)):
                self._note(value, index, value in reads)
                if value not in reads:
                    for other in self._related[value]:
                        self._note(other, index, False)

    def _note(self, value: Storage, index: int, is_read: bool) -> None:
        self._steps[value].append(index)
        self._reads[value].append(is_read)

    def live_after(self, value: Storage, step: int) -> bool:
        """Returns whether a buffer's contents after a step are read later.

        If a buffer is written in several parts, these writes define one value, which is live from the first of them on.
        """
        steps, reads = self._steps[value], self._reads[value]
        following = bisect_right(steps, step)
        if not self._related[value] and value not in self._partly_written:
            return reads[following] if following < len(reads) else value in self.kept
        read = next((i for i in range(following, len(reads)) if reads[i]), None)
        if read is None:
            return value in self.kept
        start = read
        while start and reads[start - 1]:
            start -= 1
        while start and not reads[start - 1]:
            start -= 1
        return reads[start] or steps[start] <= step

    def sharing(self, value: Storage) -> list[Storage]:
        """Returns the other buffers that overlap this one."""
        ranges, values = self._ranges[value.arena], self._by_arena[value.arena]
        indices = np.flatnonzero((ranges[:, 0] < value.end) & (ranges[:, 1] > value.start))
        return [values[index] for index in indices if values[index] != value]

    def hygiene(self, index: int, run: BoundRun) -> _Hygiene:
        """Returns the buffers that a step poisons, so that reads of undefined contents show up."""
        clashing = [value for value in without_packs(run.writes, self._packs) if self._clashes(value, index)]
        dead = [
            (value, [other for other in self.sharing(value) if self.live_after(other, index)])
            for value in dict.fromkeys(without_packs(run.operands, self._packs))
            if value not in self.kept and not self.live_after(value, index)
        ]
        return _Hygiene(list(self._unreadable(run)), clashing, dead)

    def _clashes(self, value: Storage, index: int) -> bool:
        """Returns whether a written buffer overlaps another live one; parts of one value don't clash."""
        related = self._related[value]
        return any(self.live_after(other, index) for other in self.sharing(value) if other not in related)

    def _unreadable(self, run: BoundRun) -> Iterator[Storage]:
        """Yields the outputs that are overwritten completely, and whose old contents no input may read."""
        reads, op = run.reads, run.op
        for position, value in enumerate(run.writes):
            if value in self._partly_written:
                continue
            sources = [index for index, other in enumerate(reads) if value.overlaps(other)]
            in_place = bool(sources) and isinstance(op, buf.KernelOp | TiledOp)  # tiles show in which order they write
            for index in sources:
                in_place = in_place and value.equals(reads[index])
                if in_place and isinstance(op, buf.KernelOp):
                    arguments = op.input_arguments[index], op.output_arguments[position]
                    in_place = works_in_place(op, *arguments)
            if not in_place:
                yield value


def slots_of(function: FuncOp) -> dict[SSAValue, Slot]:
    """Returns the slots of a function's named buffers: its arguments or, after `plan-memory`, views of its arenas."""
    block = function.body.block
    slots = dict[SSAValue, Slot](zip(block.args, arguments_of(function), strict=True))
    views = (op for op in block.ops if isinstance(op, buf.ViewOp) and NAME in op.attributes)
    return slots | {view.result: read_slot(view.attributes) for view in views}


class BufferExecutor:
    """Runs one `buf` function, whose buffers are its arguments or, after `plan-memory`, views of its arenas.

    Args:
        module: A module that verifies.
        function: The function's name; by default the only public one.
        poisons: Whether undefined contents read as garbage.

    Raises:
        ExecutionError: There is no such function, or it contains an unsupported op; the message names it.
    """

    def __init__(self, module: ModuleOp, function: str | None = None, poisons: bool = True):
        self.function = function_of(module, function)
        self._poisons = poisons
        self._module = module
        self._storage: Env = {}
        self._slots = slots_of(self.function)
        block = self.function.body.block
        for value in (*block.args, *(op.result for op in block.ops if isinstance(op, buf.ViewOp))):
            self._add_buffer(value)
        self._kernels: dict[buf.KernelOp | TiledOp, PreparedKernel | PreparedTiles] = {}
        for op in module.walk():
            if isinstance(op, memref.AllocOp):
                scalar_dtype(buf.element_of(op.memref))
            elif isinstance(op, buf.KernelOp):
                self._kernels[op] = PreparedKernel(op)
            elif isinstance(op, TiledOp):
                self._kernels[op] = PreparedTiles(op)
        self._branches = any(isinstance(op, ChooseOp | BranchOp) for op in module.walk())
        self._packs = packs_of(block)
        self._inputs = self._input_keys()
        self._runs: list[BoundRun] = [] if self._branches else self._unrolled(decided([]))
        self._hygiene = self._hygiene_of(self._runs)
        self._results = self._result_keys()

    def _unrolled(self, decide: Decide) -> list[BoundRun]:
        """Returns the steps in order."""
        runs: list[BoundRun] = []
        Unrolling(self._module, runs.append, decide).run(self.function.body.block, dict(self._storage))
        return runs

    def _hygiene_of(self, runs: list[BoundRun]) -> list[_Hygiene]:
        if not self._poisons:
            return [_Hygiene([], [], [])] * len(runs)
        kept = {self._storage[value] for value, slot in self._slots.items() if slot.role in KEPT}
        liveness = _Liveness(runs, self._storage.values(), kept, self._packs)
        return [liveness.hygiene(index, run) for index, run in enumerate(runs)]

    def _add_buffer(self, value: SSAValue) -> None:
        scalar_dtype(buf.element_of(value))
        self._storage[value] = Storage.of(value)
        slot = self._slots.get(value)
        if slot is not None and slot.role not in INPUTS and slot.role not in DESTINATIONS:
            raise ExecutionError(f"role {slot.role!r} of {slot.name!r} is not supported")

    def _input_keys(self) -> dict[str, SSAValue]:
        """Returns the values that the caller passes, by name, or by "role/name" if two roles share a name."""
        slots = [
            (value, slot)
            for value, slot in self._slots.items()
            if slot.role in INPUTS and not (slot.role == Role.CONSTANT and slot.value is not None)
        ]
        names = [slot.name for _, slot in slots]
        keys = [slot.name if names.count(slot.name) == 1 else f"{slot.role}/{slot.name}" for _, slot in slots]
        if len(set(keys)) != len(keys):
            raise ExecutionError(f"duplicate names of one role: {', '.join(sorted(keys))}")
        return dict(zip(keys, (value for value, _ in slots), strict=True))

    def _result_keys(self) -> dict[str, SSAValue]:
        """Returns the results of `run`: destinations, and the parameters and states that some step writes."""
        written = {place for run in self._possible() for place in without_packs(run.writes, self._packs)}
        results: dict[str, SSAValue] = {}
        for value, slot in self._slots.items():
            place = self._storage[value]
            updated = slot.role in UPDATED and (place in written or any(place.is_part(part) for part in written))
            if updated or slot.role in DESTINATIONS:
                key = f"{Role.UPDATE if updated else slot.role}/{slot.name}"
                if key in results:
                    raise ExecutionError(f"two results have the name {key!r}")
                results[key] = value
        return results

    @property
    def inputs(self) -> Mapping[str, tuple[Slot, tuple[int, ...], np.dtype[Any]]]:
        """The values that `run` takes: the slot, shape and dtype of each."""
        results: dict[str, tuple[Slot, tuple[int, ...], np.dtype[Any]]] = {}
        for key, value in self._inputs.items():
            slot, place = self._slots[value], self._storage[value]
            dtype = scalar_dtype(place.element) if slot.dtype is None else np.dtype(HOST_DTYPES[slot.dtype])
            results[key] = slot, buf.shape_of(value), dtype
        return results

    def run(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """Runs the function once, on fresh storage.

        Args:
            values: Parameters, states, inputs and scalars by name ("role/name" if roles share a name), of the buffers'
                shapes and of matching dtypes; unsigned integers may be passed for signless ones.

        Returns:
            Copies of the results by "output/name", "gradient/name" and "update/name", in the dtypes of their slots.

        Raises:
            InputError: A value is unknown, missing, or of the wrong shape or dtype.
            ExecutionError: A kernel accesses a buffer out of bounds, or several points write one element.
        """
        if self._branches:
            answers: list[bool] = []
            self._run_once(values, answers)
            runs = self._unrolled(decided(answers))
            memory = self._run(values, runs, self._hygiene_of(runs))
        else:
            memory = self._run(values, self._runs, self._hygiene)
        return {key: self._read(memory, value) for key, value in self._results.items()}

    def _read(self, memory: _Memory, value: SSAValue) -> Array:
        """Returns a copy of a buffer, converted to the dtype of its slot if it stores another one."""
        place, slot = self._storage[value], self._slots.get(value)
        array = read(memory.array(place), place.element)
        named = None if slot is None else slot.dtype
        return array.astype(array.dtype if named is None else HOST_DTYPES[named])

    def bytes_moved(self) -> int:
        """Returns the bytes that kernels read and write in one run, each operand once; of a branch, the true side's."""
        return sum(place.end - place.start for run in self._possible() for place in dict.fromkeys(run.operands))

    def peak_bytes(self) -> int:
        """Returns the peak live bytes without a memory plan; arguments live throughout, others until their last use."""
        always = sum(place.end - place.start for value, place in self._storage.items() if value in self._slots)
        named = {self._storage[value].arena for value in self._slots}
        change = dict[int, int]()
        sizes, uses = dict[SSAValue, int](), dict[SSAValue, list[int]]()
        for step, run in enumerate(self._possible()):
            for place in run.operands:
                if place.arena not in named:
                    sizes[place.arena] = buf.buffer_bytes(cast(buf.Buffer, place.arena.type))
                    uses.setdefault(place.arena, []).append(step)
        for arena, steps in uses.items():
            change[steps[0]] = change.get(steps[0], 0) + sizes[arena]
            change[steps[-1] + 1] = change.get(steps[-1] + 1, 0) - sizes[arena]
        live = most = always
        for step in sorted(change):
            live += change[step]
            most = max(most, live)
        return most

    def _possible(self) -> list[BoundRun]:
        """Returns the steps with the true side of each branch; both sides write the same buffers."""
        return self._unrolled(lambda _: True) if self._branches else self._runs

    def _run(self, values: Mapping[str, Array], runs: list[BoundRun], hygiene: list[_Hygiene]) -> _Memory:
        memory = self._filled(values)
        with np.errstate(all="ignore"):
            for run, kernel_hygiene in zip(runs, hygiene, strict=True):
                self._step(run, kernel_hygiene, memory)
        return memory

    def _run_once(self, values: Mapping[str, Array], answers: list[bool]) -> None:
        """Runs the function to record the branches that it takes."""
        memory, nothing = self._filled(values), _Hygiene([], [], [])

        def decide(place: Storage) -> bool:
            answers.append(bool(memory.array(place).reshape(-1)[0]))
            return answers[-1]

        with np.errstate(all="ignore"):
            unrolling = Unrolling(self._module, lambda run: self._step(run, nothing, memory), decide)
            unrolling.run(self.function.body.block, dict(self._storage))

    def _filled(self, values: Mapping[str, Array]) -> _Memory:
        """Returns fresh memory with the caller's values and the constants."""
        memory = _Memory(self._packs)
        for key, array in self._checked(values).items():
            memory.array(self._storage[self._inputs[key]])[...] = array
        for value, slot in self._slots.items():
            if slot.role == Role.CONSTANT and slot.value is not None:
                constant = dense_to_numpy(cast("DenseIntOrFPElementsAttr[Any]", slot.value))
                memory.array(self._storage[value])[...] = _stored(constant, self._storage[value], slot.name)
        return memory

    def _checked(self, values: Mapping[str, Array]) -> dict[str, Array]:
        unknown, missing = sorted(set(values) - set(self._inputs)), sorted(set(self._inputs) - set(values))
        if unknown or missing:
            raise InputError(
                f"unknown values: {', '.join(unknown) or 'none'}; missing values: {', '.join(missing) or 'none'}"
            )
        return {key: _stored(np.asarray(array), self._storage[self._inputs[key]], key) for key, array in values.items()}

    def _step(self, run: BoundRun, hygiene: _Hygiene, memory: _Memory) -> None:
        for value in hygiene.before:
            poison(memory.bytes(value))
        op = run.op
        if isinstance(op, memref.CopyOp):
            memory.array(run.operands[1])[...] = memory.array(run.operands[0])
        else:
            self._kernels[op].run([memory.array(place) for place in run.operands])
        for value in hygiene.clashing:
            poison(memory.bytes(value))
        for value, sharing in hygiene.dead:
            memory.release(value, sharing)


class _Memory:
    """The bytes of every arena, poisoned on first access, except for the zero padding between the parts of a row."""

    def __init__(self, packs: Packs | None = None) -> None:
        self._packs = packs or {}
        self._arenas: dict[SSAValue, Array] = {}

    def bytes(self, place: Storage) -> Array:
        """Returns the bytes of a buffer."""
        arena = self._arenas.get(place.arena)
        if arena is None:
            arena = np.empty(buf.buffer_bytes(cast(buf.Buffer, place.arena.type)), np.uint8)
            poison(arena)
            for pack, parts in self._packs.items():
                if pack.arena == place.arena:
                    held = np.zeros(arena.shape, np.bool_)
                    for part in parts:
                        held[part.start : part.end] = True
                    arena[pack.start : pack.end][~held[pack.start : pack.end]] = 0
            self._arenas[place.arena] = arena
        return arena[place.start : place.end]

    def array(self, place: Storage) -> Array:
        """Returns a buffer's elements, as a view of its bytes."""
        return self.bytes(place).view(place.dtype).reshape(place.shape)

    def release(self, place: Storage, sharing: Iterable[Storage]) -> None:
        """Poisons a dead buffer, except for the bytes that it shares with live ones."""
        dead = np.ones(place.end - place.start, np.bool_)
        for live in sharing:
            dead[max(live.start - place.start, 0) : max(live.end - place.start, 0)] = False
        garbage = np.empty(dead.shape, np.uint8)
        poison(garbage)
        np.copyto(self.bytes(place), garbage, where=dead)


def _stored(array: Array, place: Storage, name: str) -> Array:
    """Returns a caller's array in its stored dtype.

    Raises:
        InputError: Its shape or dtype is wrong; names it.
    """
    if array.shape != place.shape:
        raise InputError(f"{name!r} has shape {list(array.shape)}, not {list(place.shape)}")
    kinds = {"b": "b", "f": "f", "i": "iu", "u": "iu"}
    dtype = scalar_dtype(place.element)
    if kind_of(array.dtype) not in kinds[kind_of(dtype)]:
        raise InputError(f"{name!r} has dtype {array.dtype}, not {dtype}")
    return array.astype(place.dtype)
