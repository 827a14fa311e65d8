"""The parts of a program: kernels, buffers, named tensors, and the steps of its plan."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, TypeAlias

import numpy as np
from ml_dtypes import bfloat16

from tensorgrad.runtime.formula import Formula
from tensorgrad.runtime.schema import BESIDE, Name, Positive, Rule, Whole, one_of, tagged
from tensorgrad.runtime.target import LANGUAGES

WORD = 4
"""Device offsets and sizes are multiples of four bytes."""

COUNTS_BYTES = 3 * WORD
"""The bytes of a dispatch's numbers of workgroups, if it reads them from memory."""

HOST_DTYPES = {
    "bf16": bfloat16,
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
"""The numpy dtype of each tensorgrad dtype on the host."""

WIDENED = {"bool": "u32", "i8": "i32", "u8": "u32", "i16": "i32", "u16": "u32", "bf16": "f32"}
"""The dtypes that shaders can't store, and the word type that stores each. Native code stores bools as words too."""


class ProgramRole(StrEnum):
    """What a buffer or a tensor of a program is for, in the words of its file."""

    PARAMETER = "parameter"
    STATE = "state"
    INPUT = "input"
    SCALAR = "scalar"
    OUTPUT = "output"
    CONSTANT = "constant"
    WORKSPACE = "workspace"

    def __repr__(self) -> str:
        """Returns the text in quotes, as messages show names."""
        return repr(self.value)


BUFFER_ROLES = tuple(role for role in ProgramRole if role != ProgramRole.SCALAR)
TENSOR_BUFFERS: Mapping[str, ProgramRole] = {
    ProgramRole.PARAMETER: ProgramRole.PARAMETER,
    ProgramRole.STATE: ProgramRole.STATE,
    ProgramRole.INPUT: ProgramRole.INPUT,
    ProgramRole.SCALAR: ProgramRole.INPUT,
    ProgramRole.OUTPUT: ProgramRole.OUTPUT,
}
"""The role of the buffer that holds tensors of each role."""
PERSISTENT_ROLES = (ProgramRole.PARAMETER, ProgramRole.STATE)


COLLECTIVES = {
    "all_reduce": (False, False),
    "reduce_scatter": (False, True),
    "all_gather": (True, False),
    "broadcast": (False, False),
}
"""The kinds of collectives, each with whether a process passes, and whether it receives, one shard of as many as there
are processes."""


def stored_dtype(name: str) -> np.dtype[Any]:
    """Returns the numpy dtype of a dtype's elements on a device that stores it; bools are words."""
    return np.dtype(HOST_DTYPES[WIDENED["bool"] if name == "bool" else name])


def fault_name(entry: str) -> str:
    """Returns the name of the two words in which bounds-checked native code records an out-of-bounds index.

    They hold the index, and the number of elements of the memory.
    """
    return f"{entry}.fault"


def renamed(code: str, entry: str, name: str) -> str:
    """Returns the LLVM IR of a kernel under another name; its fault record's name follows."""
    return re.sub(rf"@{re.escape(entry)}(?![\w$-])", f"@{name}", code)  # a dot may follow: see `fault_name`


Offset: TypeAlias = Annotated[int, Rule(f"a multiple of {WORD} from 0", lambda value: value >= 0 and value % WORD == 0)]
Size: TypeAlias = Annotated[int, Rule(f"a positive multiple of {WORD}", lambda value: value > 0 and value % WORD == 0)]
DType: TypeAlias = Annotated[str, one_of(*HOST_DTYPES)]


@dataclass(frozen=True)
class Kernel:
    """One compute shader, or one native function.

    Attributes:
        language: "wgsl", or "llvm" for LLVM IR: a function of the addresses of its bindings, of scratch memory, of the
            first task, and of one past the last task; a dispatch's workgroups are its tasks.
        entry: The entry point's name in `code`.
        code: The source text.
        workgroup_size: The workgroup's three extents; all ones for native functions.
        workgroup_storage: The bytes of memory that a workgroup shares, or of scratch memory that a thread of native
            code needs.
    """

    language: Annotated[str, one_of(*LANGUAGES)]
    entry: Annotated[str, Rule("an identifier", str.isidentifier)]
    code: str
    workgroup_size: tuple[Positive, Positive, Positive]
    workgroup_storage: Whole = 0

    def __repr__(self) -> str:
        return f"Kernel({self.entry!r}, workgroup_size={self.workgroup_size}, {len(self.code.splitlines())} lines)"


@dataclass(frozen=True)
class Buffer:
    """One device allocation of `size` bytes. Only constants have `data`; the rest of their bytes is zero."""

    name: Name
    size: Size
    role: Annotated[str, one_of(*BUFFER_ROLES)]
    data: Annotated[bytes | None, BESIDE] = field(default=None, repr=False)


@dataclass(frozen=True)
class TensorSlot:
    """The location of a named tensor: row-major, in the buffer of index `buffer`, from byte `offset`.

    A scalar with a formula is computed by the host in each step, otherwise the caller passes it by name. `stored` is
    the dtype of the elements on the device if it differs: one of `WIDENED`. Bools are always stored as u32.
    """

    name: Name
    role: Annotated[str, one_of(*TENSOR_BUFFERS)]
    shape: tuple[Whole, ...]
    dtype: DType
    buffer: Whole
    offset: Offset
    formula: Annotated[str, Rule("a formula", Formula)] | None = None
    stored: str | None = None

    @cached_property
    def device_dtype(self) -> np.dtype[Any]:
        """The dtype of the elements on the device."""
        return stored_dtype(self.dtype if self.stored is None else self.stored)

    @cached_property
    def is_converted(self) -> bool:
        """Whether the elements have different dtypes on the device and on the host."""
        return self.device_dtype != HOST_DTYPES[self.dtype]

    @cached_property
    def size(self) -> int:
        """Size in bytes on the device, rounded up to whole words."""
        return -(-math.prod(self.shape) * self.device_dtype.itemsize // WORD) * WORD

    def view(self, raw: np.ndarray, offset: int = 0) -> np.ndarray:
        """Returns a view of the tensor in the device bytes `raw`, from `offset`, in its device dtype."""
        return np.ndarray(self.shape, self.device_dtype, raw, offset)

    def decode(self, raw: np.ndarray) -> np.ndarray:
        """Decodes the device bytes `raw` to the tensor in its host dtype."""
        array = self.view(raw)
        if not self.is_converted:
            return array
        with np.errstate(invalid="ignore"):  # ml_dtypes warns of NaN
            return array.astype(HOST_DTYPES[self.dtype])

    def copied(self, view: np.ndarray) -> np.ndarray:
        """Returns a copy of a `view`, in the tensor's host dtype."""
        return np.asarray(view != 0) if self.dtype == "bool" else view.copy()

    def encode(self, array: np.ndarray) -> np.ndarray:
        """Encodes the tensor as device bytes: whole words, padded with zeros. They may be the array's own."""
        if array.dtype == self.device_dtype and array.flags.c_contiguous and array.nbytes == self.size:
            return array.reshape(-1).view(np.uint8)
        raw = np.zeros(self.size, np.uint8)
        self.view(raw)[...] = array
        return raw


@dataclass(frozen=True)
class Binding:
    """A range of a buffer that is bound to a kernel; `access` is "read" or "read_write".

    In loops, `strides` holds the range's byte stride per iteration of each enclosing loop, outermost first; if it is
    empty, the range is fixed.
    """

    buffer: Whole
    offset: Offset
    size: Size
    access: Annotated[str, one_of("read", "read_write")]
    strides: tuple[Offset, ...] = ()


@dataclass(frozen=True)
class Dispatch:
    """One run of a kernel; binding `i` is the kernel's `@binding(i)` of group 0.

    With `indirect`, a buffer and an offset, the number of workgroups is read there: three words that an earlier kernel
    wrote, either those in `workgroups` or zeros.
    """

    kernel: Whole
    bindings: tuple[Binding, ...]
    workgroups: tuple[Positive, Positive, Positive]
    label: str
    indirect: tuple[Whole, Offset] | None = None


@dataclass(frozen=True)
class Copy:
    """A copy of bytes from one buffer to another."""

    source: Whole
    source_offset: Offset
    destination: Whole
    destination_offset: Offset
    size: Size


@dataclass(frozen=True)
class Exchange:
    """One tensor of a collective: the source and destination of each process.

    Offsets are in bytes, counts in elements.
    """

    source: Whole
    source_offset: Offset
    count: Positive
    destination: Whole
    destination_offset: Offset
    result_count: Whole


@dataclass(frozen=True)
class Collective:
    """An exchange of several tensors with the other processes of a group.

    Attributes:
        kind: "all_reduce", "reduce_scatter", "all_gather" or "broadcast".
        reduction: "sum", "max" or "min"; the reduction of an all-reduce or reduce-scatter.
        root: The rank that a broadcast sends from.
        size: The number of processes in the group.
        dtype: The dtype of all tensors.
        parts: The tensors.
        label: The source line that it comes from.
        request: For an asynchronous collective, the number by which a `Wait` refers to it; None if it is synchronous.
    """

    kind: Annotated[str, one_of(*COLLECTIVES)]
    reduction: Annotated[str, one_of("sum", "max", "min")]
    root: Whole
    size: Positive
    dtype: DType
    parts: tuple[Exchange, ...]
    label: str
    request: int | None = None

    @property
    def reads(self) -> list[tuple[int, int, int]]:
        """The ranges that are read, as (buffer, offset, size); sizes are whole words."""
        return [(part.source, part.source_offset, self._bytes(part.count)) for part in self.parts]

    @property
    def writes(self) -> list[tuple[int, int, int]]:
        """The ranges that are written."""
        return [(part.destination, part.destination_offset, self._bytes(part.result_count)) for part in self.parts]

    def _bytes(self, count: int) -> int:
        return -(-count * self.device_dtype.itemsize // WORD) * WORD

    @property
    def device_dtype(self) -> np.dtype[Any]:
        """The dtype of the elements on the device and in messages between processes."""
        return stored_dtype(self.dtype)


@dataclass(frozen=True)
class Wait:
    """Waits for an asynchronous collective; between its start and the wait nothing else touches its results."""

    request: int


@dataclass(frozen=True)
class Repeat:
    """Runs its steps `count` times; bindings with strides advance with each iteration."""

    count: Positive
    steps: tuple[Step, ...]


Leaf: TypeAlias = Dispatch | Copy | Collective | Wait
"""A step without nested steps."""

Step: TypeAlias = Annotated[
    Leaf | Repeat,
    tagged("op", dispatch=Dispatch, copy=Copy, collective=Collective, wait=Wait, repeat=Repeat),
]

MOST_MOVING = 4
"""The most bindings of a dispatch that may have strides: the limit that every WebGPU device supports."""


Touched: TypeAlias = list[tuple[int, int, int, bool]]
"""Buffer ranges as (buffer, offset, size, whether it is written)."""


def touched(step: Leaf, counts: Sequence[int]) -> Touched:
    """Returns the ranges that a step touches over all iterations of its enclosing loops.

    For a dispatch, these are its bindings, and its numbers of workgroups if they are in memory.

    Args:
        step: The step; a wait touches nothing beyond its collective.
        counts: The trip counts of the enclosing loops, outermost first.
    """
    match step:
        case Wait():
            return []
        case Copy():
            source = (step.source, step.source_offset, step.size, False)
            return [source, (step.destination, step.destination_offset, step.size, True)]
        case Collective():
            return [*((*range_, False) for range_ in step.reads), *((*range_, True) for range_ in step.writes)]
        case Dispatch():
            ranges: Touched = []
            for binding in step.bindings:
                moved = sum(stride * (count - 1) for stride, count in zip(binding.strides, counts, strict=False))
                ranges.append((binding.buffer, binding.offset, binding.size + moved, binding.access != "read"))
            return ranges if step.indirect is None else [*ranges, (*step.indirect, COUNTS_BYTES, False)]


def covered_bytes(ranges: Iterable[tuple[int | str, int, int]]) -> int:
    """Returns the number of bytes in ranges, each of a buffer from a start to an end; where they overlap, each once."""
    total, ends = 0, dict[int | str, int]()
    for buffer, start, end in sorted(ranges):
        covered = max(start, ends.get(buffer, 0))
        total += max(0, end - covered)
        ends[buffer] = max(end, covered)
    return total


def runs(steps: Sequence[Step], counts: tuple[int, ...] = ()) -> Iterator[tuple[Leaf, tuple[int, ...]]]:
    """Yields each leaf of a plan once, with the trip counts of its enclosing loops, outermost first."""
    for step in steps:
        if isinstance(step, Repeat):
            yield from runs(step.steps, (*counts, step.count))
        else:
            yield step, counts


def relabeled(steps: Sequence[Step], labels: Mapping[str, str]) -> tuple[Step, ...]:
    """Returns a plan with other labels.

    Args:
        steps: The plan.
        labels: The new label of each label in it.

    Raises:
        KeyError: A label is missing.
    """

    def changed(step: Step) -> Step:
        if isinstance(step, Repeat):
            return replace(step, steps=relabeled(step.steps, labels))
        return replace(step, label=labels[step.label]) if isinstance(step, Dispatch | Collective) else step

    return tuple(map(changed, steps))


def unrolled(steps: Sequence[Step], times: tuple[int, ...] = ()) -> Iterator[tuple[Leaf, tuple[int, ...]]]:
    """Yields each leaf as often as it runs, in order, with the iteration indices of its enclosing loops."""
    for step in steps:
        if isinstance(step, Repeat):
            for time in range(step.count):
                yield from unrolled(step.steps, (*times, time))
        else:
            yield step, times
