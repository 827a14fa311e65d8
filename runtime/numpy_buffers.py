"""Runs a `buf` function by numpy, at any stage of the pipeline: an oracle for the passes on buffers.

What is not defined reads as garbage, on purpose: storage starts as a pattern that is NaN in every float type, outputs
hold it again when their kernel starts, and so does every range whose last reader has run. Which buffer is live when is
worked out here, from the IR alone: a memory plan that gives one byte to two live buffers shows as NaN.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
from xdsl.dialects import func, memref
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp, i1
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineMap, AffineSymExpr

from tensorgrad.dialects import buf
from tensorgrad.dialects.signature import NAME, Slot, arguments_of, read_slot
from tensorgrad.dialects.tg.base import dense_to_numpy
from tensorgrad.runtime.errors import InputError
from tensorgrad.runtime.numpy_scalars import Array, ExecutionError, scalar_dtype
from tensorgrad.runtime.numpy_stages import Stage, read

INPUTS = ("parameter", "state", "input", "scalar", "constant")
DESTINATIONS = ("output", "gradient", "update")
UPDATED = ("parameter", "state")
KEPT = ("parameter", "state", "constant", *DESTINATIONS)
"""Roles whose buffers outlive the run."""

POISON = np.uint32(0x7FFE7FFD)
"""NaN as f16, f32 and f64 alike, a large integer, and true."""

Step: TypeAlias = "buf.KernelOp | memref.CopyOp"


def poison(target: Array) -> None:
    """Fills bytes with the pattern."""
    whole = target.size // 4 * 4
    target[:whole].view(np.uint32)[...] = POISON
    target[whole:] = np.frombuffer(POISON.tobytes(), np.uint8)[: target.size - whole]


@dataclass(frozen=True)
class _Storage:
    """Where a buffer lies: bytes `[start, end)` of an arena; an allocation or an argument is an arena of its own."""

    arena: SSAValue
    start: int
    end: int
    shape: tuple[int, ...]
    element: Attribute

    @classmethod
    def of(cls, value: SSAValue) -> _Storage:
        shape, element = buf.shape_of(value), buf.element_of(value)
        size = buf.buffer_bytes(cast(buf.Buffer, value.type))
        owner = value.owner
        if isinstance(owner, buf.ViewOp):
            return cls(owner.arena, owner.start, owner.start + size, shape, element)
        return cls(value, 0, size, shape, element)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The stored dtype: an `i1` is a word."""
        return np.dtype(np.uint32) if self.element == i1 else scalar_dtype(self.element)

    def overlaps(self, other: _Storage) -> bool:
        """Whether the two share a byte."""
        return self.arena == other.arena and max(self.start, other.start) < min(self.end, other.end)


@dataclass
class _Hygiene:
    """What a step poisons: buffers before it, buffers after it, and dead buffers but for the live ones they share."""

    before: list[SSAValue]
    clashing: list[SSAValue]
    dead: list[tuple[SSAValue, list[SSAValue]]]


def _operands(op: Step) -> tuple[list[SSAValue], list[SSAValue]]:
    """The buffers that a step reads and those that it writes."""
    if isinstance(op, buf.KernelOp):
        return list(op.inputs), list(op.outputs)
    return [op.source], [op.destination]


def _without_unit_loops(affine: AffineMap, shape: tuple[int, ...], extents: tuple[int, ...]) -> AffineMap:
    """A map with the loops and the axes of extent 1 set to 0, so that equal accesses have equal maps."""
    zero = AffineConstantExpr(0)
    loops = [zero if extent == 1 else AffineDimExpr(loop) for loop, extent in enumerate(extents)]
    symbols = [AffineSymExpr(symbol) for symbol in range(affine.num_symbols)]
    results = tuple(
        zero if extent == 1 else result.replace_dims_and_symbols(loops, symbols)
        for result, extent in zip(affine.results, shape, strict=True)
    )
    return AffineMap(affine.num_dims, affine.num_symbols, results)


