"""Every chapter of the laboratory runs as a script, and its exercises notice what solves them."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tensorgrad import lab
from tensorgrad.passes.pipelines import read_passes
from tensorgrad.tools.lab import NEEDED, ORDER
from tensorgrad.tools.tg import main

CHAPTERS = Path(__file__).resolve().parents[2] / "lab" / "chapters"


def ran(chapter: str, **values: Any) -> Any:
    """Runs a chapter with other values of its widgets; returns what its cells define."""
    definitions = {name: SimpleNamespace(value=value) for name, value in values.items()}
    app = import_module(f"tensorgrad.lab.chapters.{chapter}").app
    return SimpleNamespace(**app.run(defs=definitions)[1])


def test_the_order_has_all_chapters() -> None:
    assert set(ORDER) == {path.stem for path in CHAPTERS.glob("*.py")} - {"__init__"}


@pytest.mark.in_turns(4, 2)
@pytest.mark.parametrize(
    ("level", "piece"),
    [("traced", "tg.tanh"), ("buf", "buf.kernel"), ("wgsl", "wgsl.kernel"), ("llvm", "llvm.func")],
)
def test_levels(level: str, piece: str) -> None:
    shown = ran("levels", level=level)
    assert piece in shown.text
    assert shown.losses[-1] < shown.losses[0]


@pytest.mark.nightly
def test_a_level_shows_the_optimizer() -> None:
    assert ran("levels", optimizer="adam").sizes["tg"] > ran("levels").sizes["tg"]


def test_passes() -> None:
    plain, apart = ran("passes"), ran("passes", left_out=["fuse"])
    assert not plain.steps[-1].fault and not plain.solved
    assert apart.solved and apart.kernels > plain.kernels
    broken = ran("passes", left_out=["lower-tg-to-buf"])
    assert "fuse" in broken.steps[-1].name and broken.steps[-1].fault and not broken.solved


def test_schedules() -> None:
    plain = ran("schedules")
    assert not plain.fault and plain.before > 0
    wrong = plain.chosen.replace("column = [1]", "column = [0]")
    assert wrong != plain.chosen
    assert "distinct" in ran("schedules", scheduled=wrong).fault


def test_training() -> None:
    shown = ran("training")
    assert shown.losses[-1] < shown.losses[0]


@pytest.mark.nightly
def test_a_rate_that_is_too_large() -> None:
    assert not ran("training", optimizer="sgd", rate=10.0).solved


def test_derivatives() -> None:
    shown = ran("derivatives")
    assert "derivative 1 (rev)" in shown.complaint
    source = """
def forward(x):
    return tg.log(1 + tg.exp(x)), x


def backward(x, g):
    return (g * tg.sigmoid(x),)
"""
    assert not ran("derivatives", source=source).complaint


def test_bugs() -> None:
    shown = ran("bugs")
    assert shown.steps[-1].name == "planted" and "of 8 elements" in shown.steps[-1].fault and not shown.solved
    assert ran("bugs", body="pass").solved


def test_memory() -> None:
    plain = ran("memory")
    assert max(plain.live) <= plain.facts.arenas["workspace"] < sum(value.bytes for value in plain.buffers)


@pytest.mark.nightly
def test_less_memory() -> None:
    plain, frugal = ran("memory"), ran("memory", share=80)
    assert frugal.facts.arenas["workspace"] < plain.facts.arenas["workspace"]
    assert frugal.facts.dispatches > plain.facts.dispatches and not frugal.refused


@pytest.mark.nightly
def test_memory_that_is_not_enough() -> None:
    assert "memory_limit" in ran("memory", share=10).refused


def test_optimizers() -> None:
    plain = ran("optimizers")
    assert plain.mine[-1] < plain.mine[0] and not plain.solved
    assert ran("optimizers", rate=0.021).mine[-1] > plain.mine[0], "too large a rate goes up"
    source = """
def init(parameter):
    return {"mean": tg.zeros(parameter.shape)}


def update(gradient, state, parameter, step, hyper):
    mean = 0.9 * state["mean"] + gradient
    return parameter - hyper.learning_rate * mean, {"mean": mean}
"""
    own = ran("optimizers", source=source)
    assert own.solved and own.training.stats()["dispatches"] == own.built_in.stats()["dispatches"]
    assert "wgsl.kernel" in ran("optimizers", source=source, level="wgsl").text


def test_a_fault_is_the_last_step() -> None:
    module = 'func.func @f(%x: tensor<4xf32> {tg.name = "x", tg.role = "input"}) -> (tensor<4xf32>) {\n'
    module += "  %y = tg.exp %x : tensor<4xf32>\n  func.return %y : tensor<4xf32>\n}\n"
    steps = lab.run(module, read_passes("simplify,fuse,simplify"))
    assert [bool(step.fault) for step in steps] == [False, True]


def test_pictures_show_what_there_is() -> None:
    picture = lab.lines({"a <b>": ([0, 1, 2], [1.0, float("nan"), 100.0]), "c": ([0], [0.0])}, "title", "log").text
    assert picture.startswith("<svg") and "title" in picture and "a &lt;b&gt;" in picture and ">c<" not in picture
    assert "nothing" in lab.diff("").text


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(NEEDED, "marimo", "no_such_module")
    assert main(["lab", "--copy-only"]) == 1
    assert "the laboratory needs marimo: pip install marimo" in capsys.readouterr().err


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "lab"
    assert main(["lab", "--copy-only", "--json", "--folder", str(folder)]) == 0
    chapters = json.loads(capsys.readouterr().out)["chapters"]
    assert [Path(chapter).name for chapter in chapters] == [f"{n}_{name}.py" for n, name in enumerate(ORDER, 1)]
    mine = folder / "1_levels.py"
    mine.write_text("# mine\n", encoding="utf-8")
    assert main(["lab", "--copy-only", "--folder", str(folder)]) == 0
    assert mine.read_text(encoding="utf-8") == "# mine\n", "a notebook that was edited is kept"
    assert main(["lab", "nothing", "--folder", str(folder)]) == 1
    assert "there is no chapter 'nothing'; there are levels, passes" in capsys.readouterr().err


@pytest.mark.nightly
def test_a_copied_chapter_is_a_script(tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    assert main(["lab", "--copy-only", "--folder", str(folder)]) == 0
    script = subprocess.run([sys.executable, str(folder / "6_bugs.py")], capture_output=True, text=True, check=False)
    assert script.returncode == 0, script.stderr
