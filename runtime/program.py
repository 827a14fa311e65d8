"""A compiled program as data: kernels, buffers, named tensors and a plan. Backends run it, and files store it."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tensorgrad.runtime.errors import MALFORMED, InputError, ProgramError, TargetError
from tensorgrad.runtime.files import check_shape, read_safetensors, write_safetensors
from tensorgrad.runtime.notebooks import html_table
from tensorgrad.runtime.plan import (
    COLLECTIVES,
    COUNTS_BYTES,
    HOST_DTYPES,
    MOST_MOVING,
    PERSISTENT_ROLES,
    TENSOR_BUFFERS,
    WIDENED,
    WORD,
    Binding,
    Buffer,
    Collective,
    Copy,
    Dispatch,
    Exchange,
    Kernel,
    Leaf,
    ProgramRole,
    Repeat,
    Step,
    TensorSlot,
    Wait,
    fault_name,
    runs,
    touched,
    unrolled,
)
from tensorgrad.runtime.requests import check_requests
from tensorgrad.runtime.schema import Name, check, read, write
from tensorgrad.runtime.shaders import check_shader
from tensorgrad.runtime.target import Features, Target, check_features
from tensorgrad.runtime.texts import json_text, parsed_json
from tensorgrad.runtime.weights import F32, SCALE, unpacked

__all__ = [
    "HOST_DTYPES",
    "PERSISTENT_ROLES",
    "WIDENED",
    "Binding",
    "Buffer",
    "Collective",
    "Copy",
    "Dispatch",
    "Exchange",
    "Kernel",
    "Leaf",
    "Program",
    "Repeat",
    "Step",
    "TensorSlot",
    "Wait",
    "fault_name",
    "requirements",
    "runs",
    "touched",
    "unrolled",
]

FORMAT = "tensorgrad-program"
FORMAT_VERSION = 2
MOST_COMMANDS = 1 << 22
"""The most dispatches and copies in a step, as each is encoded anew in every step."""
MOST_LOOPS = 32
"""The most loops inside each other."""
DISPATCH_COSTS = "dispatch_costs"
"""The statistic with the cost of each dispatch and copy of the plan, in order: bytes moved, floating-point ops."""
LOOP_ITERATIONS = "loop_iterations"
"""The statistic with the most loop iterations that one invocation of a kernel runs, summed over its loops."""


@dataclass(frozen=True)
class Program:
    """A compiled program: everything that a backend needs to run it, independent of the compiler.

    Attributes:
        name: The program's name in error messages.
        kernels: The kernels, without duplicates.
        buffers: The allocations, which the rest of the program refers to by index.
        tensors: The named tensors. Names are unique per role, and parameters and state share one set of names.
        plan: The steps to execute, in order.
        statistics: Figures from the compiler, as JSON values.
        target: The minimal target that runs it; `None` if unknown.
        format_version: The version of this format.
    """

    name: Name
    kernels: tuple[Kernel, ...]
    buffers: tuple[Buffer, ...]
    tensors: tuple[TensorSlot, ...]
    plan: tuple[Step, ...]
    statistics: Mapping[str, Any] = field(default_factory=dict)
    target: Target | None = None
    format_version: int = FORMAT_VERSION

    def __repr__(self) -> str:
        dispatches = sum(isinstance(step, Dispatch) for step, _ in runs(self.plan))
        target = "" if self.target is None else f", target={self.target.name!r}"
        return (
            f"Program({self.name!r}, kernels={len(self.kernels)}, dispatches={dispatches}, "
            f"tensors={len(self.tensors)}, bytes={sum(buffer.size for buffer in self.buffers)}{target})"
        )

    def _repr_html_(self) -> str:
        """Returns the plan as a table, for notebooks."""
        rows = [self._row(step) for step, _ in runs(self.plan)]
        return html_table(repr(self), ("from", "kernel", "workgroups"), rows)

    def _row(self, step: Leaf) -> tuple[str, str, str]:
        match step:
            case Dispatch():
                return step.label, self.kernels[step.kernel].entry, " x ".join(map(str, step.workgroups))
            case Copy():
                return "", "copy", f"{step.size:,} bytes"
            case Collective():
                kind = step.kind if step.request is None else f"{step.kind}, request {step.request}"
                return step.label, kind, f"{sum(size for _, _, size in step.reads):,} bytes"
            case Wait():
                return "", "wait", f"request {step.request}"

    def slots(self, *roles: str) -> dict[str, TensorSlot]:
        """Returns the tensors of these roles, by name."""
        return {slot.name: slot for slot in self.tensors if slot.role in roles}

    def validate(self) -> None:
        """Checks every field, index, range, alignment, access and name.

        Raises:
            ProgramError: The program is malformed; says how.
        """
        _check_loops(self.plan)
        check(self, ProgramError)
        self._check_relations()

    def _check_relations(self) -> None:
        """Checks what the annotations of fields don't say."""
        _check_version(str(self.format_version), "format version")
        _check_kernels(self.kernels)
        _check_buffers(self.buffers)
        _check_tensors(self.tensors, self.buffers)
        shaders = any(kernel.language == "wgsl" for kernel in self.kernels)
        if shaders:
            _check_stored(self.tensors)
        commands = _commands(self.plan)
        _require(commands <= MOST_COMMANDS, f"a step runs {commands} dispatches and copies, at most {MOST_COMMANDS}")
        for position, (step, counts) in enumerate(runs(self.plan)):
            if isinstance(step, Dispatch):
                _check_dispatch(step, f"dispatch {position} ({step.label!r})", self, counts)
            elif isinstance(step, Collective):
                _check_collective(step, f"collective {position} ({step.label!r})", self.buffers)
            elif isinstance(step, Copy):
                _check_copy(step, f"copy {position}", self.buffers)
        _check_written(self.tensors, self.plan)
        check_requests(self.plan, is_native=not shaders)

    def check_fits(self, target: Target) -> None:
        """Checks that a device of this target can run the program.

        Raises:
            TargetError: A limit is exceeded, a kernel uses a feature that the target lacks or is written in another
                shader dialect, or the program assumes another subgroup size; says where.
        """
        for kernel in self.kernels:
            if kernel.language != target.language:
                raise TargetError(
                    f"program {self.name!r} has kernels in {kernel.language}, target {target.name!r} runs "
                    f"{target.language}: compile it for this target"
                )
        for buffer in self.buffers:
            _within(target, "max_buffer_size", buffer.size, f"buffer {buffer.name!r}")
        for kernel in self.kernels:
            where = f"kernel {kernel.entry!r}: workgroup {kernel.workgroup_size}"
            invocations = math.prod(kernel.workgroup_size)
            _within(target, "max_compute_invocations_per_workgroup", invocations, where)
            for axis, extent in zip("xyz", kernel.workgroup_size, strict=True):
                _within(target, f"max_compute_workgroup_size_{axis}", extent, where)
            _within(target, "max_compute_workgroup_storage_size", kernel.workgroup_storage, where)
        shaders = [kernel for kernel in self.kernels if kernel.language == "wgsl"]
        features = [
            check_features(shader.code, f"kernel {shader.entry!r} of {self.name!r}", target) for shader in shaders
        ]
        for step, _ in runs(self.plan):
            if isinstance(step, Dispatch):
                _check_dispatch_fits(step, f"dispatch {step.label!r}", target)
        self._check_loops_end(target)
        compiled = self.target.subgroup_size if self.target else None
        if compiled is not None and any(feature.subgroups for feature in features) and compiled != target.subgroup_size:
            raise TargetError(
                f"program {self.name!r} was compiled for subgroups of {compiled}, "
                f"target {target.name!r} has {target.subgroup_size or 'subgroups of varying size'}: compile it again"
            )

    def _check_loops_end(self, target: Target) -> None:
        """Checks that the target would not cut off a kernel's loops."""
        needed, limit = self.statistics.get(LOOP_ITERATIONS), target.max_loop_iterations
        if limit is not None and isinstance(needed, int) and needed > limit:
            raise TargetError(
                f"program {self.name!r} runs up to {needed} iterations in the loops of a kernel, and target "
                f"{target.name!r} ends them silently after {limit}: compile it for this target"
            )

    def save(self, path: str | os.PathLike[str], state: Mapping[str, np.ndarray] | None = None) -> None:
        """Writes the program to a safetensors file, with its parameters and state if given.

        The file is replaced atomically.

        Args:
            path: The file.
            state: The values of all parameters and state by name, as `Executable.read` returns them.

        Raises:
            ProgramError: The program is malformed, or its statistics or names can't be stored as JSON.
            InputError: The state doesn't match the program.
            OSError: The file can't be written.
        """
        metadata = {"program": program_to_json(self), **HEADER}
        write_safetensors(path, {**constants_of(self), **checked_state(self, state)}, metadata)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> tuple[Program, dict[str, np.ndarray]]:
        """Reads a file written by `save`.

        Returns:
            The program, and the values of parameters and state by name: all of them, or none if none were saved.

        Raises:
            ProgramError: The file doesn't hold a program, holds a malformed one, or one of another format version.
            OSError: The file can't be read.
        """
        metadata, tensors = read_program_file(path)
        program = program_from_json(metadata.get("program", ""), tensors, str(path))
        return program, state_in(program, tensors, str(path))


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ProgramError(message)


