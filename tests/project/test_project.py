"""Project rules: what is packaged, and how long files may be. `test_layers` checks imports."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from layers import FOLDERS, MODULES, ROOT

LINE_LIMIT = 700
CODE_SUFFIXES = {".py", ".pyi", ".sh", ".html", ".css", ".js", ".ts", ".mlir", ".wgsl"}
TEXT_SUFFIXES = {*CODE_SUFFIXES, ".md", ".toml", ".yaml", ".yml", ".cfg"}
GENERATED = {"build", "dist", "out", "__pycache__", "node_modules"}


def test_importing_the_package_is_lazy() -> None:
    probe = "import sys, tensorgrad; print(*sorted({'xdsl', 'wgpu'} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []


def test_every_package_is_listed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    listed = project["tool"]["setuptools"]["packages"]
    packages = [name for name, (_, path) in MODULES.items() if path.name == "__init__.py"]
    assert sorted(listed) == sorted(packages)
    folders_without = [
        str(path.parent.relative_to(ROOT)) for _, path in MODULES.values() if not (path.parent / "__init__.py").exists()
    ]
    assert not folders_without, f"folders without __init__.py: {folders_without}"


def test_stubs_are_packaged() -> None:
    """Type checkers and the lazy loader of public names need them in the installed package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packaged = {
        path
        for package, patterns in project["tool"]["setuptools"]["package-data"].items()
        for folder, name in FOLDERS.items()
        if name == package
        for pattern in patterns
        for path in (ROOT / folder).glob(pattern)
    }
    stubs = {path for folder in FOLDERS for path in (ROOT / folder).rglob("*.pyi")}
    assert stubs and stubs <= packaged and ROOT / "frontend" / "py.typed" in packaged


def text_files() -> Iterator[Path]:
    """Yields every text file of the repository, except generated and hidden ones."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(name for name in folders if name not in GENERATED and not name.startswith("."))
        paths = (Path(folder, name) for name in sorted(names) if not name.startswith("."))
        yield from (path for path in paths if path.suffix in TEXT_SUFFIXES and path.is_file())


def test_files_are_short() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in text_files()}
    assert lengths
    long = [f"{path.relative_to(ROOT)}: {lines} lines" for path, lines in lengths.items() if lines > LINE_LIMIT]
    assert not long, "\n".join(long)
