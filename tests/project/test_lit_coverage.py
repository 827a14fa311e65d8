"""Every op, pass, pipeline and target is named in a lit test, and every op in a round trip."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tensorgrad.passes.pipelines import PIPELINES
from tensorgrad.passes.registry import PASSES, pass_class
from tensorgrad.tools.universe import TENSORGRAD_UNIVERSE, wgsl_target

LIT = Path(__file__).resolve().parents[1] / "lit"

OPS = sorted(op.name for make in TENSORGRAD_UNIVERSE.all_dialects.values() for op in make().operations)


@cache
def run_lines(path: Path) -> str:
    """Returns the RUN lines of a lit test."""
    return "\n".join(line for line in path.read_text(encoding="utf-8").splitlines() if "// RUN:" in line)


def words(*, roundtrips: bool) -> set[str]:
    """Returns the op names in the IR (without comments) of lit tests, or only of those that round-trip."""
    found: set[str] = set()
    for path in LIT.rglob("*.mlir"):
        if roundtrips and "TG_ROUNDTRIP" not in run_lines(path):
            continue
        code = [line.split("//")[0] for line in path.read_text(encoding="utf-8").splitlines()]
        found.update(re.findall(r"\b(?:tg|buf|wgsl|cpu|stablehlo|chlo)\.\w+", "\n".join(code)))
    return found


def test_every_op_round_trips() -> None:
    missing = set(OPS) - words(roundtrips=True)
    assert not missing, f"in no lit test that round-trips: {sorted(missing)}"


@pytest.mark.parametrize("dialect", sorted(TENSORGRAD_UNIVERSE.all_dialects))
def test_every_dialect_has_error_tests(dialect: str) -> None:
    assert "diagnostics" in run_lines(LIT / dialect / "errors.mlir")


def test_every_pass_and_pipeline_is_run() -> None:
    specified = {
        name
        for path in LIT.rglob("*.mlir")
        for text in re.findall(r"-p '?([^'|]*)", run_lines(path))
        for name in re.findall(r"[a-z][a-z0-9-]*", re.sub(r"\{[^}]*\}+", "", text))
    }
    missing = {*PASSES, *PIPELINES} - specified
    assert not missing, f"in no RUN line: {sorted(missing)}"


def test_every_target_is_emitted() -> None:
    lines = "\n".join(run_lines(path) for path in LIT.rglob("*.mlir"))
    for name in ("wgsl", *TENSORGRAD_UNIVERSE.all_targets):
        assert re.search(rf"-t '?{name}\b", lines), f"no RUN line has the target {name}"


@pytest.mark.parametrize("name", PASSES)
def test_passes_are_known_by_their_names(name: str) -> None:
    assert pass_class(name).name == name


def test_targets_are_known_by_their_names() -> None:
    assert wgsl_target().name == "wgsl"
    assert all(make().name == name for name, make in TENSORGRAD_UNIVERSE.all_targets.items())
