"""What the backends share: the executable protocol, output handles, and the validation of inputs."""

from __future__ import annotations

import math
import sys
import weakref
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import partial
from threading import RLock
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, cast

import numpy as np

from tensorgrad.runtime.conversion import converted, kind_of, to_numpy
from tensorgrad.runtime.counting import RunCount
from tensorgrad.runtime.errors import ArgumentError, FormulaError, InputError
from tensorgrad.runtime.formula import Formula
from tensorgrad.runtime.printable import listed
from tensorgrad.runtime.program import HOST_DTYPES, Program, ProgramRole, TensorSlot

DTYPES: dict[str, np.dtype[Any]] = {name: np.dtype(kind) for name, kind in HOST_DTYPES.items()}
"""The host-side numpy dtype of each tensorgrad dtype."""


RING_BYTES, LEAST_SLOTS, MOST_SLOTS = 1 << 20, 2, 64
"""Limits of an `OutputRing`: the bytes of device memory for past outputs, and the least and most slots."""

SMALL_BYTES = 1 << 12
"""Outputs of at most this many bytes are read back together with any other output."""

LEAST_GIVEN = 1 << 16
"""If device memory is host memory, results of at least this many bytes are returned without a copy."""

LARGEST_F32 = float(np.finfo(np.float32).max)


NOTHING: Mapping[str, np.ndarray] = MappingProxyType({})
"""No inputs, in each call the same mapping."""


