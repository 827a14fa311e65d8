"""Compilation targets: a device's limits and features, as data."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from tensorgrad.runtime.errors import TargetError
from tensorgrad.runtime.schema import Name, Positive, Rule, check, one_of, write
from tensorgrad.runtime.texts import parsed_json

MEBIBYTE = 1 << 20
SHADER_DIALECTS = ("naga", "standard")
LANGUAGES = ("wgsl", "llvm")
Alignment: TypeAlias = Annotated[
    int, Rule("a power of two from 4", lambda value: value >= 4 and not value & (value - 1))
]


@dataclass(frozen=True)
class Target:
    """Limits and features of a device; the defaults are those that every WebGPU device supports.

    Sizes are in bytes. The limits have their WebGPU names.

    Attributes:
        name: The target's name in error messages.
        f16: Whether kernels may compute with and store f16.
        int64: Whether kernels may compute with and store 64-bit integers, which standard WGSL doesn't have.
        subgroups: Whether kernels may use subgroup operations.
        subgroup_size: The number of lanes of every subgroup, None if it is unknown or varies.
        software: Whether it is a GPU emulated on a CPU.
        max_loop_iterations: The number of iterations, over all loops of an invocation, after which the device silently
            ends the loops; None if there is no such limit.
        shader_dialect: The WGSL dialect: "naga" (wgpu) or "standard" (browsers, Dawn).
        language: The kernel language: "wgsl", or "llvm" for native code on a CPU, which has no limit on bindings and
            supports f64.
        vector_bytes: The size of a CPU vector register: 16 with NEON, 32 with AVX2, 64 with AVX-512.
        bf16_dot: Whether native code may add products of pairs of bf16 to f32, as AVX512-BF16 does.
        check_bounds: Whether kernels check every index before an access: native code reports the first that is out of
            bounds, and shaders stay within.

    Raises:
        TargetError: A field's value is out of range; names the field.
    """

    name: Name = "webgpu-default"
    max_storage_buffers_per_shader_stage: Positive = 8
    max_storage_buffer_binding_size: Positive = 128 * MEBIBYTE
    max_buffer_size: Positive = 256 * MEBIBYTE
    max_compute_workgroup_size_x: Positive = 256
    max_compute_workgroup_size_y: Positive = 256
    max_compute_workgroup_size_z: Positive = 64
    max_compute_invocations_per_workgroup: Positive = 256
    max_compute_workgroup_storage_size: Positive = 16384
    max_compute_workgroups_per_dimension: Positive = 65535
    min_storage_buffer_offset_alignment: Alignment = 256
    f16: bool = False
    int64: bool = False
    subgroups: bool = False
    subgroup_size: Positive | None = None
    software: bool = False
    max_loop_iterations: Positive | None = None
    shader_dialect: Annotated[str, one_of(*SHADER_DIALECTS)] = "naga"
    language: Annotated[str, one_of(*LANGUAGES)] = "wgsl"
    vector_bytes: Annotated[int, one_of(16, 32, 64)] = 32
    bf16_dot: bool = False
    check_bounds: bool = False

    def __post_init__(self) -> None:
        check(self, lambda error: TargetError(f"target field {error.place!r}: {error.text}"))

    @property
    def native(self) -> bool:
        """Whether kernels are native CPU code."""
        return self.language == "llvm"

    @property
    def most_lanes(self) -> int:
        """The most invocations of a one-dimensional workgroup."""
        return min(self.max_compute_invocations_per_workgroup, self.max_compute_workgroup_size_x)

    def to_json(self) -> str:
        """Returns all fields as a JSON object that `from_spec` reads."""
        return json.dumps(write(self))

    def __str__(self) -> str:
        """Returns the text that `from_spec` reads: a profile's name, or JSON."""
        return self.name if PROFILES.get(self.name) == self else self.to_json()

    @staticmethod
    def named(name: str) -> Target:
        """Returns a profile from the table `PROFILES`.

        Raises:
            TargetError: There is no such profile; lists the known ones.
        """
        if name not in PROFILES:
            raise TargetError(f"unknown target profile {name!r}; the profiles are {', '.join(sorted(PROFILES))}")
        return PROFILES[name]

    @staticmethod
    def from_fields(values: Mapping[str, Any], name: str = "custom") -> Target:
        """Returns a target with these fields; the others have the WebGPU defaults.

        Raises:
            TargetError: A field is unknown (lists the known ones), or its value is out of range.
        """
        known = [field.name for field in fields(Target)]
        unknown = sorted(set(values) - set(known))
        if unknown:
            raise TargetError(f"unknown target fields: {', '.join(unknown)}; the fields are {', '.join(known)}")
        return Target(**{"name": name, **values})

    @staticmethod
    def from_spec(text: str) -> Target:
        """Returns a target from a profile's name, the path of a JSON file, or inline JSON.

        Raises:
            TargetError: The text is none of them, or the JSON is not a target.
        """
        if text.lstrip().startswith("{"):
            return _from_json(text, "custom", "inline target")
        if text in PROFILES:
            return PROFILES[text]
        path = Path(text)
        try:
            content = path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:  # not a path, or a file that is not text
            raise TargetError(
                f"target {text!r} is not a profile ({', '.join(sorted(PROFILES))}), "
                f"no inline JSON, and no file that can be read: {error}"
            ) from error
        return _from_json(content, path.stem, f"target file {text}")


