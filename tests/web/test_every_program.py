"""Every program of the workloads and the examples loads in a browser."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from benchmarks.workloads import NAMES, workload
from tensorgrad.driver.compiling import compilation
from tensorgrad.driver.compiling.compilation import Compilation, program_of
from tensorgrad.runtime.saved import FUNCTION, Host, Saved
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
    """Loads programs in the page, each as a function without parameters of its own."""
    for index, program in enumerate(programs):
        state = {name: slot.decode(slot.encode(0)) for name, slot in program.slots("parameter", "state").items()}
        Saved(program, state, Host(FUNCTION, None)).save(folder / f"{index}.tg")
    kernels = evaluate(
        "const counts = [];"
        "for (let index = 0; index < given; index++) {"
        "  const loaded = await T.Inference.load(`${index}.tg`); counts.push(Object.keys(loaded.inputs).length);"
        "  loaded.destroy(); loaded.device.destroy(); }"
        "return counts;",
        len(programs),
    )
    assert kernels == [len(program.slots("input")) for program in programs]


@pytest.mark.parametrize("name", by_pace(NAMES, quick="addition"))
def test_workloads(name: str, site: tuple[Path, str], evaluate: Evaluate) -> None:
    training, _ = workload(name)("numpy")
    load_all([training.program_for("webgpu-default")], site[0], evaluate)


@pytest.mark.parametrize("name", by_pace(sorted(path.stem for path in EXAMPLES.glob("*.py"))))
def test_examples(name: str, monkeypatch: pytest.MonkeyPatch, site: tuple[Path, str], evaluate: Evaluate) -> None:
    programs = programs_of(name, monkeypatch, site[0])
    assert programs
    load_all(programs, site[0], evaluate)