class Slot(Protocol):
    """A named tensor's shape and dtype, such as `program.TensorSlot`."""

    @property
    def name(self) -> str:
        """The tensor's name, as the caller passes it."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        ...

    @property
    def dtype(self) -> str:
        """A key of `DTYPES`."""
        ...


class ScalarSlot(Slot, Protocol):
    """A scalar: passed by name, or computed from a formula."""

    @property
    def formula(self) -> str | None:
        """The formula that the host evaluates, or None if the caller passes the value."""
        ...


class Executable(Protocol):
    """A program loaded on a device, with its parameters and state.

    Each call is made as a whole, or has not been made if it raises an exception: also if that comes from outside, as
    `KeyboardInterrupt` does, and if another thread calls meanwhile.

    Attributes:
        lock: Held during each call; executables that share parameters and state share it.
        runs: Counts the steps that have run, each together with what it changes.
    """

    lock: RLock
    runs: RunCount

    @property
    def program_inputs(self) -> Mapping[str, Slot]:
        """The inputs that `step` takes, by name."""
        ...

    @property
    def persistent(self) -> Mapping[str, Slot]:
        """Parameters and state, which persist between steps, by name."""
        ...

    @property
    def scalar_names(self) -> frozenset[str]:
        """The scalars that `step` takes, including those that formulas read."""
        ...

    def step(
        self, inputs: Mapping[str, Any], scalars: Mapping[str, float], constant: Mapping[str, np.ndarray] = NOTHING
    ) -> Mapping[str, OutputHandle]:
        """Runs the program once.

        Args:
            inputs: An array for each of `program_inputs` that is not in `constant`.
            scalars: The scalars, including those that formulas read.
            constant: The inputs that never change: an array is not uploaded again when it is passed again, and a
                mapping not looked at again.

        Raises:
            InputError: An input is missing, unknown, or of the wrong shape or dtype; nothing has changed.
            DeviceError: The device reported an error.
        """
        ...

    def read(self, names: Iterable[str] | None = None) -> dict[str, np.ndarray]:
        """Returns the current values of these parameters and state, or of all of them."""
        ...

    def write(self, values: Mapping[str, Any]) -> None:
        """Sets parameters and state by name; everything is checked before anything is written."""
        ...

    def statistics(self) -> dict[str, Any]:
        """Returns counts of what a step runs and of the memory that it takes."""
        ...


Fetch: TypeAlias = Callable[[], np.ndarray]
FetchAsync: TypeAlias = Callable[[], Awaitable[np.ndarray]]


class OutputHandle:
    """One output of one step. The value is read from the device on first access, and never changes afterwards.

    Args:
        slot: The output's name, shape and dtype.
        fetch: Returns the value, unless it is delivered first.
        fetch_async: The asynchronous `fetch`, if the backend has one.

    Attributes:
        name: The output's name.
        shape: Its extents.
        dtype: Its numpy dtype.
    """

    __slots__ = ("__weakref__", "_fetch", "_fetch_async", "_value", "dtype", "name", "shape")

    def __init__(self, slot: Slot, fetch: Fetch | None = None, fetch_async: FetchAsync | None = None):
        self.name = slot.name
        self.shape = slot.shape
        self.dtype = DTYPES[slot.dtype]
        self._fetch = fetch
        self._fetch_async = fetch_async
        self._value: np.ndarray | None = None

    @classmethod
    def of(cls, slot: Slot, value: np.ndarray) -> OutputHandle:
        """Returns a handle to a value that is available: an array with no other owner, which becomes read-only."""
        result = cls(slot)
        value.setflags(write=False)
        result._value = value
        return result

    @property
    def is_pending(self) -> bool:
        """Whether the value has not been read from the device."""
        return self._value is None

    def deliver(self, value: np.ndarray) -> None:
        """Sets the value, which becomes read-only. Called by the backend."""
        value = value.view()
        value.flags.writeable = False
        self._value, self._fetch, self._fetch_async = value, None, None

    async def wait(self) -> None:
        """Reads the value if it is still on the device; the event loop runs meanwhile.

        Raises:
            DeviceError: The device reported an error.
        """
        if self._value is None and self._fetch_async is not None:
            value = await self._fetch_async()
            if self._value is None:  # another task may have read it meanwhile
                self.deliver(value)

    def numpy(self) -> np.ndarray:
        """Returns the value as a read-only array.

        Raises:
            DeviceError: The device reported an error.
        """
        fetch = self._fetch
        if self._value is None and fetch is not None:
            value = fetch()
            if self._value is None:  # another thread may have read it meanwhile
                self.deliver(value)
        assert self._value is not None
        return self._value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __float__(self) -> float:
        return float(self.numpy().item())

    def __repr__(self) -> str:
        return f"OutputHandle({self.name!r}, {self.numpy()!r})"


class Outputs(ABC):
    """The immutable results of one run of a program."""

    __slots__ = ("__weakref__",)

    @abstractmethod
    def array(self, place: int) -> np.ndarray:
        """Returns an output, by index, as a read-only host array.

        Raises:
            DeviceError: The device reported an error.
        """


Part: TypeAlias = tuple[Outputs, int]
"""One output of `Outputs`, by index."""

Source: TypeAlias = np.ndarray | OutputHandle | Part
"""An immutable value: a host array, or an output of a program."""


def array_of(source: Source) -> np.ndarray:
    """Returns a value as a read-only host array."""
    if isinstance(source, np.ndarray):
        return source
    return source[0].array(source[1]) if isinstance(source, tuple) else source.numpy()


BufferT = TypeVar("BufferT")


class BufferDevice(Protocol[BufferT]):
    """What an `OutputRing` needs from a device.

    Attributes:
        is_host: Whether device memory is host memory: steps are synchronous and results need no copy.
    """

    is_host: bool

    def create_buffer(self, label: str, size: int) -> BufferT:
        """Returns a new buffer of `size` bytes."""
        ...

    def read_ranges(self, ranges: Sequence[tuple[BufferT, int, int]]) -> list[np.ndarray]:
        """Returns the bytes of (buffer, offset, size) ranges, after all submitted work has completed."""
        ...

    async def read_ranges_async(self, ranges: Sequence[tuple[BufferT, int, int]]) -> list[np.ndarray]:
        """Like `read_ranges`, without blocking the event loop."""
        ...


@dataclass
class RingSlot(Generic[BufferT]):
    """The output buffers of one past step, by index, and the handles that may still read them."""

    buffers: dict[int, BufferT]
    outputs: Sequence[tuple[TensorSlot, np.ndarray | None]]
    """Each output, with a view of its memory if its value is copied when the step completes."""
    references: int = 0
    """The references to the buffers' memory before any of it was handed out."""
    handed_out: bool = False
    """Whether the buffers themselves were handed out, so that they must not be written while someone has them."""
    handles: list[tuple[weakref.ref[OutputHandle], TensorSlot]] = field(default_factory=list)

    @property
    def is_pending(self) -> bool:
        """Whether a live handle has not been read."""
        for reference, _ in self.handles:
            handle = reference()
            if handle is not None and handle.is_pending:
                return True
        return False

    def pending(self, most: float = math.inf) -> list[tuple[OutputHandle, TensorSlot]]:
        """Returns the live handles of at most so many bytes that have not been read."""
        alive = [(reference(), tensor) for reference, tensor in self.handles if tensor.size <= most]
        return [(handle, tensor) for handle, tensor in alive if handle is not None and handle.is_pending]

    def range_of(self, tensor: TensorSlot) -> tuple[BufferT, int, int]:
        """Returns the location of this step's value of an output."""
        return self.buffers[tensor.buffer], tensor.offset, tensor.size


