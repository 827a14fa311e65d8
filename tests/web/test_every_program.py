"""Every program of the workloads and the examples loads in a browser."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

from benchmarks.workloads import NAMES, workload
from tensorgrad.driver.compiling import compilation
from tensorgrad.driver.compiling.compilation import Compilation, program_of
from tensorgrad.runtime.formula import Formula
from tensorgrad.runtime.saved import FUNCTION, STEP, Host, Saved
from tensorgrad.runtime.target import WEBGPU_DEFAULT

pytestmark = pytest.mark.web

Evaluate: TypeAlias = Callable[..., Any]
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ARGUMENTS = {"digits_cnn": "--epochs", "reinforce": "--updates", "tic_tac_toe": "--updates"}
"""How short an example is asked to run, where it is not by `--steps`."""


SLOW = {"gpt", "char_gpt", "addition", "slots"}
"""Whose kernels for any browser SwiftShader compiles for half a minute and more."""


def by_pace(names: Iterable[str], quick: str = "") -> list[Any]:
    """Returns test parameters; slow ones except `quick` are nightly."""
    slow = SLOW - {quick}
    return [pytest.param(name, marks=[pytest.mark.nightly] if name in slow else []) for name in names]


def programs_of(name: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[Any]:
    """Returns the programs that an example compiles, for the limits of every browser."""
    compiled: list[Compilation] = []
    compile_for_numpy = compilation.compile_for_numpy

    def noted(*arguments: Any) -> Compilation:
        compiled.append(compile_for_numpy(*arguments))
        return compiled[-1]

    monkeypatch.setattr(compilation, "compile_for_numpy", noted)
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.chdir(folder)
    with contextlib.redirect_stdout(None):
        import_module(name).main(["--device", "numpy", ARGUMENTS.get(name, "--steps"), "1"])
    return [program_of(one, WEBGPU_DEFAULT) for one in compiled]


def load_all(programs: list[Any], folder: Path, evaluate: Evaluate) -> None:
    """Loads programs in the page: those that have scalars as trainings, the others as functions."""
    for index, program in enumerate(programs):
        state = {
            name: slot.decode(slot.encode(np.zeros(slot.shape)))
            for name, slot in program.slots("parameter", "state").items()
        }
        Saved(program, state, host_of(program)).save(folder / f"{index}.tg")
    kernels = evaluate(
        "const counts = [];"
        "for (const [index, kind] of given.entries()) {"
        "  const loaded = await T[kind].load(`${index}.tg`); counts.push(Object.keys(loaded.inputs).length);"
        "  loaded.destroy(); loaded.device.destroy(); }"
        "return counts;",
        ["Training" if host_of(program).kind == STEP else "Inference" for program in programs],
    )
    assert kernels == [len(program.slots("input")) for program in programs]


def host_of(program: Any) -> Host:
    """Returns a host-side part that gives a program's scalars values, and leaves its inputs to the caller."""
    scalars = program.slots("scalar").items()
    if not scalars:
        return Host(FUNCTION, None)
    names = {name for key, slot in scalars for name in (Formula(slot.formula).names if slot.formula else [key])}
    return Host(STEP, None, settings=dict.fromkeys(names - {"step", "micro_step"}, 1.0))


@pytest.mark.parametrize("name", by_pace(NAMES, quick="addition"))
def test_workloads(name: str, site: tuple[Path, str], evaluate: Evaluate) -> None:
    training, _ = workload(name)("numpy")
    load_all([training.program_for("webgpu-default")], site[0], evaluate)


@pytest.mark.parametrize("name", by_pace(sorted(path.stem for path in EXAMPLES.glob("*.py"))))
def test_examples(name: str, monkeypatch: pytest.MonkeyPatch, site: tuple[Path, str], evaluate: Evaluate) -> None:
    programs = programs_of(name, monkeypatch, site[0])
    assert programs
    load_all(programs, site[0], evaluate)