def _check_version(version: str | None, what: str) -> None:
    """Checks the version of a format, and says who is behind: the file or this release."""
    is_newer = version is not None and version.isdecimal() and int(version[:9]) > FORMAT_VERSION
    advice = "update tensorgrad" if is_newer else "save the program again"
    _require(version == str(FORMAT_VERSION), f"{what} {version}; this release reads version {FORMAT_VERSION}: {advice}")


def _unique(names: Iterable[str], what: str) -> None:
    seen: set[str] = set()
    for name in names:
        _require(name not in seen, f"two {what}s are named {name!r}")
        seen.add(name)


def _check_kernels(kernels: Sequence[Kernel]) -> None:
    _unique((kernel.entry for kernel in kernels if kernel.language == "llvm"), "kernel")
    for index, kernel in enumerate(kernels):
        where = f"kernel {index} ({kernel.entry!r})"
        _require(kernel.language == kernels[0].language, f"{where}: a program's kernels are in one language")
        if kernel.language == "wgsl":
            check_shader(kernel.code, where)
        else:
            _require(f"define void @{kernel.entry}(" in kernel.code, f"{where}: its code does not define it")


def _check_buffers(buffers: Sequence[Buffer]) -> None:
    _unique((buffer.name for buffer in buffers), "buffer")
    for buffer in buffers:
        where = f"buffer {buffer.name!r}"
        if buffer.role == ProgramRole.CONSTANT:
            _require(buffer.data is not None, f"{where}: a constant has no data")
        else:
            _require(buffer.data is None, f"{where}: only constants have data")
        size = len(buffer.data or b"")
        _require(size <= buffer.size, f"{where}: {size} bytes of data in {buffer.size}")
    inputs = [buffer.name for buffer in buffers if buffer.role == ProgramRole.INPUT]
    _require(len(inputs) <= 1, f"more than one input buffer: {', '.join(inputs)}")


