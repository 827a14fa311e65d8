"""The table of ops in docs/reference/onnx.md matches the code; run as a script, this file writes it."""

from __future__ import annotations

import re
from pathlib import Path

import tensorgrad as tg

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "onnx.md"
PLACE = re.compile(r"<!-- ops -->\n.*?(?=\n## )", re.DOTALL)


def table() -> str:
    """Returns the ops by family, as a Markdown table."""
    rows = [
        f"| {family} | {', '.join(f'`{name}`' for name in names)} |" for family, names in tg.onnx.supported().items()
    ]
    return "\n".join(["<!-- ops -->", "", "| Family | Ops |", "|---|---|", *rows, ""])


def test_the_page_has_the_table() -> None:
    match = PLACE.search(PAGE.read_text(encoding="utf-8"))
    assert match is not None
    assert match[0] == table(), f"run python tests/onnx/{Path(__file__).name}"


def test_every_op_has_a_family() -> None:
    from tensorgrad.importers.onnx.rules import RULES

    assert sum(map(len, tg.onnx.supported().values())) == len(RULES)


if __name__ == "__main__":
    PAGE.write_text(PLACE.sub(lambda _: table(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
