"""The documentation's site builds without warnings, and its tables and reference match the code."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from xdsl.ir import Dialect

import tensorgrad as tg
from tensorgrad.dialects.buf_control import Buf
from tensorgrad.dialects.cpu import Cpu
from tensorgrad.dialects.tg import Tg
from tensorgrad.dialects.wgsl import Wgsl
from tensorgrad.passes.registry import CLASSES, pass_class

ROOT = Path(__file__).resolve().parents[2]
MODULES = {"callbacks", "data", "distributed", "errors", "initializers", "linalg", "nn", "onnx", "optim", "random"}
"""Public names that are modules, which have pages and sections of their own."""


def one_tree(folder: Path) -> None:
    """Links the package's folders under their import name, as a strict editable install does."""
    for source in ("frontend", "dialects", "passes", "interpreters", "checks", "runtime", "tools", "lab"):
        for path in (ROOT / source).rglob("*.py*"):
            if path.suffix not in (".py", ".pyi"):
                continue
            place = path.relative_to(ROOT / "frontend" if source == "frontend" else ROOT)
            link = folder / "tensorgrad" / place
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path)
    (folder / "tensorgrad" / "web").mkdir()
    (folder / "tensorgrad" / "web" / "__init__.py").symlink_to(ROOT / "web" / "__init__.py")


@pytest.mark.web  # the gallery needs the runtime for browsers
def test_it_builds(tmp_path: Path) -> None:
    """In strict mode: an unlisted page, a dead link or a missing module fails. The gallery is live."""
    one_tree(tmp_path / "links")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "GALLERY_STEPS": "1", "PYTHONPATH": str(tmp_path / "links")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for program in sorted((ROOT / "examples" / "web").glob("*/*.py")):
        page = tmp_path / "site" / "gallery" / program.stem
        assert (page / "live" / "index.html").exists() and (page / "live" / "training.tg").exists()
        assert "export_web" in (page / "index.html").read_text(encoding="utf-8")
    for name in ("values", "training"):
        assert (tmp_path / "site" / "learn" / name / "autodiff.py").exists()
    drawn = (tmp_path / "site" / "learn" / "values" / "index.html").read_text(encoding="utf-8")
    assert '<div class="learn" data-figure="graph">' in drawn and "fonts.g" not in drawn


@cache
def documented() -> set[str]:
    """Returns the modules that reference pages are generated from."""
    pages = (ROOT / "docs" / "reference").glob("*.md")
    return {name for page in pages for name in re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.M)}


@cache
def published() -> set[str]:
    """Returns the names that documented modules export, including those of other modules."""
    return {name for module in documented() for name in getattr(import_module(module), "__all__", ())}


@pytest.mark.parametrize("name", dir(tg.linalg))
def test_linear_algebra_is_in_the_reference(name: str) -> None:
    assert inspect.unwrap(getattr(tg.linalg, name)).__module__ in documented()


@pytest.mark.parametrize("name", sorted(set(dir(tg)) - MODULES - {"__version__"}))
def test_public_names_are_in_the_reference(name: str) -> None:
    value: Any = getattr(tg, name)
    home = getattr(inspect.unwrap(value), "__module__", "tensorgrad.tracing.dtypes")
    home = home if home.startswith("tensorgrad") else "tensorgrad.tracing.dtypes"
    assert home in documented() or name in published(), home


def test_the_table_names_what_there_is() -> None:
    rows = (ROOT / "docs" / "how-to" / "from-pytorch.md").read_text(encoding="utf-8").splitlines()
    ours = [row.split(" | ", 1)[1] for row in rows if " | " in row]
    names = {name for column in ours for name in re.findall(r"\btg\.([\w.]+)", column)}
    assert len(names) > 20
    for name in names:
        value: Any = tg
        for part in name.split("."):
            value = getattr(value, part)


@pytest.mark.parametrize("name", CLASSES)
def test_passes_are_in_the_reference_and_in_the_table(name: str) -> None:
    assert pass_class(name).__module__ in documented()
    table = (ROOT / "docs" / "reference" / "tg-opt.md").read_text(encoding="utf-8")
    rows = [row.split(" | ", 1)[0] for row in table.splitlines() if row.startswith("| `")]
    assert any(f"`{name}`" in row for row in rows)


@pytest.mark.parametrize("dialect", [Tg, Buf, Wgsl, Cpu], ids=lambda dialect: dialect.name)
def test_dialect_ops_are_in_the_reference(dialect: Dialect) -> None:
    assert {op.__module__ for op in dialect.operations} <= documented()


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", ROOT / "benchmarks" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_columns_of_tables_have_headings(page: Path) -> None:
    lines = page.read_text(encoding="utf-8").splitlines()
    headers = [line for line, rule in pairwise(lines) if re.fullmatch(r"\|(-+\|)+", rule)]
    assert all(cell.strip() for header in headers for cell in header.strip("|").split("|")), headers
