"""The parts of a program: kernels, buffers, named tensors, and the steps of its plan."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

WORD = 4
"""Offsets and sizes on a device are multiples of four bytes."""

HOST_DTYPES = {
    "f32": np.float32,
    "f16": np.float16,
    "f64": np.float64,
    "i8": np.int8,
    "u8": np.uint8,
    "i16": np.int16,
    "u16": np.uint16,
    "i32": np.int32,
    "u32": np.uint32,
    "i64": np.int64,
    "u64": np.uint64,
    "bool": np.bool_,
}
"""The numpy dtype that a tensor has outside the device."""

WIDENED = {"bool": "u32", "i8": "i32", "u8": "u32", "i16": "i32", "u16": "u32"}
"""The dtypes that shaders don't store, and the word that each is stored as. A bool is a word in native code too."""

BUFFER_ROLES = ("parameter", "state", "input", "output", "constant", "workspace")
TENSOR_BUFFERS = {
    "parameter": "parameter",
    "state": "state",
    "input": "input",
    "scalar": "input",
    "output": "output",
}
"""The role of the buffer that a tensor of each role lies in."""
PERSISTENT_ROLES = ("parameter", "state")


COLLECTIVES = {
    "all_reduce": (False, False),
    "reduce_scatter": (False, True),
    "all_gather": (True, False),
    "broadcast": (False, False),
}
"""The kinds of collectives, each with whether what a process gives, and what it takes, is one part of as many as there
are processes."""


def stored_dtype(name: str) -> np.dtype[Any]:
    """Returns what the elements of a dtype are on a device that stores it: a bool is a word."""
    return np.dtype(HOST_DTYPES[WIDENED["bool"] if name == "bool" else name])


def fault_name(entry: str) -> str:
    """Returns the name of two words in which native code notes an index outside of its memory, if it looks for one.

    They are the index, and how many elements the memory has.
    """
    return f"{entry}.fault"


@dataclass(frozen=True)
class Kernel:
    """One compute shader, or one native function.

    Attributes:
        language: "wgsl", or "llvm" for LLVM IR: a function of the addresses of its bindings, of scratch memory, and of
            the first task and the one behind the last; the workgroups of a dispatch are its tasks.
        entry: The entry point's name in `code`.
        code: The text.
        workgroup_size: Its extents; of native functions, ones.
        workgroup_storage: How many bytes the invocations of a workgroup share, or how much scratch memory a thread
            needs.
    """

    language: str
    entry: str
    code: str
    workgroup_size: tuple[int, int, int]
    workgroup_storage: int = 0

    def __repr__(self) -> str:
        return f"Kernel({self.entry!r}, workgroup_size={self.workgroup_size}, {len(self.code.splitlines())} lines)"


@dataclass(frozen=True)
class Buffer:
    """One device allocation of `size` bytes. Constants alone have `data`; the rest of theirs is zero."""

    name: str
    size: int
    role: str
    data: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True)
