"""The mkdocs hook for docs/learn: the data of figures, and the file that the chapters build.

A figure is a `<div data-figure="name">` in a page; `figures.FIGURES` computes its data, and docs/learn/name.js draws
it. A chapter that begins with `<!-- continues: other.md -->` continues the Python of another page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensorgrad.tools.figures import FIGURES

FIGURE = re.compile(r'<div data-figure="(\w+)"></div>')
CONTINUES = re.compile(r"^<!-- continues: (\S+) -->$", re.MULTILINE)
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = "autodiff.py"
"""The name of the file with the Python of a chapter and its predecessors."""


def chapters(page: Path) -> list[Path]:
    """Returns a page after those that it continues, in their order."""
    earlier = CONTINUES.search(page.read_text(encoding="utf-8"))
    return [*(chapters(page.parent / earlier[1]) if earlier else []), page]


def file_so_far(page: Path) -> str:
    """Returns the Python of a page and of those that it continues, as one file."""
    parts = []
    for chapter in chapters(page):
        parts += [f"# {chapter.stem}", *PYTHON.findall(chapter.read_text(encoding="utf-8"))]
    return "\n\n".join(parts)


def on_post_page(output: str, **_: Any) -> str:
    """Inserts the data of each figure of a page into its element."""
    return FIGURE.sub(lambda match: _figure(match[1]), output)


def _figure(name: str) -> str:
    data = json.dumps(FIGURES[name](), allow_nan=False, separators=(",", ":")).replace("</", "<\\/")
    return (
        f'<div class="learn" data-figure="{name}"><noscript>This figure needs JavaScript.</noscript>'
        f'<script type="application/json">{data}</script></div>'
    )


def on_post_build(config: Mapping[str, Any], **_: Any) -> None:
    """Writes the file built so far next to each chapter."""
    for page in sorted(Path(config["docs_dir"], "learn").glob("*.md")):
        if "```python" in page.read_text(encoding="utf-8") and page.stem != "index":
            Path(config["site_dir"], "learn", page.stem, FILE).write_text(file_so_far(page), encoding="utf-8")
