"""Every kernel of the workloads and the examples is standard WGSL, for several kinds of devices."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import tint

from benchmarks.workloads import NAMES, workload
from tensorgrad.driver.compiling import compilation
from tensorgrad.driver.compiling.compilation import Compilation, program_of
from tensorgrad.runtime.target import Target

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TARGETS = tuple(
    replace(target, shader_dialect="standard")
    for target in (
        Target.named("lavapipe"),
        Target.named("webgpu-default"),
        replace(Target.named("webgpu-default"), name="gpu", f16=True, subgroups=True, subgroup_size=32),
    )
)

ARGUMENTS = {"digits_cnn": "--epochs", "reinforce": "--updates", "tic_tac_toe": "--updates"}
"""How short an example is asked to run, where it is not by `--steps`."""


@pytest.mark.in_turns(16)
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("name", NAMES)
def test_workloads(name: str, target: Target) -> None:
    training, _ = workload(name)("numpy")
    assert tint.check(training.program_for(target.to_json())) > 0


@pytest.mark.nightly
@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.py")))
def test_examples(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compiled: list[Compilation] = []
    compile_for_numpy = compilation.compile_for_numpy

    def noted(*arguments: Any) -> Compilation:
        compiled.append(compile_for_numpy(*arguments))
        return compiled[-1]

    monkeypatch.setattr(compilation, "compile_for_numpy", noted)
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.chdir(tmp_path)
    with contextlib.redirect_stdout(None):
        import_module(name).main(["--device", "numpy", ARGUMENTS.get(name, "--steps"), "1"])
    assert compiled
    for program in compiled:
        tint.check(program_of(program, TARGETS[0]))