class TensorSlot:
    """Where a named tensor lies: row-major, in the buffer of index `buffer`, from byte `offset`.

    A scalar has a host formula where it is computed at each step, else the caller gives it by name. `stored` is the
    dtype of its elements on the device where that is another: one of `WIDENED`. A bool is always stored as u32.
    """

    name: str
    role: str
    shape: tuple[int, ...]
    dtype: str
    buffer: int
    offset: int
    formula: str | None = None
    stored: str | None = None

    @property
    def device_dtype(self) -> np.dtype[Any]:
        """What the elements are on the device."""
        return stored_dtype(self.dtype if self.stored is None else self.stored)

    @property
    def is_converted(self) -> bool:
        """Whether the elements have another dtype on the device than on the host."""
        return self.device_dtype != HOST_DTYPES[self.dtype]

    @property
    def size(self) -> int:
        """Bytes on the device, rounded up to whole words."""
        return -(-math.prod(self.shape) * self.device_dtype.itemsize // WORD) * WORD

    def view(self, raw: np.ndarray, offset: int = 0) -> np.ndarray:
        """Returns the tensor in the device's bytes `raw`, from `offset`: shares memory, and has the device's dtype."""
        return np.ndarray(self.shape, self.device_dtype, raw, offset)

    def decode(self, raw: np.ndarray) -> np.ndarray:
        """Returns the tensor that the device's bytes `raw` say, in its dtype on the host."""
        array = self.view(raw)
        return array.astype(HOST_DTYPES[self.dtype]) if self.is_converted else array

    def copied(self, view: np.ndarray) -> np.ndarray:
        """Returns a copy of a `view`, in the tensor's dtype on the host."""
        return np.asarray(view != 0) if self.dtype == "bool" else view.copy()

    def encode(self, array: np.ndarray) -> np.ndarray:
        """Returns the device's bytes for the tensor: whole words, padded with zeros."""
        raw = np.zeros(self.size, np.uint8)
        self.view(raw)[...] = array
        return raw


@dataclass(frozen=True)
class Binding:
    """A range of a buffer, as a kernel sees it; `access` is "read" or "read_write".

    In loops, `strides` holds the byte stride of the range per iteration, one number for each loop around the
    dispatch, the outermost first; without it, it stays where it is.
    """

    buffer: int
    offset: int
    size: int
    access: str
    strides: tuple[int, ...] = ()


@dataclass(frozen=True)
class Dispatch:
    """One run of a kernel; binding `i` is the kernel's `@binding(i)` of group 0.

    With `indirect`, a buffer and an offset, the three numbers of workgroups that run are there, written by a kernel
    before: those in `workgroups`, or zeros.
    """

    kernel: int
    bindings: tuple[Binding, ...]
    workgroups: tuple[int, int, int]
    label: str
    indirect: tuple[int, int] | None = None


@dataclass(frozen=True)
class Copy:
    """A copy of bytes from one buffer to another."""

    source: int
    source_offset: int
    destination: int
    destination_offset: int
    size: int


@dataclass(frozen=True)
class Exchange:
    """One tensor of a collective: what each process gives, and where it takes the result.

    Offsets are in bytes, counts in elements.
    """

    source: int
    source_offset: int
    count: int
    destination: int
    destination_offset: int
    result_count: int


@dataclass(frozen=True)
class Collective:
    """An exchange with the other processes of a group, of several tensors at once.

    Attributes:
        kind: "all_reduce", "reduce_scatter", "all_gather" or "broadcast".
        reduction: "sum", "max" or "min"; what an all-reduce combines by.
        root: The rank whose tensors a broadcast gives.
        size: How many processes the group has.
        dtype: The elements of all tensors.
        parts: The tensors.
        label: Where they come from.
        request: Where it is only started here, its number, by which a `Wait` finds it; else it is over at once.
    """

    kind: str
    reduction: str
    root: int
    size: int
    dtype: str
    parts: tuple[Exchange, ...]
    label: str
    request: int | None = None

    @property
    def reads(self) -> list[tuple[int, int, int]]:
        """The ranges that are read: buffers, first bytes, and how many, in whole words."""
        return [(one.source, one.source_offset, self._bytes(one.count)) for one in self.parts]

    @property
    def writes(self) -> list[tuple[int, int, int]]:
        """The ranges that are written."""
        return [(one.destination, one.destination_offset, self._bytes(one.result_count)) for one in self.parts]

    def _bytes(self, count: int) -> int:
        return -(-count * self.device_dtype.itemsize // WORD) * WORD

    @property
    def device_dtype(self) -> np.dtype[Any]:
        """What the elements are on the device, and on their way between processes."""
        return stored_dtype(self.dtype)


@dataclass(frozen=True)
class Wait:
    """Waits until a collective that was started is over: from its start to here nothing else touches its results."""

    request: int


@dataclass(frozen=True)
class Repeat:
    """Runs its steps `count` times; bindings with strides advance with each iteration."""

    count: int
    steps: tuple[Step, ...]


Leaf: TypeAlias = Dispatch | Copy | Collective | Wait
"""A step that holds no others."""

Step: TypeAlias = Leaf | Repeat
STEP_TYPES: dict[str, type[Dispatch] | type[Copy] | type[Collective] | type[Wait] | type[Repeat]] = {
    "dispatch": Dispatch,
    "copy": Copy,
    "collective": Collective,
    "wait": Wait,
    "repeat": Repeat,
}

MOST_MOVING = 4
"""The most bindings of a dispatch that may move with iterations: what every WebGPU device takes."""


Touched: TypeAlias = list[tuple[int, int, int, bool]]
"""Ranges of buffers: the buffer, the first byte, how many there are, and whether they are written."""


def touched(step: Leaf, counts: Sequence[int]) -> Touched:
    """Returns what a step touches, in all iterations of the loops around it; of a dispatch, what it binds.

    Args:
        step: The step; a wait touches nothing that the collective does not.
        counts: How often each loop around it runs, the outermost first.
    """
    match step:
        case Wait():
            return []
        case Copy():
            source = (step.source, step.source_offset, step.size, False)
            return [source, (step.destination, step.destination_offset, step.size, True)]
        case Collective():
            return [*((*one, False) for one in step.reads), *((*one, True) for one in step.writes)]
        case Dispatch():
            found: Touched = []
            for one in step.bindings:
                moved = sum(stride * (count - 1) for stride, count in zip(one.strides, counts, strict=False))
                found.append((one.buffer, one.offset, one.size + moved, one.access != "read"))
            return found if step.indirect is None else [*found, (*step.indirect, WORD, True)]


def runs(steps: Sequence[Step], counts: tuple[int, ...] = ()) -> Iterator[tuple[Leaf, tuple[int, ...]]]:
    """Yields each leaf of a plan once, with how often each loop around it runs, the outermost first."""
    for step in steps:
        if isinstance(step, Repeat):
            yield from runs(step.steps, (*counts, step.count))
        else:
            yield step, counts


def unrolled(steps: Sequence[Step], times: tuple[int, ...] = ()) -> Iterator[tuple[Leaf, tuple[int, ...]]]:
    """Yields each leaf as often as it runs, in order, with the iteration index of each loop around it."""
    for step in steps:
        if isinstance(step, Repeat):
            for time in range(step.count):
                yield from unrolled(step.steps, (*times, time))
        else:
            yield step, times