def works_in_place(kernel: buf.KernelOp, source: BlockArgument, target: BlockArgument) -> bool:
    """Whether `source` and `target` may be the same bytes: each point reads only what it alone writes, and before."""
    if source.type != target.type:
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
    return all(position <= write[0] and affine == write[1] for position, affine in reads)


class _Liveness:
    """When each buffer is read and written, and which buffers share bytes."""

    def __init__(self, steps: list[Step], storage: Mapping[SSAValue, _Storage], kept: set[SSAValue]):
        self.storage, self.kept = storage, kept
        self._steps: dict[SSAValue, list[int]] = {value: [] for value in storage}
        self._reads: dict[SSAValue, list[bool]] = {value: [] for value in storage}
        for index, op in enumerate(steps):
            reads, writes = _operands(op)
            for value in dict.fromkeys((*reads, *writes)):
                self._steps[value].append(index)
                self._reads[value].append(value in reads)
        self._by_arena: dict[SSAValue, list[SSAValue]] = {}
        for value, place in storage.items():
            self._by_arena.setdefault(place.arena, []).append(value)
        self._ranges = {
            arena: np.array([(storage[value].start, storage[value].end) for value in values])
            for arena, values in self._by_arena.items()
        }

    def live_after(self, value: SSAValue, step: int) -> bool:
        """Whether what a buffer holds after a step is looked at later."""
        following = bisect_right(self._steps[value], step)
        reads = self._reads[value]
        return reads[following] if following < len(reads) else value in self.kept

    def sharing(self, value: SSAValue) -> list[SSAValue]:
        """The other buffers that share a byte with this one."""
        place = self.storage[value]
        ranges, values = self._ranges[place.arena], self._by_arena[place.arena]
        found = np.flatnonzero((ranges[:, 0] < place.end) & (ranges[:, 1] > place.start))
        return [values[index] for index in found if values[index] != value]

    def hygiene(self, index: int, op: Step) -> _Hygiene:
        """What a step has to poison so that nobody reads what isn't defined."""
        reads, writes = _operands(op)
        clashing = [value for value in writes if any(self.live_after(other, index) for other in self.sharing(value))]
        dead = [
            (value, [other for other in self.sharing(value) if self.live_after(other, index)])
            for value in dict.fromkeys((*reads, *writes))
            if value not in self.kept and not self.live_after(value, index)
        ]
        return _Hygiene(list(self._unreadable(op, reads, writes)), clashing, dead)

    def _unreadable(self, op: Step, reads: list[SSAValue], writes: list[SSAValue]) -> Iterator[SSAValue]:
        """The outputs whose old contents no input may see."""
        for position, value in enumerate(writes):
            place = self.storage[value]
            sources = [index for index, other in enumerate(reads) if place.overlaps(self.storage[other])]
            in_place = bool(sources) and isinstance(op, buf.KernelOp)
            for index in sources:
                in_place = in_place and place == self.storage[reads[index]]
                if in_place and isinstance(op, buf.KernelOp):
                    arguments = op.input_arguments[index], op.output_arguments[position]
                    in_place = works_in_place(op, *arguments)
            if not in_place:
                yield value


def _find_function(module: ModuleOp, name: str | None) -> FuncOp:
    functions = [op for op in module.walk() if isinstance(op, FuncOp) and op.body.blocks]
    found = [op for op in functions if name is None or op.sym_name.data == name]
    if len(found) != 1 or len(found[0].body.blocks) != 1:
        wanted = "one function" if name is None else f"one function @{name}"
        names = ", ".join(op.sym_name.data for op in functions) or "none"
        raise ExecutionError(f"expected {wanted} of one block, the module has {names}")
    return found[0]


