"""The published browser runtime: a small module with types, included in the Python packages."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tensorgrad.web import INFERENCE, MODULE, STARTER

pytestmark = pytest.mark.web

ROOT = Path(__file__).resolve().parents[2]
MOST_BYTES = {MODULE: 20_000, INFERENCE: 15_000}
"""What each module may take, compressed."""
ABOUT_TRAINING = ("stepCount", "loadParameters", "restore", "466688986", "formula '", "createWritable")
"""Names of a training's members, the parity of Threefry's keys, formulas, checkpoints."""


@pytest.mark.parametrize("module", MOST_BYTES, ids=lambda path: path.stem)
def test_a_module_is_small_and_stands_alone(module: Path) -> None:
    code = module.read_bytes()
    assert len(gzip.compress(code, 9)) < MOST_BYTES[module]
    assert code.decode().startswith(f"/*! tensorgrad\n\n{(ROOT / 'LICENSE').read_text(encoding='utf-8')}*/\n")
    assert not re.search(rb"\b(import|require)\s*\(|\bfrom\s*[\"']|\beval\b|new Function", code)


def test_the_entry_for_inference_has_no_training() -> None:
    code, whole = INFERENCE.read_text(encoding="utf-8"), MODULE.read_text(encoding="utf-8")
    assert len(code) < 0.8 * len(whole)
    for text in ABOUT_TRAINING:
        assert text in whole and text not in code


def test_packages_have_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for path in (MODULE, INFERENCE, *STARTER, MODULE.parent / "types" / "index.d.ts"):
        assert f"tensorgrad/web/{path.relative_to(ROOT / 'web').as_posix()}" in names
    assert not any("node_modules" in name or (name.endswith(".ts") and "/types/" not in name) for name in names)
