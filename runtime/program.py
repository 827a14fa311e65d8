"""A compiled program as data: kernels, buffers, named tensors and a plan. Backends run it, and files store it."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tensorgrad.runtime.errors import MALFORMED, InputError, ProgramError, TargetError
from tensorgrad.runtime.files import read_safetensors, write_safetensors
from tensorgrad.runtime.notebooks import html_table
from tensorgrad.runtime.plan import (
    HOST_DTYPES,
    MOST_MOVING,
    PERSISTENT_ROLES,
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
from tensorgrad.runtime.schema import Name, check, read, write
from tensorgrad.runtime.target import Features, Target, check_features
from tensorgrad.runtime.texts import json_text, parsed_json
from tensorgrad.runtime.validation import check_loops, check_parts, require
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
        check_loops(self.plan)
        check(self, ProgramError)
        self._check_relations()

    def _check_relations(self) -> None:
        """Checks what the annotations of fields don't say."""
        _check_version(str(self.format_version), "format version")
        check_parts(self.kernels, self.buffers, self.tensors, self.plan)

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


def _check_version(version: str | None, what: str) -> None:
    """Checks the version of a format, and says who is behind: the file or this release."""
    is_newer = version is not None and version.isdecimal() and int(version[:9]) > FORMAT_VERSION
    advice = "update tensorgrad" if is_newer else "save the program again"
    require(version == str(FORMAT_VERSION), f"{what} {version}; this release reads version {FORMAT_VERSION}: {advice}")


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
    require(metadata.get("format") == FORMAT, f"{path} holds no program")
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
        check_loops(slim.plan)
        data = {name: array.tobytes() for name, array in tensors.items() if name.startswith(f"{prefix}constant/")}
        buffers = (replace(buffer, data=data.get(f"{prefix}constant/{buffer.name}")) for buffer in slim.buffers)
        program = replace(slim, buffers=tuple(buffers))
        program._check_relations()
    except (ProgramError, *MALFORMED) as error:
        raise ProgramError(f"{source} holds a malformed program: {error}") from error
    return program