def _check_tensors(tensors: Sequence[TensorSlot], buffers: Sequence[Buffer]) -> None:
    for slot in tensors:
        where = f"{slot.role} {slot.name!r}"
        stored = (None, WIDENED.get(slot.dtype))
        _require(slot.stored in stored, f"{where}: {slot.dtype} is not stored as {slot.stored!r}")
        try:
            check_shape(where, slot.shape)
        except ValueError as error:
            raise ProgramError(str(error)) from None
        _check_range(where, slot.buffer, slot.offset, slot.size, buffers)
        role, needed = buffers[slot.buffer].role, TENSOR_BUFFERS[slot.role]
        _require(role == needed, f"{where} lies in a buffer of role {role!r}, not {needed!r}")
        if slot.role == ProgramRole.SCALAR:
            _require(slot.shape == (), f"{where}: a scalar of shape {slot.shape}")
        if slot.formula is not None:
            _require(slot.role == ProgramRole.SCALAR, f"{where}: only scalars have a formula")
    _unique((slot.name for slot in tensors if slot.role in PERSISTENT_ROLES), "parameter or state tensor")
    for role in (ProgramRole.INPUT, ProgramRole.SCALAR, ProgramRole.OUTPUT):
        _unique((slot.name for slot in tensors if slot.role == role), role)
    _check_disjoint([slot for slot in tensors if slot.role != ProgramRole.OUTPUT and slot.size])


