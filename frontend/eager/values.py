"""Values of recorded ops: immutable, and computed on first access."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol
from weakref import WeakValueDictionary

import numpy as np

from tensorgrad.dialects.tg.base import ELEMENT_TYPES, NumpyArray, Tensor, numpy_dtype, tensor
from tensorgrad.errors import TensorgradError
from tensorgrad.runtime.backend import OutputHandle, Source, array_of
from tensorgrad.tracing.dtypes import DType


class Kind:
    """A tensor type with its parts precomputed; one object per type.

    Attributes:
        type: The type in the IR.
        shape: Its extents.
        dtype: The numpy dtype of the elements.
    """

    __slots__ = ("__weakref__", "dtype", "shape", "type")

    def __init__(self, kind: Tensor):
        self.type = kind
        self.shape: tuple[int, ...] = kind.get_shape()
        self.dtype: DType = numpy_dtype(kind)


_kinds: WeakValueDictionary[tuple[tuple[int, ...], DType], Kind] = WeakValueDictionary()


@lru_cache(maxsize=1024)  # keeps the types of a step's results from one step to the next
def kind_of(shape: tuple[int, ...], dtype: DType) -> Kind:
    """Returns the `Kind` of a shape and dtype, which is unique as long as something refers to it."""
    kind = _kinds.get((shape, dtype))
    return _kinds.setdefault((shape, dtype), Kind(tensor(shape, ELEMENT_TYPES[dtype]))) if kind is None else kind


class Storage:
    """Memory shared by tensors: a tensor, its views, and detached tensors.

    Attributes:
        value: The current value of the whole.
        version: The number of in-place changes.
        line: The user's line of the last one: a file and a line number.
    """

    __slots__ = ("line", "value", "version")

    def __init__(self, value: Value):
        self.value = value
        self.version = 0
        self.line = ("", 0)

    def replace(self, value: Value, line: tuple[str, int]) -> None:
        """Replaces the value by one that no other tensor has."""
        self.version += 1
        self.value, self.line = value, line
        value.storage, value.version = self, self.version


class Recorder(Protocol):
    """A device that computes recorded values."""

    def flush(self) -> None:
        """Computes everything that is recorded and still reachable."""
        ...


class InRecording(Protocol):
    """A block that values are recorded in."""

    @property
    def recorder(self) -> Recorder:
        """The device that computes it."""
        ...


class Value:
    """The result of an op. It is recorded or computed, and immutable.

    Attributes:
        kind: Its type.
        recording: The block that it is recorded in; `None` once it is computed.
        number: Its number in that block.
        source: The array or handle, once it is computed.
        error: Why it could not be computed.
        is_constant: Whether blocks may embed it in their program as a constant.
        storage: The shared memory, once several tensors share it or one was changed in place.
        version: The version of the storage that this value belongs to.
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
        """Whether the tensor of this value has been changed in place since."""
        return self.storage is not None and self.storage.version != self.version

    def shared(self) -> Storage:
        """Returns the storage, creating it if there is none yet."""
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
        """Computes the value if needed, and returns its array or handle.

        Raises:
            TensorgradError: The compiler or the device reported an error.
        """
        source = self.known()
        return self.settled() if isinstance(source, tuple) else source

    def known(self) -> Source:
        """Returns the array or handle of a computed value.

        Raises:
            TensorgradError: The compiler or the device reported an error.
        """
        if self.recording is not None:
            self.recording.recorder.flush()
        if self.error is not None:
            raise self.error
        assert self.source is not None
        return self.source

    def settled(self) -> NumpyArray:
        """Returns the numbers as a separate array, which replaces all that the value holds."""
        result = self.source = array_of(self.known())
        return result

    def numpy(self) -> NumpyArray:
        """Returns the numbers as a read-only host array."""
        source = self.source if isinstance(self.source, np.ndarray) else self.compute()
        return source if isinstance(source, np.ndarray) else source.numpy()


def read_only(array: NumpyArray) -> NumpyArray:
    """Returns a read-only array."""
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


def value_of(array: NumpyArray) -> Value:
    """Returns a host array as a value that shares its memory."""
    return Value(kind_of(array.shape, array.dtype), read_only(array))


def kinds_of(types: Sequence[Tensor]) -> tuple[Kind, ...]:
    """Returns the `Kind` of each type."""
    return tuple(kind_of(type_.get_shape(), numpy_dtype(type_)) for type_ in types)
