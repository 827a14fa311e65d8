"""The documentation's examples run: `tg-opt` and `tg` commands of docs/*.md, and Python of README.md and docs/*.md.

A block is left out where `<!-- no-run -->` stands on the line above it. The ```mlir blocks that begin with
`// name.mlir`, and the ```python blocks that begin with `# name.py`, are the files that the commands of their page
read. The Python blocks of one page share their names.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tensorgrad.tools import tg, tg_opt

PROGRAMS = {"tg-opt": tg_opt.main, "tg": tg.main}

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
BLOCK = re.compile(r"^(?P<above>[^\n]*)\n\s*^```(?P<language>\w+)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    code: str
    runs: bool


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = "\n" + page.read_text(encoding="utf-8")
    return [Block(m["language"], m["code"], "<!-- no-run -->" not in m["above"]) for m in BLOCK.finditer(text)]


def commands(page: Path) -> list[str]:
    """The lines of the page's shell blocks that call one of our programs."""
    lines = [line for b in blocks(page) if b.language == "sh" and b.runs for line in b.code.splitlines()]
    return [line for line in lines if line.split(" ")[0] in PROGRAMS]


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.name)
def test_commands(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TENSORGRAD_CACHE", str(tmp_path / "cache"))
    for block in blocks(page):
        if name := re.match(r"(?://|#) (\w+\.(?:mlir|py))\n", block.code):
            (tmp_path / name[1]).write_text(block.code, encoding="utf-8")
    for command in commands(page):
        name, *arguments = shlex.split(command)
        status = PROGRAMS[name](arguments)
        output = capsys.readouterr()
        assert status == 0, f"{command}\n{output.err}"
        assert output.out or " -o " in command, f"{command} prints nothing"


def python_of(page: Path) -> str:
    """The page's Python blocks that run, one behind the other."""
    return "\n".join(b.code for b in blocks(page) if b.language == "python" and b.runs)


@pytest.mark.parametrize(
    "page", [page for page in (ROOT / "README.md", *PAGES) if python_of(page)], ids=lambda page: page.name
)
def test_python(page: Path, tmp_path: Path) -> None:
    """In a process and a folder of its own, from a file, since traced functions are found by their source."""
    script = tmp_path / "example.py"
    script.write_text(python_of(page), encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-W", "error", script.name],
        cwd=tmp_path,
        env={**os.environ, "LP_NUM_THREADS": os.environ.get("LP_NUM_THREADS", "0")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr


def test_the_pages_have_examples() -> None:
    assert commands(ROOT / "docs" / "tg-opt.md")
    assert python_of(ROOT / "README.md")


def test_blocks_can_be_left_out(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- no-run -->\n```python\nfail\n```\n\ntext\n\n```python\nx = 1\n```\n", encoding="utf-8")
    assert python_of(page) == "x = 1\n"
