"""The progress bar of `tg.fit` in notebooks: one display, which is updated."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest
from models import batch, compiled

import tensorgrad as tg


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Stands in for IPython's kernel; returns what is displayed, as kinds of calls and HTML."""
    calls: list[tuple[str, str]] = []
    handle = SimpleNamespace(update=lambda page: calls.append(("update", page._repr_html_())))

    def display(page: Any, display_id: bool) -> Any:
        assert display_id
        calls.append(("display", page._repr_html_()))
        return handle

    package: Any = ModuleType("IPython")
    package.get_ipython = lambda: SimpleNamespace(kernel=object())
    module: Any = ModuleType("IPython.display")
    module.display = display
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    return calls


def test_one_display_is_updated(shown: list[tuple[str, str]], capsys: pytest.CaptureFixture[str]) -> None:
    data = [batch(number) for number in range(3)]
    tg.fit(compiled(), data, epochs=2, evaluate=lambda training: {"score": 0.5})
    assert [kind for kind, _ in shown].count("display") == 1
    last = shown[-1][1]
    assert shown[-1][0] == "update"
    assert '<progress max="6" value="6"></progress>' in last
    assert "step 6 of 6: loss " in last and "score 0.5" in last
    assert "step 3" not in capsys.readouterr().out  # the bar stands for the lines


def test_marimo_shows_the_bar_in_the_output_of_the_cell(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs: list[str] = []
    package: Any = ModuleType("marimo")
    package.running_in_notebook = lambda: True
    package.output = SimpleNamespace(replace=lambda one: outputs.append(one._repr_html_()))
    monkeypatch.setitem(sys.modules, "marimo", package)
    tg.fit(compiled(), [batch(number) for number in range(3)], epochs=2)
    assert len(outputs) >= 2 and '<progress max="6" value="0">' in outputs[0]
    assert '<progress max="6" value="6"></progress>' in outputs[-1] and "step 6 of 6: loss " in outputs[-1]
    assert "step 3" not in capsys.readouterr().out
    package.running_in_notebook = lambda: False
    tg.fit(compiled(), [batch()], epochs=1)
    assert "step 1 of 1: loss " in capsys.readouterr().out


def test_what_notebooks_show_of_results() -> None:
    training = compiled()
    report = tg.fit(training, [batch()], epochs=3, progress=False)
    shown = report._repr_html_()
    assert "<polyline" in shown and f"losses from {report.losses.max():.4g}" in shown
    assert "<svg" not in replace(report, losses=report.losses[:1])._repr_html_()
    with training.profile() as profile:
        pass
    assert profile._repr_html_().startswith("<pre>squared_error on numpy")
    text = training.module("tg")
    assert isinstance(text, str) and "&lt;" in cast(Any, text)._repr_html_() and "<pre" in cast(Any, text)._repr_html_()
    for one in (training, training.program, training.report()):
        assert one._repr_html_().startswith("<")


def test_without_a_kernel_it_prints_lines(
    shown: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: SimpleNamespace())
    tg.fit(compiled(), [batch()], epochs=2)
    assert shown == []
    assert "step 2 of 2: loss " in capsys.readouterr().out
