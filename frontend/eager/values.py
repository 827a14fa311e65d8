"""Values of recorded ops: immutable, and computed on first access."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol
from weakref import WeakValueDictionary

import numpy as np

from tensorgrad.dialects.tg.base import ELEMENT_TYPES, NumpyArray, Tensor, numpy_dtype, tensor
from tensorgrad.errors import TensorgradError
from tensorgrad.runtime.outputs import OutputHandle, Source, array_of
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


class Version:
    """The time of a tensor's memory between two in-place changes: that of its value, and of the values of its views.

    It refers to no value. With a cycle, values that nothing uses would wait for the garbage collector, and blocks of
    the same ops would differ in what they return.

    Attributes:
        is_over: Whether the memory has been changed since.
        line: The user's line that changed it: a file and a line number.
    """

    __slots__ = ("is_over", "line")

    def __init__(self) -> None:
        self.is_over = False
        self.line: tuple[str, int] = ("", 0)


class Memory:
    """The memory that a tensor shares with those detached from it.

    Attributes:
        value: Its current value.
    """

    __slots__ = ("value",)

    def __init__(self, value: Value):
        self.value = value


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
        version: The version of its tensor's memory, once it is a view's or was changed in place.
    """

    __slots__ = ("__weakref__", "error", "is_constant", "kind", "number", "recording", "source", "version")

    def __init__(self, kind: Kind, source: Source | None = None, recording: InRecording | None = None, number: int = 0):
        self.kind = kind
        self.source = source
        self.recording = recording
        self.number = number
        self.error: TensorgradError | None = None
        self.is_constant = False
        self.version: Version | None = None

    @property
    def is_outdated(self) -> bool:
        """Whether the tensor of this value has been changed in place since."""
        return self.version is not None and self.version.is_over

    def versioned(self) -> Version:
        """Returns the version, creating it if there is none yet."""
        if self.version is None:
            self.version = Version()
        return self.version

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