def _check_stored(tensors: Sequence[TensorSlot]) -> None:
    """Checks dtypes for shaders, which have no f64 and can't store integers narrower than a word."""
    for slot in tensors:
        where = f"{slot.role} {slot.name!r}"
        _require(slot.dtype != "f64", f"{where}: f64 is for native code alone")
        wide = slot.dtype not in WIDENED or slot.stored is not None or slot.dtype == "bool"
        _require(wide, f"{where}: shaders store no {slot.dtype}, but {WIDENED.get(slot.dtype)}")


def _check_disjoint(slots: Sequence[TensorSlot]) -> None:
    """Checks that tensors don't overlap. The caller excludes outputs, which may share one value."""
    ordered = sorted(slots, key=lambda slot: (slot.buffer, slot.offset))
    for first, second in itertools.pairwise(ordered):
        _require(
            first.buffer != second.buffer or first.offset + first.size <= second.offset,
            f"{first.role} {first.name!r} and {second.role} {second.name!r} overlap",
        )


def _check_range(where: str, buffer: int, offset: int, size: int, buffers: Sequence[Buffer]) -> None:
    _require(buffer < len(buffers), f"{where}: there is no buffer {buffer}")
    room, end = buffers[buffer].size, offset + size
    if end > room:
        raise ProgramError(f"{where}: bytes {offset} to {end} of buffer {buffers[buffer].name!r}, which has {room}")


def _check_loops(steps: Sequence[Step], depth: int = 0) -> None:
    """Checks that a plan's loops have steps, and are not nested too deeply for recursive functions."""
    _require(depth <= MOST_LOOPS, f"more than {MOST_LOOPS} loops are nested")
    for step in steps:
        if isinstance(step, Repeat):
            _require(len(step.steps) > 0, "a loop has no steps")
            _check_loops(step.steps, depth + 1)


def _commands(steps: Sequence[Step]) -> int:
    """Returns the number of dispatches and copies that run, over all loop iterations."""
    return sum(step.count * _commands(step.steps) if isinstance(step, Repeat) else 1 for step in steps)


def _check_dispatch(step: Dispatch, where: str, program: Program, counts: tuple[int, ...]) -> None:
    _require(step.kernel < len(program.kernels), f"{where}: no kernel {step.kernel}")
    for index, binding in enumerate(step.bindings):
        location, buffer, moved = f"{where}, binding {index}", binding.buffer, 0
        if strides := binding.strides:
            _require(len(strides) == len(counts), f"{location} moves in {len(strides)} of {len(counts)} loops")
            _require(binding.access == "read", f"{location} moves and is written")
            moved = sum(stride * (count - 1) for stride, count in zip(strides, counts, strict=True))
        _check_range(location, buffer, binding.offset, binding.size + moved, program.buffers)
        if program.buffers[buffer].role == ProgramRole.CONSTANT and binding.access != "read":
            raise ProgramError(f"{location} writes constant {program.buffers[buffer].name!r}")
    _check_aliasing(step.bindings, where, program.buffers)
    if step.indirect is not None:
        buffer, offset = step.indirect
        _check_range(f"{where}, numbers of workgroups", buffer, offset, COUNTS_BYTES, program.buffers)
        _require(
            all(binding.buffer != buffer for binding in step.bindings), f"{where} binds its own numbers of workgroups"
        )


def _check_aliasing(bindings: Sequence[Binding], where: str, buffers: Sequence[Buffer]) -> None:
    """Checks that a dispatch uses each buffer with one access, as devices track it, and writes disjoint ranges."""
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
    _require(step.source != step.destination, f"{where}: within buffer {buffers[step.source].name!r}")
    _require(buffers[step.destination].role != ProgramRole.CONSTANT, f"{where} writes a constant")


