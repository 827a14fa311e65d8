"""`repr` of objects: short within other objects, a table on request."""

from __future__ import annotations

import html
import importlib.metadata
import re
from dataclasses import replace

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad.runtime.program import Dispatch
from tensorgrad.tools import tg as command


class Model(tg.nn.Module):
    def __init__(self) -> None:
        self.body = tg.nn.Linear(3, 4)
        self.norm = tg.nn.BatchNorm1d(4)
        self.head = tg.nn.Linear(4, 2)
        self.scale = tg.nn.param((), init=1.0)

    def __call__(self, x: tg.Tensor) -> tg.Tensor:
        return self.head(self.norm(self.body(x))) * self.scale


def loss(model: Model, x: tg.Tensor) -> tg.Tensor:
    return tg.mean(model(x) ** 2)


def compiled(device: tg.DeviceName) -> tg.Training[tg.Tensor]:
    model = Model()
    model.freeze("head.*")
    return tg.compile(model, loss=loss, optimizer=tg.optim.adam(1e-3), inputs={"x": (4, 3)}, device=device)


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("device", ["numpy", "cpu", "wgpu"])
def test_a_training_is_shown_as_a_table(device: tg.DeviceName) -> None:
    training = compiled(device)
    training.step(x=np.ones((4, 3)))
    lines = str(training).split("\n")
    assert training.summary() == str(training) and repr(training) == lines[0]
    assert lines[0].startswith(f"Training('loss', {device}") and "step_count=1" in lines[0]
    assert lines[1].split() == ["name", "shape", "dtype", "count", "trained"]
    rows = {line.split()[0]: line.split()[1:] for line in lines[3:-3]}
    assert rows.keys() == {*training.parameters(), *training.buffers()}
    assert rows["body.weight"] == ["3", "x", "4", "f32", "12", "yes"]
    assert rows["head.weight"] == ["4", "x", "2", "f32", "8", "no"]
    assert rows["scale"] == ["scalar", "f32", "1", "yes"]
    assert rows["norm.running_mean"] == ["4", "f32", "4", "buffer"]
    count = sum(value.size for value in training.parameters().values())
    assert lines[-3] == f"parameters: {count}, {count - 10} of them trained ({4 * count} B)"
    assert lines[-2].startswith("buffers: ")
    stats = training.stats()
    if device == "wgpu":
        assert f"{stats['dispatches']} dispatches of {stats['kernels']} kernels" in lines[-1]
    assert lines[-1].startswith("a step: ") and lines[-1].endswith("moved")


def test_programs_kernels_and_reports_are_short() -> None:
    training = compiled("numpy")
    program = training.program
    text = repr(program)
    assert len(text) < 200 and text.startswith(f"Program('loss', kernels={len(program.kernels)}, dispatches=")
    assert all(len(repr(kernel)) < 100 and kernel.entry in repr(kernel) for kernel in program.kernels)
    report = tg.fit(training, [{"x": np.ones((4, 3))}] * 50, epochs=2, progress=False)
    assert len(repr(report)) < 200 and repr(report).startswith("Report(step=100, epoch=2, reason=")
    assert f"loss={report.losses[-1]:.4g}" in repr(report)


def test_the_command_says_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"tg {importlib.metadata.version('tensorgrad-xdsl')}\n"


def test_programs_and_functions_are_shown_in_notebooks() -> None:
    function = tg.jit(lambda x: tg.exp(x) * tg.sum(x), device="cpu")
    assert function._repr_html_() == "<pre>" + html.escape(repr(function)) + "</pre>"
    function(np.ones(4, np.float32))
    shown = function._repr_html_()
    assert shown == f"<pre>{html.escape(repr(function))}</pre>{function.program._repr_html_()}"
    cells = re.findall("<t[dh]>(.*?)</t[dh]>", shown)
    assert cells[:3] == ["from", "kernel", "workgroups"]
    program = function.program
    kernels = [program.kernels[step.kernel].entry for step in program.plan if isinstance(step, Dispatch)]
    assert cells[4::3] == kernels
    many = replace(function.program, plan=function.program.plan * 60)
    assert f"<td>{60 * len(kernels) - 50} more</td>" in many._repr_html_()
    full = replace(function.program, plan=function.program.plan[:1] * 50)
    assert "more</td>" not in full._repr_html_()
