"""The build backend: wheels have the runtime for browsers, whether it was built before or not."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import backend
import browser_module
import pytest
from layers import ROOT
from setuptools import build_meta

MODULE = "tensorgrad/web/dist/tensorgrad.js"


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with sources of the module, which isn't built."""
    folder = tmp_path / "web"
    shutil.copytree(ROOT / "web" / "src", folder / "src")
    for name in ("package.json", "package-lock.json", "tsconfig.json"):
        shutil.copy(ROOT / "web" / name, folder)
    dist = folder / "dist"
    monkeypatch.setattr(browser_module, "WEB", folder)
    monkeypatch.setattr(browser_module, "LICENSE", Path(shutil.copy(ROOT / "LICENSE", tmp_path)))
    monkeypatch.setattr(browser_module, "MODULE", dist / "tensorgrad.js")
    monkeypatch.setattr(browser_module, "STAMP", dist / ".sources")
    return folder


def build(web: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Builds the module with a stand-in for npm; returns what it was called with."""
    calls: list[tuple[str, ...]] = []

    def npm(*arguments: str) -> None:
        calls.append(arguments)
        (web / "dist").mkdir(exist_ok=True)
        (web / "dist" / "tensorgrad.js").touch()

    monkeypatch.setattr(browser_module, "run_npm", npm)
    browser_module.build()
    return calls


def test_it_is_built_again_when_a_source_changes(web: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not browser_module.is_built()
    assert build(web, monkeypatch) == [("ci", "--ignore-scripts"), ("run", "build")]
    assert browser_module.is_built()
    source = web / "src" / "index.ts"
    source.write_bytes(source.read_bytes().replace(b"\n", b"\r\n"))  # as git may check it out on Windows
    assert browser_module.is_built()
    source.write_bytes(source.read_bytes() + b"// more\n")
    assert not browser_module.is_built()


def test_node_is_required_only_to_build_it(web: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert backend.NODE in backend.get_requires_for_build_wheel()
    assert backend.NODE in backend.get_requires_for_build_sdist()
    assert backend.NODE not in backend.get_requires_for_build_editable()
    build(web, monkeypatch)
    assert backend.NODE not in backend.get_requires_for_build_wheel()


def test_without_npm_there_is_a_wheel(
    web: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def npm(*arguments: str) -> None:
        raise subprocess.CalledProcessError(1, "npm")

    monkeypatch.setattr(browser_module, "run_npm", npm)
    monkeypatch.setattr(build_meta, "build_wheel", lambda *arguments: "some.whl")
    assert backend.build_wheel("somewhere") == "some.whl"
    assert "warning: the module for pages can't be built" in capsys.readouterr().err


def run_backend(hook: str, folder: Path) -> Path:
    """Runs a hook in a folder as pip does; returns the file that it writes."""
    code = f"import sys; sys.path.insert(0, 'distribution'); import backend; print(backend.{hook}('out'))"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "out" / done.stdout.split()[-1]


@pytest.mark.web
def test_a_clone_installs_the_module(tmp_path: Path) -> None:
    """As `pip install .` does; and so does a source distribution of it, which has no sources of the module."""
    clone = tmp_path / "clone"
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.splitlines():
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, clone / name)
    with zipfile.ZipFile(run_backend("build_wheel", clone)) as wheel:
        assert MODULE in wheel.namelist() and "tensorgrad/web/starter/page.js" in wheel.namelist()
    with tarfile.open(run_backend("build_sdist", clone)) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    with zipfile.ZipFile(run_backend("build_wheel", unpacked)) as wheel:
        assert MODULE in wheel.namelist()
