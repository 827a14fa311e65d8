"""Compilation targets: a device's limits and features, as data."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from tensorgrad.runtime.errors import TargetError
from tensorgrad.runtime.texts import parsed_json

MEBIBYTE = 1 << 20
SHADER_DIALECTS = ("naga", "standard")
LANGUAGES = ("wgsl", "llvm")


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
        check_bounds: Whether native code checks every index before an access.

    Raises:
        TargetError: A field's value is out of range; names the field.
    """

    name: str = "webgpu-default"
    max_storage_buffers_per_shader_stage: int = 8
    max_storage_buffer_binding_size: int = 128 * MEBIBYTE
    max_buffer_size: int = 256 * MEBIBYTE
    max_compute_workgroup_size_x: int = 256
    max_compute_workgroup_size_y: int = 256
    max_compute_workgroup_size_z: int = 64
    max_compute_invocations_per_workgroup: int = 256
    max_compute_workgroup_storage_size: int = 16384
    max_compute_workgroups_per_dimension: int = 65535
    min_storage_buffer_offset_alignment: int = 256
    f16: bool = False
    int64: bool = False
    subgroups: bool = False
    subgroup_size: int | None = None
    software: bool = False
    max_loop_iterations: int | None = None
    shader_dialect: str = "naga"
    language: str = "wgsl"
    vector_bytes: int = 32
    check_bounds: bool = False

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            expected, accepted = FIELD_RULES.get(name) or FIELD_RULES[name.split("_")[0]]
            if not accepted(value):
                raise TargetError(f"target field {name!r}: expected {expected}, got {value!r}")
        alignment = self.min_storage_buffer_offset_alignment
        if alignment < 4 or alignment & (alignment - 1):
            raise TargetError(
                f"target field 'min_storage_buffer_offset_alignment': expected a power of two from 4, got {alignment}"
            )

    @property
    def native(self) -> bool:
        """Whether kernels are native CPU code."""
        return self.language == "llvm"

    @property
    def max_workgroup_size(self) -> tuple[int, int, int]:
        """The limits on a workgroup's three extents."""
        return (
            self.max_compute_workgroup_size_x,
            self.max_compute_workgroup_size_y,
            self.max_compute_workgroup_size_z,
        )

    @property
    def most_lanes(self) -> int:
        """The most invocations of a one-dimensional workgroup."""
        return min(self.max_compute_invocations_per_workgroup, self.max_compute_workgroup_size_x)

    def to_json(self) -> str:
        """Returns all fields as a JSON object that `from_spec` reads."""
        return json.dumps(asdict(self))

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


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


FLAG = ("true or false", lambda value: isinstance(value, bool))
OPTIONAL_COUNT = ("a positive integer or null", lambda value: value is None or _is_count(value))
FIELD_RULES: dict[str, tuple[str, Any]] = {
    "name": ("a text", lambda value: isinstance(value, str) and value != ""),
    "max": ("a positive integer", _is_count),
    "min": ("a positive integer", _is_count),
    "f16": FLAG,
    "int64": FLAG,
    "subgroups": FLAG,
    "subgroup_size": OPTIONAL_COUNT,
    "max_loop_iterations": OPTIONAL_COUNT,
    "software": FLAG,
    "shader_dialect": (" or ".join(SHADER_DIALECTS), lambda value: value in SHADER_DIALECTS),
    "vector_bytes": ("16, 32 or 64", lambda value: value in (16, 32, 64)),
    "check_bounds": FLAG,
    "language": (" or ".join(LANGUAGES), lambda value: value in LANGUAGES),
}
"""A description of each field's valid values, and a test for them; limits are keyed by their first word."""


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
        found = DIRECTIVE.match(code)
        while found is not None:
            named += found[1].split(",")
            found = DIRECTIVE.match(code, found.end())
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
