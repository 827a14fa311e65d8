"""Files that were written once are read for good: each version of each format gives the same bits."""

from __future__ import annotations

import re

import pytest
from formats import FORMATS, KEYED
from layers import ROOT
from write import HERE, digest, manifest, write

MOST_BYTES = 100_000
CASES = [
    (name, version, device)
    for name, versions in manifest().items()
    for version in versions
    for device in FORMATS[name].devices
]


@pytest.mark.parametrize(("name", "version", "device"), CASES)
def test_a_file_gives_the_same_bits(name: str, version: str, device: str) -> None:
    values, expected = digest(FORMATS[name].read(HERE / name / version, device)), manifest()[name][version]
    if device == "cpu":
        expected = {name: value for name, value in expected.items() if not name.startswith(KEYED)}
    assert values == expected


@pytest.mark.parametrize("name", FORMATS)
def test_the_current_version_is_kept(name: str) -> None:
    """After a change of a version, `python tests/artifacts/write.py` adds its files."""
    assert str(FORMATS[name].version) in manifest()[name]
    assert not write(name), "what is kept is not written again"


def test_files_and_manifest_agree() -> None:
    folders = {(folder.parent.name, folder.name) for folder in HERE.glob("*/*") if folder.is_dir()}
    assert folders == {(name, version) for name, versions in manifest().items() for version in versions}


def test_they_are_small() -> None:
    assert sum(path.stat().st_size for path in HERE.glob("*/*/*")) < MOST_BYTES


VERSION = re.compile(r"^(?:FORMAT, )?FORMAT(?:_VERSION)? = .*\d$", re.MULTILINE)
KEPT_HERE = {"runtime/program.py", "frontend/driver/storage/checkpoints.py", "passes/buffers/schedule/tuned.py"}
CACHES = {"frontend/driver/storage/program_cache.py"}
"""Caches are written anew by another version."""


def test_every_version_in_the_source_is_known() -> None:
    files = [file for folder in ("frontend", "runtime", "passes") for file in (ROOT / folder).rglob("*.py")]
    found = {str(file.relative_to(ROOT)) for file in files if VERSION.search(file.read_text(encoding="utf-8"))}
    assert found == KEPT_HERE | CACHES
