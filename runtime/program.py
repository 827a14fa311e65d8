"""A compiled program as data: kernels, buffers, named tensors and a plan; what backends run and files hold."""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from tensorgrad.runtime.errors import FormulaError, InputError, ProgramError, TargetError
from tensorgrad.runtime.files import read_safetensors, write_safetensors
from tensorgrad.runtime.formula import Formula
from tensorgrad.runtime.target import Target, check_features

FORMAT = "tensorgrad-program"
FORMAT_VERSION = 1
WORD = 4
"""Offsets and sizes on a device are multiples of four bytes."""

ELEMENT_BYTES = {"f32": 4, "i32": 4, "u32": 4, "bool": 4, "f16": 2}
"""Bytes of an element on the device, where a bool is one 32-bit word."""
HOST_DTYPES = {"f32": np.float32, "i32": np.int32, "u32": np.uint32, "bool": np.bool_, "f16": np.float16}
"""The numpy dtype that a tensor has outside the device."""

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


@dataclass(frozen=True)
class Kernel:
    """One compute shader. `language` is "wgsl"; `entry` is the entry point's name in `code`."""

    language: str
    entry: str
    code: str
    workgroup_size: tuple[int, int, int]


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

    A scalar has a host formula where it is computed at each step, else the caller gives it by name.
    """

    name: str
    role: str
    shape: tuple[int, ...]
    dtype: str
    buffer: int
    offset: int
    formula: str | None = None

    @property
    def size(self) -> int:
        """Bytes on the device, rounded up to whole words."""
        return -(-math.prod(self.shape) * ELEMENT_BYTES[self.dtype] // WORD) * WORD

    def view(self, raw: np.ndarray, offset: int = 0) -> np.ndarray:
        """The tensor in the device's bytes `raw`, from `offset`: shares memory; a bool is a uint32."""
        dtype = np.dtype(np.uint32 if self.dtype == "bool" else HOST_DTYPES[self.dtype])
        size = math.prod(self.shape) * dtype.itemsize
        return raw[offset : offset + size].view(dtype).reshape(self.shape)

    def decode(self, raw: np.ndarray) -> np.ndarray:
        """The tensor that the device's bytes `raw` say, in its dtype on the host."""
        array = self.view(raw)
        return np.asarray(array != 0) if self.dtype == "bool" else array

    def encode(self, array: np.ndarray) -> np.ndarray:
        """The device's bytes for the tensor: whole words, padded with zeros."""
        raw = np.zeros(self.size, np.uint8)
        self.view(raw)[...] = array
        return raw