def _from_json(text: str, name: str, source: str) -> Target:
    try:
        values = parsed_json(text)
    except ValueError as error:
        raise TargetError(f"{source} is not valid JSON: {error}") from error
    if not isinstance(values, dict):
        raise TargetError(f"{source} must be a JSON object, it is a {type(values).__name__}")
    return Target.from_fields(values, name)


WEBGPU_DEFAULT = Target()

PROFILES: dict[str, Target] = {
    profile.name: profile
    for profile in (
        WEBGPU_DEFAULT,
        # The limits that Mesa 22's CPU driver reports through wgpu.
        replace(
            WEBGPU_DEFAULT,
            name="lavapipe",
            max_storage_buffers_per_shader_stage=32,
            max_buffer_size=2**31 - 1,
            max_compute_workgroup_size_x=1024,
            max_compute_workgroup_size_y=1024,
            max_compute_workgroup_size_z=1024,
            max_compute_invocations_per_workgroup=1024,
            max_compute_workgroup_storage_size=32768,
            min_storage_buffer_offset_alignment=32,
            f16=True,
            int64=True,
            subgroups=True,
            subgroup_size=8,
            software=True,
            max_loop_iterations=65535,
        ),
        replace(
            WEBGPU_DEFAULT,
            name="cpu",
            max_storage_buffers_per_shader_stage=1 << 16,
            max_storage_buffer_binding_size=1 << 40,
            max_buffer_size=1 << 40,
            max_compute_workgroup_storage_size=1 << 26,
            max_compute_workgroups_per_dimension=1 << 31,
            min_storage_buffer_offset_alignment=64,
            f16=True,
            int64=True,
            language="llvm",
        ),
    )
}
"""The named targets."""

CPU = PROFILES["cpu"]
"""Native code for any CPU."""


DIRECTIVE = re.compile(r"(?:\s|//[^\n]*\n)*enable\s([\w\s,]{1,200});")
"""An enable directive; directives precede everything else."""
SUBGROUPS = re.compile(r"\b(?:subgroup(?:[A-Z]\w*|_size|_invocation_id)|quad(?:Broadcast|Swap[XYD]\w*))\b")
INT64 = re.compile(r"\b(?:[iu]64|\d+l[iu])\b")


@dataclass(frozen=True)
class Features:
    """The features that a kernel needs.

    Attributes:
        enabled: The extensions that its directives enable.
        subgroups: Whether it uses subgroup operations.
        int64: Whether it uses 64-bit integers.
    """

    enabled: frozenset[str]
    subgroups: bool
    int64: bool

    @property
    def f16(self) -> bool:
        """Whether it uses f16, which every dialect requires to be enabled."""
        return "f16" in self.enabled

    @staticmethod
    def of(code: str) -> Features:
        """Returns the features that a kernel's text uses."""
        named: list[str] = []
        match = DIRECTIVE.match(code)
        while match is not None:
            named += match[1].split(",")
            match = DIRECTIVE.match(code, match.end())
        enabled = frozenset(name.strip() for name in named if name.strip())
        return Features(enabled, SUBGROUPS.search(code) is not None, INT64.search(code) is not None)


def check_features(code: str, where: str, target: Target) -> Features:
    """Checks that a target's shader compiler accepts a kernel's text.

    Args:
        code: The kernel's text.
        where: The kernel's name in error messages.
        target: The target to run it on.

    Raises:
        TargetError: The target lacks a feature that the kernel uses, or its shader dialect spells it differently.
    """
    features = Features.of(code)
    for name, used, there in (
        ("f16", features.f16, target.f16),
        ("subgroups", features.subgroups, target.subgroups),
        ("int64", features.int64, target.int64),
    ):
        if used and not there:
            raise TargetError(f"{where} uses {name}, which target {target.name!r} lacks: compile it for this target")
    directive = "subgroups" in features.enabled
    if directive and target.shader_dialect == "naga":
        raise TargetError(
            f"{where} has `enable subgroups;`, which the shader compiler of target {target.name!r} (shader_dialect "
            "'naga') does not take: compile it with shader_dialect 'naga', or without subgroups for both"
        )
    if features.subgroups and not directive and target.shader_dialect == "standard":
        raise TargetError(
            f"{where} uses subgroups without `enable subgroups;`, which the shader compiler of target {target.name!r} "
            "(shader_dialect 'standard') demands: compile it with shader_dialect 'standard', or without subgroups for "
            "both"
        )
    return features
