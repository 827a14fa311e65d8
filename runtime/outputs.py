"""Outputs of programs: handles to values on a device, and the memory that past ones lie in."""

from __future__ import annotations

import math
import sys
import weakref
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import RLock
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, cast

import numpy as np

from tensorgrad.runtime.program import Program, ProgramRole, TensorSlot
from tensorgrad.runtime.slots import DTYPES, Slot

RING_BYTES, LEAST_SLOTS, MOST_SLOTS = 1 << 20, 2, 64
"""Limits of an `OutputRing`: the bytes of device memory for past outputs, and the least and most slots."""

SMALL_BYTES = 1 << 12
"""Outputs of at most this many bytes are read back together with any other output."""

LEAST_GIVEN = 1 << 16
"""If device memory is host memory, results of at least this many bytes are returned without a copy."""


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