@dataclass(frozen=True)
class Binding:
    """A range of a buffer, as a kernel sees it; `access` is "read" or "read_write".

    In loops, `strides` says by how many bytes the range moves on each time, one number for each loop around the
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
class Repeat:
    """Runs its steps, in order, so many times; the bindings with strides move on."""

    count: int
    steps: tuple[Step, ...]


Step: TypeAlias = Dispatch | Copy | Repeat
STEP_TYPES: dict[str, type[Dispatch] | type[Copy] | type[Repeat]] = {
    "dispatch": Dispatch,
    "copy": Copy,
    "repeat": Repeat,
}

MOST_MOVING = 4
"""So many bindings of a dispatch may move from time to time: what every WebGPU device takes."""


def runs(steps: Sequence[Step], counts: tuple[int, ...] = ()) -> Iterator[tuple[Dispatch | Copy, tuple[int, ...]]]:
    """Each dispatch and copy of a plan once, with how often each loop around it runs, the outermost first."""
    for step in steps:
        if isinstance(step, Repeat):
            yield from runs(step.steps, (*counts, step.count))
        else:
            yield step, counts


def unrolled(steps: Sequence[Step], times: tuple[int, ...] = ()) -> Iterator[tuple[Dispatch | Copy, tuple[int, ...]]]:
    """Each dispatch and copy as often as it runs, in order, with the number of the time of each loop around it."""
    for step in steps:
        if isinstance(step, Repeat):
            for time in range(step.count):
                yield from unrolled(step.steps, (*times, time))
        else:
            yield step, times


@dataclass(frozen=True)
class Program:
    """A compiled program: what a backend needs to run it, and nothing of the compiler.

    Attributes:
        name: What messages call it.
        kernels: The shaders, each once.
        buffers: The allocations; indices elsewhere refer to them.
        tensors: The named tensors. Names are unique per role, and parameters and state share one set of names.
        plan: One step, in order.
        statistics: What the compiler counted; JSON values.
        target: What it was compiled for.
        format_version: The version of this format.
    """

    name: str
    kernels: tuple[Kernel, ...]
    buffers: tuple[Buffer, ...]
    tensors: tuple[TensorSlot, ...]
    plan: tuple[Step, ...]
    statistics: Mapping[str, Any] = field(default_factory=dict)
    target: Target | None = None
    format_version: int = FORMAT_VERSION

    def slots(self, *roles: str) -> dict[str, TensorSlot]:
        """The tensors of these roles, by name."""
        return {slot.name: slot for slot in self.tensors if slot.role in roles}

    def validate(self) -> None:
        """Checks every index, range, alignment, access and name.

        Raises:
            ProgramError: Something is malformed; says what.
        """
        _require(
            self.format_version == FORMAT_VERSION,
            f"format version {self.format_version}; this release reads version {FORMAT_VERSION}",
        )
        _check_kernels(self.kernels)
        _check_buffers(self.buffers)
        _check_tensors(self.tensors, self.buffers)
        _check_loops(self.plan)
        for position, (step, counts) in enumerate(runs(self.plan)):
            if isinstance(step, Dispatch):
                _check_dispatch(step, f"dispatch {position} ({step.label!r})", self, counts)
            else:
                _check_copy(step, f"copy {position}", self.buffers)

    def check_fits(self, target: Target) -> None:
        """Checks that a device of this target can run the program.

        Raises:
            TargetError: A limit is exceeded, a kernel uses what the target lacks or is written in another shader
                dialect, or the program counts on another subgroup size; says where.
        """
        for buffer in self.buffers:
            _within(target, "max_buffer_size", buffer.size, f"buffer {buffer.name!r}")
        for kernel in self.kernels:
            where = f"kernel {kernel.entry!r}: workgroup {kernel.workgroup_size}"
            invocations = math.prod(kernel.workgroup_size)
            _within(target, "max_compute_invocations_per_workgroup", invocations, where)
            for axis, extent in zip("xyz", kernel.workgroup_size, strict=True):
                _within(target, f"max_compute_workgroup_size_{axis}", extent, where)
        features = [check_features(one.code, f"kernel {one.entry!r} of {self.name!r}", target) for one in self.kernels]
        for step, _ in runs(self.plan):
            if isinstance(step, Dispatch):
                _check_dispatch_fits(step, f"dispatch {step.label!r}", target)
        compiled = self.target.subgroup_size if self.target else None
        if compiled is not None and any(one.subgroups for one in features) and compiled != target.subgroup_size:
            raise TargetError(
                f"program {self.name!r} was compiled for subgroups of {compiled}, "
                f"target {target.name!r} has {target.subgroup_size or 'subgroups of varying size'}: compile it again"
            )

    def save(self, path: str | os.PathLike[str], state: Mapping[str, np.ndarray] | None = None) -> None:
        """Writes the program to one safetensors file, with its parameters and state if they are given.

        The file is replaced at once, when it is complete.

        Args:
            path: The file.
            state: The values of all parameters and state by name, as `Executable.read` gives them.

        Raises:
            ProgramError: The program is malformed, or its statistics are not JSON.
            InputError: The state is not the program's.
            OSError: The file can't be written.
        """
        self.validate()
        tensors = {
            f"constant/{buffer.name}": np.frombuffer(buffer.data, np.uint8)
            for buffer in self.buffers
            if buffer.data is not None
        }
        if state is not None:
            slots = self.slots(*PERSISTENT_ROLES)
            _check_state(slots, state)
            tensors |= {f"{slots[name].role}/{name}": np.asarray(value) for name, value in state.items()}
        metadata = {
            "format": FORMAT,
            "format_version": str(self.format_version),
            "program": _to_json(self),
        }
        write_safetensors(path, tensors, metadata)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> tuple[Program, dict[str, np.ndarray]]:
        """Reads a file that `save` wrote.

        Returns:
            The program, and the values of parameters and state by name: all, or none if none were saved.

        Raises:
            ProgramError: The file holds no program, one of another format version, or a malformed one.
            OSError: The file can't be read.
        """
        metadata, tensors = read_safetensors(path, ProgramError)
        version = metadata.get("format_version")
        _require(metadata.get("format") == FORMAT, f"{path} holds no program")
        _require(
            version == str(FORMAT_VERSION),
            f"{path} is of format version {version}; this release reads version {FORMAT_VERSION}",
        )
        program = _from_json(metadata.get("program", ""), tensors, str(path))
        slots = program.slots(*PERSISTENT_ROLES)
        keys = {f"{slot.role}/{name}": name for name, slot in slots.items()}
        state = {keys[key]: value for key, value in tensors.items() if key in keys}
        if state:
            try:
                _check_state(slots, state)
            except InputError as error:
                raise ProgramError(f"{path}: {error}") from error
        return program, state


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ProgramError(message)


def _is_whole(*values: object) -> bool:
    return all(isinstance(value, int) and not isinstance(value, bool) and value >= 0 for value in values)


def _extents(values: Sequence[int], where: str) -> None:
    _require(
        len(values) == 3 and _is_whole(*values) and all(values), f"{where} must be three positive integers: {values}"
    )


def _unique(names: Iterable[str], what: str) -> None:
    seen: set[str] = set()
    for name in names:
        _require(isinstance(name, str) and name != "", f"a {what} has no name")
        _require(name not in seen, f"two {what}s are named {name!r}")
        seen.add(name)


def _check_kernels(kernels: Sequence[Kernel]) -> None:
    for index, kernel in enumerate(kernels):
        where = f"kernel {index} ({kernel.entry!r})"
        _require(kernel.language == "wgsl", f"{where}: unknown language {kernel.language!r}")
        _require(kernel.entry.isidentifier(), f"{where}: its entry point is no identifier")
        _extents(kernel.workgroup_size, f"{where}: workgroup_size")


def _check_buffers(buffers: Sequence[Buffer]) -> None:
    _unique((buffer.name for buffer in buffers), "buffer")
    for buffer in buffers:
        where = f"buffer {buffer.name!r}"
        _require(buffer.role in BUFFER_ROLES, f"{where}: unknown role {buffer.role!r}")
        _require(
            _is_whole(buffer.size) and buffer.size > 0 and buffer.size % WORD == 0,
            f"{where}: its size must be a positive multiple of {WORD} bytes, it is {buffer.size}",
        )
        if buffer.role == "constant":
            _require(buffer.data is not None, f"{where}: a constant has no data")
        else:
            _require(buffer.data is None, f"{where}: only constants have data")
        size = len(buffer.data or b"")
        _require(size <= buffer.size, f"{where}: {size} bytes of data in {buffer.size}")
    inputs = [buffer.name for buffer in buffers if buffer.role == "input"]
    _require(len(inputs) <= 1, f"more than one input buffer: {', '.join(inputs)}")


def _check_tensors(tensors: Sequence[TensorSlot], buffers: Sequence[Buffer]) -> None:
    for slot in tensors:
        where = f"{slot.role} {slot.name!r}"
        _require(slot.role in TENSOR_BUFFERS, f"tensor {slot.name!r}: unknown role {slot.role!r}")
        _require(slot.dtype in ELEMENT_BYTES, f"{where}: unknown dtype {slot.dtype!r}")
        _require(_is_whole(*slot.shape), f"{where}: bad shape {slot.shape}")
        _check_range(where, slot.buffer, slot.offset, slot.size, buffers)
        role, needed = buffers[slot.buffer].role, TENSOR_BUFFERS[slot.role]
        _require(role == needed, f"{where} lies in a buffer of role {role!r}, not {needed!r}")
        if slot.role == "scalar":
            _require(slot.shape == (), f"{where}: a scalar of shape {slot.shape}")
        if slot.formula is not None:
            _require(slot.role == "scalar", f"{where}: only scalars have a formula")
            try:
                Formula(slot.formula)
            except FormulaError as error:
                raise ProgramError(f"{where}: {error}") from error
    _unique((slot.name for slot in tensors if slot.role in PERSISTENT_ROLES), "parameter or state tensor")
    for role in ("input", "scalar", "output"):
        _unique((slot.name for slot in tensors if slot.role == role), role)
    _check_disjoint([slot for slot in tensors if slot.role != "output" and slot.size])


def _check_disjoint(slots: Sequence[TensorSlot]) -> None:
    """Two outputs may be one value; nothing else may share memory."""
    ordered = sorted(slots, key=lambda slot: (slot.buffer, slot.offset))
    for first, second in itertools.pairwise(ordered):
        _require(
            first.buffer != second.buffer or first.offset + first.size <= second.offset,
            f"{first.role} {first.name!r} and {second.role} {second.name!r} overlap",
        )


def _check_range(where: str, buffer: int, offset: int, size: int, buffers: Sequence[Buffer]) -> None:
    _require(_is_whole(buffer) and buffer < len(buffers), f"{where}: there is no buffer {buffer}")
    _require(_is_whole(offset, size), f"{where}: bad range {offset}, {size}")
    _require(offset % WORD == 0 and size % WORD == 0, f"{where}: range {offset}, {size} is not in whole words")
    room = buffers[buffer].size
    _require(
        offset + size <= room,
        f"{where}: bytes {offset} to {offset + size} of buffer {buffers[buffer].name!r}, which has {room}",
    )


def _check_loops(steps: Sequence[Step]) -> None:
    for step in steps:
        if isinstance(step, Repeat):
            _require(_is_whole(step.count) and step.count > 0, f"a loop runs {step.count} times")
            _check_loops(step.steps)


def _check_dispatch(step: Dispatch, where: str, program: Program, counts: tuple[int, ...]) -> None:
    _require(_is_whole(step.kernel) and step.kernel < len(program.kernels), f"{where}: no kernel {step.kernel}")
    _extents(step.workgroups, f"{where}: workgroups")
    for index, binding in enumerate(step.bindings):
        here = f"{where}, binding {index}"
        strides = binding.strides
        _require(not strides or len(strides) == len(counts), f"{here} moves in {len(strides)} of {len(counts)} loops")
        _require(_is_whole(*strides) and all(stride % WORD == 0 for stride in strides), f"{here}: strides {strides}")
        _require(not strides or binding.access == "read", f"{here} moves and is written")
        moved = sum(stride * (count - 1) for stride, count in zip(strides, counts, strict=False))
        _check_range(here, binding.buffer, binding.offset, binding.size + moved, program.buffers)
        _require(binding.size > 0, f"{here} is empty")
        _require(binding.access in ("read", "read_write"), f"{here}: unknown access {binding.access!r}")
        buffer = program.buffers[binding.buffer]
        _require(buffer.role != "constant" or binding.access == "read", f"{here} writes constant {buffer.name!r}")
    _check_aliasing(step.bindings, where, program.buffers)
    if step.indirect is not None:
        buffer, offset = step.indirect
        _check_range(f"{where}, numbers of workgroups", buffer, offset, 3 * WORD, program.buffers)
        _require(
            all(binding.buffer != buffer for binding in step.bindings), f"{where} binds its own numbers of workgroups"
        )


def _check_aliasing(bindings: Sequence[Binding], where: str, buffers: Sequence[Buffer]) -> None:
    """Devices track use per buffer: within a dispatch one access each, and written ranges are disjoint."""
    ordered = sorted(bindings, key=lambda binding: (binding.buffer, binding.offset))
    for first, second in itertools.pairwise(ordered):
        if first.buffer != second.buffer:
            continue
        name = buffers[first.buffer].name
        _require(first.access == second.access, f"{where}: buffer {name!r} is bound both 'read' and 'read_write'")
        _require(
            first.access == "read" or first.offset + first.size <= second.offset,
            f"{where}: two writable bindings of buffer {name!r} overlap",
        )


def _check_copy(step: Copy, where: str, buffers: Sequence[Buffer]) -> None:
    _check_range(f"{where}, source", step.source, step.source_offset, step.size, buffers)
    _check_range(f"{where}, destination", step.destination, step.destination_offset, step.size, buffers)
    _require(step.size > 0, f"{where} is empty")
    _require(step.source != step.destination, f"{where}: within buffer {buffers[step.source].name!r}")
    _require(buffers[step.destination].role != "constant", f"{where} writes a constant")


def _within(target: Target, limit: str, value: int, where: str) -> None:
    allowed = getattr(target, limit)
    if value > allowed:
        raise TargetError(f"{where}: {value} exceeds {limit} = {allowed} of target {target.name!r}")


def _check_dispatch_fits(step: Dispatch, where: str, target: Target) -> None:
    _within(target, "max_storage_buffers_per_shader_stage", len(step.bindings), f"{where}: its bindings")
    for extent in step.workgroups:
        _within(target, "max_compute_workgroups_per_dimension", extent, f"{where}: workgroups")
    moving = sum(1 for binding in step.bindings if binding.strides)
    if moving > MOST_MOVING:
        raise TargetError(f"{where}: {moving} bindings move from time to time, devices take {MOST_MOVING}")
    for index, binding in enumerate(step.bindings):
        _within(target, "max_storage_buffer_binding_size", binding.size, f"{where}, binding {index}")
        alignment = target.min_storage_buffer_offset_alignment
        for offset in (binding.offset, *binding.strides):
            if offset % alignment:
                raise TargetError(
                    f"{where}, binding {index}: offset {offset} is no multiple of the {alignment} bytes "
                    f"of target {target.name!r}"
                )


def _check_state(slots: Mapping[str, TensorSlot], state: Mapping[str, np.ndarray]) -> None:
    unknown, missing = sorted(state.keys() - slots.keys()), sorted(slots.keys() - state.keys())
    if unknown or missing:
        parts = [("unknown", unknown), ("missing", missing)]
        raise InputError("state: " + "; ".join(f"{kind} {', '.join(names)}" for kind, names in parts if names))
    for name, value in state.items():
        slot, array = slots[name], np.asarray(value)
        if array.shape != slot.shape or array.dtype != HOST_DTYPES[slot.dtype]:
            raise InputError(
                f"{slot.role} {name!r}: expected {slot.dtype} of shape {slot.shape}, "
                f"got {array.dtype} of shape {array.shape}"
            )


def _to_json(program: Program) -> str:
    """The program without the bytes of its constants."""
    slim = replace(program, buffers=tuple(replace(buffer, data=None) for buffer in program.buffers))
    content = asdict(slim)
    content["plan"] = [_step_entry(step) for step in program.plan]
    try:
        return json.dumps(content, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ProgramError(f"program {program.name!r} has statistics that are not JSON: {error}") from error


def _step_entry(step: Step) -> dict[str, Any]:
    kinds = {step_type: kind for kind, step_type in STEP_TYPES.items()}
    entry = {"op": kinds[type(step)], **asdict(step)}
    if isinstance(step, Repeat):
        entry["steps"] = [_step_entry(inner) for inner in step.steps]
    return entry


def _from_json(text: str, tensors: Mapping[str, np.ndarray], source: str) -> Program:
    def constant(entry: dict[str, Any]) -> Buffer:
        data = tensors.get(f"constant/{entry['name']}")
        return Buffer(**{**entry, "data": None if data is None else data.tobytes()})

    def step(entry: dict[str, Any]) -> Step:
        kind = STEP_TYPES[entry.pop("op")]
        if kind is Repeat:
            return Repeat(entry["count"], tuple(map(step, entry["steps"])))
        if kind is Dispatch:
            entry["bindings"] = tuple(bound(binding) for binding in entry["bindings"])
            entry["workgroups"] = tuple(entry["workgroups"])
            entry["indirect"] = None if entry.get("indirect") is None else tuple(entry["indirect"])
        return kind(**entry)

    def bound(entry: dict[str, Any]) -> Binding:
        return Binding(**{**entry, "strides": tuple(entry.get("strides", ()))})

    def kernel(entry: dict[str, Any]) -> Kernel:
        return Kernel(**{**entry, "workgroup_size": tuple(entry["workgroup_size"])})

    def slot(entry: dict[str, Any]) -> TensorSlot:
        return TensorSlot(**{**entry, "shape": tuple(entry["shape"])})

    readers: dict[str, Any] = {"kernels": kernel, "buffers": constant, "tensors": slot, "plan": step}
    try:
        content: dict[str, Any] = json.loads(text)
        content |= {key: tuple(map(read, content[key])) for key, read in readers.items()}
        target = content.pop("target")
        program = Program(**content, target=None if target is None else Target.from_fields(target))
        program.validate()
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ProgramError(f"{source} holds a malformed program: {type(error).__name__}: {error}") from error
    return program