def _check_collective(step: Collective, where: str, buffers: Sequence[Buffer]) -> None:
    _require(step.root < step.size, f"{where}: rank {step.root} of {step.size}")
    _require(len(step.parts) > 0, f"{where} is empty")
    inputs, outputs = COLLECTIVES[step.kind]
    for buffer, offset, size in (*step.reads, *step.writes):
        _check_range(where, buffer, offset, size, buffers)
    for part in step.parts:
        equal = part.count * (step.size if inputs else 1) == part.result_count * (step.size if outputs else 1)
        _require(equal, f"{where}: {part.count} elements become {part.result_count} in a group of {step.size}")
        _require(buffers[part.destination].role != ProgramRole.CONSTANT, f"{where} writes a constant")


def _check_written(tensors: Sequence[TensorSlot], plan: Sequence[Step]) -> None:
    """Checks that something writes each output, which would stay zero; what passes through is copied."""
    written: dict[int, list[tuple[int, int]]] = {slot.buffer: [] for slot in tensors if slot.role == ProgramRole.OUTPUT}
    for step, counts in runs(plan):
        for buffer, start, size, is_written in touched(step, counts):
            if is_written and buffer in written:
                written[buffer].append((start, start + size))
    for slot in tensors:
        if slot.role == ProgramRole.OUTPUT and slot.size:
            is_written = any(
                start < slot.offset + slot.size and slot.offset < end for start, end in written[slot.buffer]
            )
            _require(is_written, f"no step of the plan writes output {slot.name!r}")


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
        raise TargetError(f"{where}: {moving} bindings move with iterations, devices take {MOST_MOVING}")
    for index, binding in enumerate(step.bindings):
        _within(target, "max_storage_buffer_binding_size", binding.size, f"{where}, binding {index}")
        alignment = target.min_storage_buffer_offset_alignment
        for offset in (binding.offset, *binding.strides):
            if offset % alignment:
                raise TargetError(
                    f"{where}, binding {index}: offset {offset} is not a multiple of the {alignment} bytes "
                    f"of target {target.name!r}"
                )


def _check_state(slots: Mapping[str, TensorSlot], state: Mapping[str, np.ndarray], partial: bool) -> None:
    unknown, missing = sorted(state.keys() - slots.keys()), sorted(slots.keys() - state.keys())
    missing = [name for name in missing if not partial or slots[name].role != ProgramRole.STATE]
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


COARSEST_ALIGNMENT = 256
"""The coarsest alignment that a WebGPU device may require of binding offsets."""


def requirements(program: Program, compiled: Target) -> Target:
    """Returns the minimal target that runs a program.

    Args:
        program: The program to run.
        compiled: The target that it was compiled for, which may have higher limits.
    """
    dispatches = [step for step, _ in runs(program.plan) if isinstance(step, Dispatch)]
    bindings = [binding for step in dispatches for binding in step.bindings]
    offsets = [offset for binding in bindings for offset in (binding.offset, *binding.strides)]
    features = [Features.of(kernel.code) for kernel in program.kernels if kernel.language == "wgsl"]
    sizes = [max((kernel.workgroup_size[axis] for kernel in program.kernels), default=1) for axis in range(3)]
    subgroups = any(feature.subgroups for feature in features)
    return Target(
        name=f"the needs of {program.name}",
        max_storage_buffers_per_shader_stage=max((len(step.bindings) for step in dispatches), default=1) or 1,
        max_storage_buffer_binding_size=max((binding.size for binding in bindings), default=WORD),
        max_buffer_size=max((buffer.size for buffer in program.buffers), default=WORD),
        max_compute_workgroup_size_x=sizes[0],
        max_compute_workgroup_size_y=sizes[1],
        max_compute_workgroup_size_z=sizes[2],
        max_compute_invocations_per_workgroup=max(
            (math.prod(kernel.workgroup_size) for kernel in program.kernels), default=1
        ),
        max_compute_workgroup_storage_size=max((kernel.workgroup_storage for kernel in program.kernels), default=0)
        or 1,
        max_compute_workgroups_per_dimension=max((max(step.workgroups) for step in dispatches), default=1),
        min_storage_buffer_offset_alignment=math.gcd(COARSEST_ALIGNMENT, *offsets),
        f16=any(feature.f16 for feature in features),
        int64=any(feature.int64 for feature in features),
        subgroups=subgroups,
        subgroup_size=compiled.subgroup_size if subgroups else None,
        shader_dialect=compiled.shader_dialect if subgroups else "standard",
        language=compiled.language,
    )


