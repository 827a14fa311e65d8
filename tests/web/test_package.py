"""The published browser runtime: a small module with types, included in the Python packages."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tensorgrad.web import MODULE, STARTER

pytestmark = pytest.mark.web

ROOT = Path(__file__).resolve().parents[2]
MOST_BYTES = 20_000
"""What the module may take, compressed."""


def test_the_module_is_small_and_stands_alone() -> None:
    code = MODULE.read_bytes()
    assert len(gzip.compress(code, 9)) < MOST_BYTES
    assert not re.search(rb"\b(import|require)\s*\(|\bfrom\s*[\"']|\beval\b|new Function", code)


def test_packages_have_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for path in (MODULE, *STARTER, MODULE.parent / "types" / "index.d.ts"):
        assert f"tensorgrad/web/{path.relative_to(ROOT / 'web').as_posix()}" in names
    assert not any("node_modules" in name or (name.endswith(".ts") and "/types/" not in name) for name in names)
