"""Values of ops that were recorded: immutable, and computed once someone looks at them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from tensorgrad.dialects.tg.base import ELEMENT_TYPES, NumpyArray, Tensor, numpy_dtype, tensor
from tensorgrad.errors import TensorgradError
from tensorgrad.runtime.backend import OutputHandle, Source, array_of
from tensorgrad.tracing.dtypes import DType


class Kind:
    """A tensor type, with its parts read once; there is one for each type.

    Attributes:
        type: The type in the IR.
        shape: Its extents.
        dtype: The numpy dtype of the elements.
    """

    __slots__ = ("dtype", "shape", "type")

    def __init__(self, kind: Tensor):
        self.type = kind
        self.shape: tuple[int, ...] = kind.get_shape()
        self.dtype: DType = numpy_dtype(kind)


_kinds: dict[tuple[tuple[int, ...], DType], Kind] = {}


def kind_of(shape: tuple[int, ...], dtype: DType) -> Kind:
    """Returns the only `Kind` of a shape and dtype."""
    found = _kinds.get((shape, dtype))
    if found is None:
        found = _kinds[shape, dtype] = Kind(tensor(shape, ELEMENT_TYPES[dtype]))
    return found


class Storage:
    """The memory that tensors share: one tensor, its views, and what was detached from it.

    Attributes:
        value: The present value of the whole.
        version: How often it was changed in place.
        line: Where that was done last: a file, and the number of a line.
    """

    __slots__ = ("line", "value", "version")

    def __init__(self, value: Value):
        self.value = value
        self.version = 0
        self.line = ("", 0)

    def replace(self, value: Value, line: tuple[str, int]) -> None:
        """Takes another value, which no other tensor has."""
        self.version += 1
        self.value, self.line = value, line
        value.storage, value.version = self, self.version


class Recorder(Protocol):
    """What computes recorded values."""

    def flush(self) -> None:
        """Computes everything that is recorded and still reachable."""
        ...


class InRecording(Protocol):
    """A block that values are recorded in."""

    @property
    def recorder(self) -> Recorder:
        """What computes it."""
        ...


class Value:
    """What an op gave. It is recorded or computed, and never changes.

    Attributes:
        kind: Its type.
        recording: The block that it is recorded in; `None` once it is computed.
        number: Its place in that block.
        source: The numbers, once they are computed.
        error: Why they could not be computed.
        is_constant: Whether blocks may take the numbers for a part of their program.
        storage: What tensors that share the memory have in common, once there are several or one was changed in place.
        version: Which version of the storage this value is of.
    """

    __slots__ = ("__weakref__", "error", "is_constant", "kind", "number", "recording", "source", "storage", "version")

    def __init__(self, kind: Kind, source: Source | None = None, recording: InRecording | None = None, number: int = 0):
        self.kind = kind
        self.source = source
        self.recording = recording
        self.number = number
        self.error: TensorgradError | None = None
        self.is_constant = False
        self.storage: Storage | None = None
        self.version = 0

    @property
    def is_outdated(self) -> bool:
        """Whether the tensor of this value was changed in place since."""
        return self.storage is not None and self.storage.version != self.version

    def shared(self) -> Storage:
        """Returns the storage, which is made here where there is none yet."""
        if self.storage is None:
            self.storage, self.version = Storage(self), 0
        return self.storage

    @property
    def shape(self) -> tuple[int, ...]:
        """The extent of each axis."""
        return self.kind.shape

    @property
    def dtype(self) -> DType:
        """The dtype of the elements."""
        return self.kind.dtype

    def compute(self) -> NumpyArray | OutputHandle:
        """Returns the numbers, wherever they are.

        Raises:
            TensorgradError: What the compiler or the device reported.
        """
        source = self.known()
        return self.settled() if isinstance(source, tuple) else source

    def known(self) -> Source:
        """Returns the numbers as they are, once they are computed.

        Raises:
            TensorgradError: What the compiler or the device reported.
        """
        if self.recording is not None:
            self.recording.recorder.flush()
        if self.error is not None:
            raise self.error
        assert self.source is not None
        return self.source

    def settled(self) -> NumpyArray:
        """Returns the numbers as an array of its own, which from now on is all that the value has."""
        found = self.source = array_of(self.known())
        return found

    def numpy(self) -> NumpyArray:
        """Returns the numbers as a read-only array of the host."""
        source = self.source if isinstance(self.source, np.ndarray) else self.compute()
        return source if isinstance(source, np.ndarray) else source.numpy()


def read_only(array: NumpyArray) -> NumpyArray:
    """Returns an array that can't be written to."""
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


def value_of(array: NumpyArray) -> Value:
    """Returns an array of the host as a value, which shares its memory."""
    return Value(kind_of(array.shape, array.dtype), read_only(array))


def kinds_of(types: Sequence[Tensor]) -> tuple[Kind, ...]:
    """Returns the `Kind` of each type."""
    return tuple(kind_of(one.get_shape(), numpy_dtype(one)) for one in types)
