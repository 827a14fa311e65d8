"""Targets: profiles, JSON, and what is rejected."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tensorgrad.runtime.errors import TargetError
from tensorgrad.runtime.target import PROFILES, Target


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_profiles_round_trip(name: str) -> None:
    target = Target.named(name)
    assert target.name == name
    assert Target.from_spec(name) == target
    assert Target.from_spec(target.to_json()) == target


def test_the_default_is_webgpus() -> None:
    target = Target.named("webgpu-default")
    assert target == Target()
    assert (target.max_storage_buffers_per_shader_stage, target.max_compute_workgroup_size_z) == (8, 64)
    assert target.max_loop_iterations is None
    assert Target.named("lavapipe").subgroup_size == 8


def test_partial_json(tmp_path: Path) -> None:
    inline = Target.from_spec('{"f16": true, "max_buffer_size": 1024}')
    assert inline == Target(name="custom", f16=True, max_buffer_size=1024)
    path = tmp_path / "phone.json"
    path.write_text(json.dumps({"subgroup_size": 16, "subgroups": True}))
    assert Target.from_spec(str(path)) == Target(name="phone", subgroups=True, subgroup_size=16)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("no-such-profile", "not a profile .*lavapipe.*no file"),
        ('{"f16": true', "not valid JSON"),
        ('{"colour": 1}', "unknown target fields: colour; the fields are name, max_storage"),
        ('{"max_buffer_size": 0}', "'max_buffer_size': expected a positive integer, got 0"),
        ('{"max_buffer_size": true}', "'max_buffer_size': expected a positive integer, got True"),
        ('{"f16": 1}', "'f16': expected true or false"),
        ('{"subgroup_size": -1}', "'subgroup_size': expected a positive integer or null"),
        ('{"max_loop_iterations": 0}', "'max_loop_iterations': expected a positive integer or null, got 0"),
        ('{"shader_dialect": "glsl"}', "'shader_dialect': expected naga or standard"),
        ('{"min_storage_buffer_offset_alignment": 24}', "expected a power of two"),
        ('{"name": ""}', "'name': expected a text"),
    ],
)
def test_refused(spec: str, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        Target.from_spec(spec)


def test_other_refusals(tmp_path: Path) -> None:
    path = tmp_path / "list.json"
    path.write_text("[1]")
    with pytest.raises(TargetError, match="must be a JSON object"):
        Target.from_spec(str(path))
    with pytest.raises(TargetError, match="unknown target profile 'x'; the profiles are cpu, lavapipe, webgpu-default"):
        Target.named("x")