HEADER = {"format": FORMAT, "format_version": str(FORMAT_VERSION)}
"""The first entries of a file's metadata."""


def read_program_file(path: str | os.PathLike[str]) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """Returns the metadata and tensors of a program file.

    Raises:
        ProgramError: The file doesn't hold a program, or one of another format version.
        OSError: The file can't be read.
    """
    metadata, tensors = read_safetensors(path, ProgramError)
    _require(metadata.get("format") == FORMAT, f"{path} holds no program")
    _check_version(metadata.get("format_version"), f"{path} is of format version")
    return metadata, tensors


def constants_of(program: Program, prefix: str = "") -> dict[str, np.ndarray]:
    """Returns the bytes of a program's constants, by their names in files."""
    return {
        f"{prefix}constant/{buffer.name}": np.frombuffer(buffer.data, np.uint8)
        for buffer in program.buffers
        if buffer.data is not None
    }


def checked_state(
    program: Program, state: Mapping[str, np.ndarray] | None, partial: bool = False
) -> dict[str, np.ndarray]:
    """Returns parameters and state, by their names in files.

    Args:
        program: The program.
        state: Their values, or `None`.
        partial: Whether state may be missing.

    Raises:
        InputError: They don't match the program.
    """
    if state is None:
        return {}
    slots = program.slots(*PERSISTENT_ROLES)
    _check_state(slots, state, partial)
    return {f"{slots[name].role}/{name}": np.asarray(value) for name, value in state.items()}


def state_in(
    program: Program, tensors: Mapping[str, np.ndarray], source: str, partial: bool = False
) -> dict[str, np.ndarray]:
    """Returns a program's parameters and state among a file's tensors, by name: all of them, or none.

    Args:
        program: The program.
        tensors: The file's tensors.
        source: The file's name in error messages.
        partial: Whether state may be missing.

    Raises:
        ProgramError: Some are missing, or have another shape or dtype.
    """
    slots = program.slots(*PERSISTENT_ROLES)
    keys = {f"{slot.role}/{name}": name for name, slot in slots.items()}
    state = {keys[key]: value for key, value in tensors.items() if key in keys}
    if state:
        try:
            for name, value in state.items():
                if slots[name].dtype == F32:
                    state[name] = unpacked(value, tensors.get(SCALE + name))
            _check_state(slots, state, partial)
        except InputError as error:
            raise ProgramError(f"{source}: {error}") from error
    return state


def program_to_json(program: Program) -> str:
    """Serializes a program to JSON, without the bytes of its constants.

    Raises:
        ProgramError: It is malformed, or its statistics or names can't be stored as JSON.
    """
    program.validate()
    try:
        return json_text(write(program))
    except (TypeError, ValueError) as error:
        raise ProgramError(f"program {program.name!r} has names or statistics that are not JSON: {error}") from error


def program_from_json(text: str, tensors: Mapping[str, np.ndarray], source: str, prefix: str = "") -> Program:
    """Deserializes a program from the text that `program_to_json` wrote.

    Args:
        text: Untrusted text.
        tensors: The tensors of its file, which include the program's constants.
        source: The file's name in error messages.
        prefix: The prefix of its constants' names.

    Raises:
        ProgramError: It is malformed; says how.
    """

    try:
        slim = read(Program, parsed_json(text))
        _check_loops(slim.plan)
        data = {name: array.tobytes() for name, array in tensors.items() if name.startswith(f"{prefix}constant/")}
        buffers = (replace(buffer, data=data.get(f"{prefix}constant/{buffer.name}")) for buffer in slim.buffers)
        program = replace(slim, buffers=tuple(buffers))
        program._check_relations()
    except (ProgramError, *MALFORMED) as error:
        raise ProgramError(f"{source} holds a malformed program: {error}") from error
    return program