class BufferExecutor:
    """Runs one `buf` function: its arguments are buffers, or (after `plan-memory`) its views of arenas are.

    Args:
        module: A module that verifies.
        function: Which function; the only one if `None`.

    Raises:
        ExecutionError: There is no such function, or it holds an op that is not supported; the message names it.
    """

    def __init__(self, module: ModuleOp, function: str | None = None):
        self.function = _find_function(module, function)
        self._storage: dict[SSAValue, _Storage] = {}
        self._steps: list[Step] = []
        self._slots: dict[SSAValue, Slot] = {}
        block = self.function.body.block
        for argument, slot in zip(block.args, arguments_of(self.function), strict=True):
            self._add_buffer(argument, slot)
        for op in block.ops:
            self._add(op)
        self._inputs = self._input_keys()
        self._results = self._result_keys()
        kept = {value for value, slot in self._slots.items() if slot.role in KEPT}
        liveness = _Liveness(self._steps, self._storage, kept)
        self._hygiene = [liveness.hygiene(index, op) for index, op in enumerate(self._steps)]
        self._stages = {op: [Stage(stage) for stage in op.stages] for op in self._steps if isinstance(op, buf.KernelOp)}

    def _add_buffer(self, value: SSAValue, slot: Slot | None) -> None:
        scalar_dtype(buf.element_of(value))
        self._storage[value] = _Storage.of(value)
        if slot is None:
            return
        if slot.role not in INPUTS and slot.role not in DESTINATIONS:
            raise ExecutionError(f"role {slot.role!r} of {slot.name!r} is not supported")
        self._slots[value] = slot

    def _add(self, op: Operation) -> None:
        if isinstance(op, buf.KernelOp | memref.CopyOp):
            self._steps.append(op)
        elif isinstance(op, memref.AllocOp):
            self._add_buffer(op.memref, None)
        elif isinstance(op, buf.ViewOp):
            named = NAME in op.attributes
            self._add_buffer(op.result, read_slot(op.attributes, "", "") if named else None)
        elif isinstance(op, func.ReturnOp) and op.operands:
            raise ExecutionError("func.return: a function of buffers returns nothing")
        elif not isinstance(op, buf.ArenaOp | memref.DeallocOp | func.ReturnOp):
            raise ExecutionError(f"{op.name} is not supported in a function of buffers")

    def _input_keys(self) -> dict[str, SSAValue]:
        """What the caller passes, by name, or by "role/name" where two roles share a name."""
        slots = [
            (value, slot)
            for value, slot in self._slots.items()
            if slot.role in INPUTS and not (slot.role == "constant" and slot.value is not None)
        ]
        names = [slot.name for _, slot in slots]
        keys = [slot.name if names.count(slot.name) == 1 else f"{slot.role}/{slot.name}" for _, slot in slots]
        if len(set(keys)) != len(keys):
            raise ExecutionError(f"names of one role repeat: {', '.join(sorted(keys))}")
        return dict(zip(keys, (value for value, _ in slots), strict=True))

    def _result_keys(self) -> dict[str, SSAValue]:
        """What `run` returns: destinations, and the parameters and states that some step writes."""
        written = {value for op in self._steps for value in _operands(op)[1]}
        found: dict[str, SSAValue] = {}
        for value, slot in self._slots.items():
            updated = slot.role in UPDATED and value in written
            if updated or slot.role in DESTINATIONS:
                key = f"{'update' if updated else slot.role}/{slot.name}"
                if key in found:
                    raise ExecutionError(f"two results are called {key!r}")
                found[key] = value
        return found

    def run(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """Runs the function once, on fresh storage.

        Args:
            values: Parameters, states, inputs and scalars by name ("role/name" where roles share a name), of the
                buffers' shapes and of matching dtypes; unsigned integers may stand for signless ones.

        Returns:
            Copies of the results by "output/name", "gradient/name" and "update/name".

        Raises:
            InputError: A value is unknown, missing, or of the wrong shape or dtype.
            ExecutionError: A kernel leaves a buffer's range, or several points write one element.
        """
        memory = _Memory(self._storage)
        for key, array in self._checked(values).items():
            memory.array(self._inputs[key])[...] = array
        for value, slot in self._slots.items():
            if slot.role == "constant" and slot.value is not None:
                constant = dense_to_numpy(cast("DenseIntOrFPElementsAttr[Any]", slot.value))
                memory.array(value)[...] = _stored(constant, self._storage[value], slot.name)
        with np.errstate(all="ignore"):
            for op, hygiene in zip(self._steps, self._hygiene, strict=True):
                self._step(op, hygiene, memory)
        return {
            key: read(memory.array(value), self._storage[value].element).copy() for key, value in self._results.items()
        }

    def _checked(self, values: Mapping[str, Array]) -> dict[str, Array]:
        unknown, missing = sorted(set(values) - set(self._inputs)), sorted(set(self._inputs) - set(values))
        if unknown or missing:
            raise InputError(
                f"unknown values: {', '.join(unknown) or 'none'}; missing values: {', '.join(missing) or 'none'}"
            )
        return {key: _stored(np.asarray(array), self._storage[self._inputs[key]], key) for key, array in values.items()}

    def _step(self, op: Step, hygiene: _Hygiene, memory: _Memory) -> None:
        for value in hygiene.before:
            poison(memory.bytes(value))
        if isinstance(op, memref.CopyOp):
            memory.array(op.destination)[...] = memory.array(op.source)
        else:
            arguments: Iterable[SSAValue] = op.body.block.args
            arrays: dict[SSAValue, Array] = dict(zip(arguments, map(memory.array, op.operands), strict=True))
            local: list[SSAValue] = [x.memref for x in op.locals if not buf.is_shape_only(x.memref)]
            registers = _Memory({value: _Storage.of(value) for value in local})
            arrays.update((value, registers.array(value)) for value in local)
            for stage in self._stages[op]:
                stage.run(arrays)
        for value in hygiene.clashing:
            poison(memory.bytes(value))
        for value, sharing in hygiene.dead:
            memory.release(value, sharing)


class _Memory:
    """The bytes of every arena, poisoned when first touched."""

    def __init__(self, storage: Mapping[SSAValue, _Storage]):
        self._storage = storage
        self._arenas: dict[SSAValue, Array] = {}

    def bytes(self, value: SSAValue) -> Array:
        """The bytes of a buffer."""
        place = self._storage[value]
        arena = self._arenas.get(place.arena)
        if arena is None:
            arena = np.empty(buf.buffer_bytes(cast(buf.Buffer, place.arena.type)), np.uint8)
            poison(arena)
            self._arenas[place.arena] = arena
        return arena[place.start : place.end]

    def array(self, value: SSAValue) -> Array:
        """A buffer's elements, as a view of its bytes."""
        place = self._storage[value]
        return self.bytes(value).view(place.dtype).reshape(place.shape)

    def release(self, value: SSAValue, sharing: Iterable[SSAValue]) -> None:
        """Poisons a dead buffer, but for the bytes that it shares with live ones."""
        place = self._storage[value]
        if place.arena == value:
            self._arenas.pop(value, None)
            return
        dead = np.ones(place.end - place.start, np.bool_)
        for other in sharing:
            live = self._storage[other]
            dead[max(live.start - place.start, 0) : max(live.end - place.start, 0)] = False
        garbage = np.empty(dead.shape, np.uint8)
        poison(garbage)
        np.copyto(self.bytes(value), garbage, where=dead)


def _stored(array: Array, place: _Storage, name: str) -> Array:
    """A caller's array as it is stored, or an error that names it."""
    if array.shape != place.shape:
        raise InputError(f"{name!r} has shape {list(array.shape)}, not {list(place.shape)}")
    kinds = {"b": "b", "f": "f", "i": "iu", "u": "iu"}
    dtype = scalar_dtype(place.element)
    if array.dtype.kind not in kinds[dtype.kind]:
        raise InputError(f"{name!r} has dtype {array.dtype}, not {dtype}")
    return array.astype(place.dtype)
