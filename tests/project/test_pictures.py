"""The pictures of the README and of the site's home are up to date, small, and show what the compiler prints."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from tensorgrad.tools import pictures

ROOT = Path(__file__).resolve().parents[2]
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
MOST_APART = {"training.svg": 0.3}
"""By how much places may differ in a picture of a run, whose rounding depends on the CPU."""


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_they_are_up_to_date(name: str) -> None:
    drawn = pictures.PICTURES[name]()
    kept = (ROOT / "docs" / "pictures" / name).read_text(encoding="utf-8")
    again = "draw them again: python -m tensorgrad.tools.pictures"
    assert NUMBER.split(kept) == NUMBER.split(drawn), again
    places = [np.array([float(number) for number in NUMBER.findall(text)]) for text in (kept, drawn)]
    np.testing.assert_allclose(*places, rtol=0, atol=MOST_APART.get(name, 0), err_msg=again)
    assert len(drawn) < 60_000
    ElementTree.fromstring(drawn)


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_they_are_shown(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert all(f"pictures/{name}" in text for name in pictures.PICTURES)


def test_a_line_that_is_no_longer_printed_is_an_error() -> None:
    panel = pictures.Panel("tg", "", (), (pictures.Excerpt("(.*tg.exp.*)"),))
    with pytest.raises(LookupError, match=r"tg: no further line matches \(\.\*tg\.exp"):
        pictures.excerpts(panel, "builtin.module {\n}\n")


def test_ratios_are_those_of_the_benchmarks() -> None:
    table = pictures.ratios(
        "## Native code\n\n"
        "| a step of | tensorgrad, cpu, ms | PyTorch eager | torch.compile | jax.jit | IREE |\n"
        "|---|---|---|---|---|---|\n"
        "| `mlp` | 0.61 | 2.59 | 2.65 | 0.5 | 3.03 |\n\nOthers:\n\n| a step of | ms |\n|---|---|\n| `gpt` | 1 |\n"
    )
    assert table == {"mlp": {"PyTorch eager": 2.59, "torch.compile": 2.65, "jax.jit": 0.5, "IREE": 3.03}}


def test_a_region_is_a_stroke_for_each_stretch_of_a_row() -> None:
    margins = np.array([[1.0, 1.0, -1.0], [-1.0, -1.0, -1.0], [-3.0, 1.0, 1.0]])
    assert pictures.region(margins, (10, 0, 20, 30)) == "M10.0 5.0h15.0M17.5 25.0h12.5"


@pytest.mark.nightly
def test_a_run_is_recorded_before_every_few_steps() -> None:
    x, labels = pictures.moons(96)
    losses, frames = pictures.recorded(x, labels, x)
    assert len(losses) == pictures.STEPS + 1 and len(frames) == pictures.STEPS // pictures.EVERY + 1
    assert losses[-1] < 0.05 * losses[0]
    assert ((frames[-1] > 0) == labels).mean() > 0.98 > ((frames[0] > 0) == labels).mean()