Waiting: TypeAlias = tuple[RingSlot[BufferT], OutputHandle, TensorSlot]
"""An unread handle, and the location of its value."""


class OutputRing(Generic[BufferT]):
    """Rotates the outputs of steps over several buffers, so that handles keep their values without a copy per step.

    Args:
        program: The program.
        device: Where the buffers are.
        lock: Held while an output is read.
    """

    def __init__(self, program: Program, device: BufferDevice[BufferT], lock: RLock):
        self._device, self._lock = device, lock
        self._tensors = program.slots(ProgramRole.OUTPUT)
        self._buffers = {i: b for i, b in enumerate(program.buffers) if b.role == ProgramRole.OUTPUT}
        self._slot_bytes = sum(buffer.size for buffer in self._buffers.values())
        self._capacity = min(max(RING_BYTES // max(self._slot_bytes, 1), LEAST_SLOTS), MOST_SLOTS)
        self._slots: list[RingSlot[BufferT]] = []
        self._last = 0

    @property
    def bytes(self) -> int:
        """The device memory of all slots."""
        return len(self._slots) * self._slot_bytes

    def buffers(self, index: int) -> Mapping[int, BufferT]:
        """Returns the output buffers of a slot, by their index in the program."""
        return self._slots[index].buffers

    def acquire(self) -> int:
        """Returns the index of a free slot; if there is none, first reads back all pending values."""
        count = len(self._slots)
        # The last one first: it is free if results are read or dropped immediately.
        if count and not self._slots[self._last].is_pending:
            return self._take(self._last)
        for index in (*range(self._last + 1, count), *range(self._last)):
            if not self._slots[index].is_pending:
                return self._take(index)
        if count == self._capacity:
            self._drain()
            return self._take(self._last)
        self._slots.append(self._new_slot())
        return self._take(count)

    def _take(self, index: int) -> int:
        """Returns the slot's index, after replacing its buffers if someone has what was handed out."""
        slot = self._slots[index]
        if slot.handed_out and _references(slot.buffers) > slot.references:
            self._slots[index] = self._new_slot()
        slot.handed_out = False
        self._last = index
        return index

    def _new_slot(self) -> RingSlot[BufferT]:
        buffers = {i: self._device.create_buffer(b.name, b.size) for i, b in self._buffers.items()}
        outputs = [(tensor, self._copied(tensor, buffers)) for tensor in self._tensors.values()]
        return RingSlot(buffers, outputs, _references(buffers))

    def _copied(self, tensor: TensorSlot, buffers: Mapping[int, BufferT]) -> np.ndarray | None:
        """Returns a view of an output that is copied as soon as its step has run, or None.

        These are small outputs in host memory: the copy is cheaper than tracking the handle.
        """
        if not self._device.is_host or tensor.size > SMALL_BYTES:
            return None
        return tensor.view(cast(np.ndarray, buffers[tensor.buffer]), tensor.offset)

    def _waiting(self) -> list[Waiting[BufferT]]:
        return [(slot, *entry) for slot in self._slots for entry in slot.pending()]

    def _drain(self) -> None:
        waiting = self._waiting()
        _deliver(waiting, self._device.read_ranges(_ranges(waiting)))

    def handles(self, index: int) -> dict[str, OutputHandle]:
        """Returns new handles to the outputs of the step that used this slot."""
        slot = self._slots[index]
        slot.handles.clear()
        handles: dict[str, OutputHandle] = {}
        for tensor, view in slot.outputs:
            if view is not None:
                handles[tensor.name] = OutputHandle.of(tensor, tensor.copied(view))
                continue
            fetch, fetch_async = partial(self._fetch_alone, slot, tensor), partial(self._fetch_async, slot, tensor)
            handles[tensor.name] = handle = OutputHandle(tensor, fetch, fetch_async)
            slot.handles.append((weakref.ref(handle), tensor))
        return handles

    def _along(self, slot: RingSlot[BufferT], tensor: TensorSlot) -> list[Waiting[BufferT]]:
        """Returns the small pending outputs, which are read along with this one at almost no cost."""
        if self._device.is_host:  # they were copied as soon as their step had run
            return []
        small = [(other, *entry) for other in self._slots for entry in other.pending(SMALL_BYTES)]
        return [entry for entry in small if entry[0] is not slot or entry[2] is not tensor]

    def _fetch_alone(self, slot: RingSlot[BufferT], tensor: TensorSlot) -> np.ndarray:
        with self._lock:
            return self._fetch(slot, tensor)

    def _fetch(self, slot: RingSlot[BufferT], tensor: TensorSlot) -> np.ndarray:
        if self._device.is_host and tensor.size >= LEAST_GIVEN and not tensor.is_converted:
            slot.handed_out = True
            buffer, offset, size = slot.range_of(tensor)
            return tensor.decode(cast(np.ndarray, buffer)[offset : offset + size])
        others = self._along(slot, tensor)
        raw, *rest = self._device.read_ranges([slot.range_of(tensor), *_ranges(others)])
        _deliver(others, rest)
        return tensor.decode(raw)

    async def _fetch_async(self, slot: RingSlot[BufferT], tensor: TensorSlot) -> np.ndarray:
        if self._device.is_host:  # nothing to wait for
            return self._fetch(slot, tensor)
        others = self._along(slot, tensor)
        raw, *rest = await self._device.read_ranges_async([slot.range_of(tensor), *_ranges(others)])
        _deliver(others, rest)
        return tensor.decode(raw)


def _references(buffers: Mapping[int, Any]) -> int:
    """Returns the number of references to the memory of buffers in host memory, such as those of arrays that view it.

    A view refers to the array that owns its memory, however it was made.
    """
    arrays = [buffer for buffer in buffers.values() if isinstance(buffer, np.ndarray)]
    return sum(sys.getrefcount(array if array.base is None else array.base) for array in arrays)


def _ranges(waiting: Sequence[Waiting[BufferT]]) -> list[tuple[BufferT, int, int]]:
    return [slot.range_of(tensor) for slot, _, tensor in waiting]


def _deliver(waiting: Sequence[Waiting[BufferT]], raws: Sequence[np.ndarray]) -> None:
    for (_, handle, tensor), raw in zip(waiting, raws, strict=True):
        if handle.is_pending:
            handle.deliver(tensor.decode(raw))


@dataclass(frozen=True)
class ArraySlot:
    """A named array's shape and dtype."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    formula: str | None = None


def check_inputs(
    slots: Mapping[str, Slot],
    inputs: Mapping[str, Any],
    *,
    what: str = "input",
    partial: bool = False,
    known: Collection[str] = (),
) -> dict[str, np.ndarray]:
    """Validates values against slots before anything changes, and converts them to the slots' dtypes.

    Integers and bools convert if every value fits, and floats round to narrower floats unless that overflows. Floats
    don't convert to integers, and only bools convert to bool.

    Args:
        slots: The expected arrays, by name.
        inputs: Arrays, numbers, or anything with `__array__` or `__dlpack__`, by name.
        what: The kind of value, for error messages.
        partial: Whether some may be missing.
        known: The names of inputs that were validated before, which are left out.

    Returns:
        The converted arrays, which may share memory with `inputs`.

    Raises:
        InputError: Names are unknown or missing (all are listed), a shape differs, or a value doesn't convert.
    """
    check_named(inputs, what)
    if inputs.keys() != slots.keys():
        unknown = sorted(inputs.keys() - slots.keys())
        missing = [] if partial else sorted(slots.keys() - inputs.keys())
        if unknown or missing:
            raise InputError(_name_error(what, unknown, missing, slots))
    return {
        name: value
        if type(value) is np.ndarray
        and value.shape == (slot := slots[name]).shape
        and value.dtype == DTYPES[slot.dtype]  # needs no conversion, the common case
        else _check_array(slots[name], value, f"{what} {name!r}")
        for name, value in inputs.items()
        if name not in known
    }


def check_named(values: object, what: str) -> None:
    """Checks that values are given by name.

    Args:
        values: What was passed.
        what: The kind of value, for error messages.

    Raises:
        InputError: It is no mapping.
    """
    if not isinstance(values, Mapping):
        raise InputError(f"{what}s must be a dict of arrays by name, got {type(values).__name__}")


def named_inputs(
    what: str, names: Sequence[str], positional: Sequence[Any], inputs: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Returns the inputs of a call by name.

    Args:
        what: What is called, for messages.
        names: The names of those that may be given by position, in order.
        positional: Those given by position.
        inputs: Those given by name.

    Raises:
        ArgumentError: There are more by position than there are names, or one is given twice.
    """
    if not positional:
        return inputs
    if len(positional) > len(names):
        count = f"{len(names)} input{'' if len(names) == 1 else 's'} by position"
        listed_names = ", ".join(f"{name}=..." for name in names)
        raise ArgumentError(f"{what} takes {count}, got {len(positional)}{listed_names and ': ' + listed_names}")
    for name in names[: len(positional)]:
        if name in inputs:
            raise ArgumentError(f"{what} got the input {name!r} by position and by name")
    return {**dict(zip(names, positional, strict=False)), **inputs}


def flat_inputs(inputs: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Returns the inputs of a call by the paths of their leaves, such as `batch.x`.

    Trees are dicts, dataclasses, lists and tuples; but what has the name of an input is one, and may be nested numbers.

    Args:
        inputs: Arrays, or trees of them, by name.
        names: The paths of inputs.

    Raises:
        ArgumentError: Two leaves have the same path.
    """
    flat: dict[str, Any] = {}
    for path, leaf in _leaves(inputs.items(), names):
        if path in flat:
            raise ArgumentError(f"the input {path!r} is given twice")
        flat[path] = leaf
    return flat


def _leaves(nodes: Iterable[tuple[str, Any]], names: Collection[str]) -> Iterator[tuple[str, Any]]:
    """Yields the leaves of trees, with their paths."""
    for path, value in nodes:
        parts = None if path in names else _parts(value)
        if parts is None:
            yield path, value
        else:
            yield from _leaves(((f"{path}.{name}", part) for name, part in parts), names)


def _parts(value: Any) -> Iterable[tuple[str, Any]] | None:
    """Returns the children of a node of a tree with their names, or None for a leaf."""
    if isinstance(value, Mapping):
        return [(str(name), part) for name, part in value.items()]
    if isinstance(value, list | tuple):
        return zip(getattr(value, "_fields", map(str, range(len(value)))), value, strict=True)
    if is_dataclass(value) and not isinstance(value, type):
        return [(part.name, getattr(value, part.name)) for part in fields(value) if part.init]
    return () if value is None else None


class ScalarInputs:
    """Computes a program's scalars from the values that the caller passes by name."""

    def __init__(self, slots: Sequence[ScalarSlot]):
        """Parses the formulas.

        Raises:
            FormulaError: A formula is malformed.
        """
        self._slots = {slot.name: slot for slot in slots}
        self._formulas = {slot.name: Formula(slot.formula) for slot in slots if slot.formula is not None}
        self._used_by: dict[str, list[str]] = {}
        for name in self._slots:
            for used in self._formulas[name].names if name in self._formulas else (name,):
                self._used_by.setdefault(used, []).append(name)
        self._last: tuple[dict[str, float], dict[str, float], dict[str, np.ndarray]] = {}, {}, {}
        """What the caller passed last, the same as numbers, and the values; replaced as one."""
        self._affected: dict[tuple[str, ...], Sequence[tuple[ScalarSlot, Formula | None]]] = {}
        inputs = self._slots.keys() - self._formulas.keys()
        self.names: frozenset[str] = frozenset(inputs).union(*(f.names for f in self._formulas.values()))
        """The names that the caller has to pass."""

    def evaluate(self, scalars: Mapping[str, float]) -> Mapping[str, np.ndarray]:
        """Returns the value of every scalar, in its dtype.

        A value is recomputed only if one that it depends on has changed; otherwise the same array is returned again.

        Raises:
            InputError: Names are unknown or missing, or a value is not a number that fits the dtype.
        """
        if scalars.keys() != self.names:
            unknown, missing = sorted(scalars.keys() - self.names), sorted(self.names - scalars.keys())
            raise InputError(_name_error("scalar", unknown, missing, self.names))
        # Most settings are the same object in every step, and Python numbers are immutable.
        inputs, numbers, values = self._last
        changed = [
            name
            for name, scalar in scalars.items()
            if inputs.get(name) is not scalar or type(scalar) not in (float, int)
        ]
        if changed or len(values) < len(self._slots):
            affected = self._computed_from(tuple(changed), bool(values))
            numbers, values = dict(numbers), dict(values)
            for name in changed:
                numbers[name] = _check_number(name, scalars[name])
            for slot, formula in affected:
                values[slot.name] = _scalar_value(slot, formula, numbers)
            self._last = dict(scalars), numbers, values
        return values

    def _computed_from(self, changed: tuple[str, ...], has_values: bool) -> Sequence[tuple[ScalarSlot, Formula | None]]:
        """Returns the scalars to recompute when these numbers have changed, with their formulas."""
        if not has_values:
            return [(slot, self._formulas.get(name)) for name, slot in self._slots.items()]
        results = self._affected.get(changed)
        if results is None:  # usually the same ones change in every step
            names = dict.fromkeys(dependent for name in changed for dependent in self._used_by[name])
            results = self._affected[changed] = [(self._slots[name], self._formulas.get(name)) for name in names]
        return results


def _scalar_value(slot: ScalarSlot, formula: Formula | None, numbers: Mapping[str, float]) -> np.ndarray:
    """Returns the value of a scalar, in its dtype.

    Raises:
        InputError: The formula has no value, or the value doesn't fit the dtype.
    """
    if formula is None:
        value = numbers[slot.name]
    else:
        try:
            value = formula.evaluate(numbers)
        except FormulaError as error:
            raise InputError(f"scalar {slot.name!r}: {error}") from error
    if slot.dtype == "f32" and abs(value) <= LARGEST_F32:
        return np.array(value, np.float32)  # equivalent to what follows, ten times faster
    if kind_of(DTYPES[slot.dtype]) != "f" and value.is_integer():
        return _check_array(slot, int(value), f"scalar {slot.name!r}")
    return _check_array(slot, value, f"scalar {slot.name!r}")


def is_timeout(value: object) -> bool:
    """Returns whether a value is a valid timeout: a positive, finite number of seconds."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def _check_number(name: str, value: object) -> float:
    if type(value) is float and math.isfinite(value):
        return value
    number: float | None = None
    try:
        if not isinstance(value, (str, bytes)):
            number = float(cast(Any, value))
    except (TypeError, ValueError, OverflowError):
        pass
    if number is not None and math.isfinite(number):
        return number
    if number is not None:
        raise InputError(f"scalar {name!r} must be finite, got {value!r}")
    raise InputError(f"scalar {name!r} must be a number, got {value!r}")


def _name_error(what: str, unknown: Sequence[str], missing: Sequence[str], known: Iterable[str]) -> str:
    parts = [
        f"{kind} {what}{'s' if len(names) > 1 else ''} {listed([*map(repr, names)])}"
        for kind, names in (("unknown", unknown), ("missing", missing))
        if names
    ]
    return f"{'; '.join(parts)} (expected: {listed(sorted(known)) or 'none'})"


def _check_array(slot: Slot, value: Any, where: str) -> np.ndarray:
    array = to_numpy(value, where)
    if array.shape != slot.shape:
        raise InputError(f"{where} has shape {array.shape}, expected {slot.shape}")
    expected = DTYPES[slot.dtype]
    if kind_of(array.dtype) not in ACCEPTED_KINDS[kind_of(expected)]:
        raise InputError(f"{where} is {array.dtype}, which does not convert to {slot.dtype}")
    return converted(array, expected, slot.dtype, where)


ACCEPTED_KINDS = {"f": "fiub", "i": "iub", "u": "iub", "b": "b"}
"""For each numpy kind of device dtype, the numpy kinds that convert to it."""
