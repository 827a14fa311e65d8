"""The pictures of the README and of the site's home are up to date, small, and show what the compiler prints."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from tensorgrad.tools import pictures

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_they_are_up_to_date(name: str) -> None:
    drawn = pictures.PICTURES[name]()
    kept = (ROOT / "docs" / "pictures" / name).read_text(encoding="utf-8")
    assert kept == drawn, "draw them again: python -m tensorgrad.tools.pictures"
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
