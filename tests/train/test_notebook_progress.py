"""The progress bar of `tg.fit` in notebooks: one display, which is updated."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

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


def test_without_a_kernel_it_prints_lines(
    shown: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: SimpleNamespace())
    tg.fit(compiled(), [batch()], epochs=2)
    assert shown == []
    assert "step 2 of 2: loss " in capsys.readouterr().out
