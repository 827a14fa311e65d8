"""The project's own rules: which layer may import which, what is packaged, how long a file may be."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

FOLDERS = {
    "frontend": "tensorgrad",
    "dialects": "tensorgrad.dialects",
    "passes": "tensorgrad.passes",
    "runtime": "tensorgrad.runtime",
    "tools": "tensorgrad.tools",
}
"""The folders that are packages, and what they import as."""

DEVICE_SIDE = tuple(
    f"tensorgrad.runtime.{name}"
    for name in (
        "program",
        "plan",
        "shaders",
        "saved",
        "loaded",
        "keys",
        "target",
        "formula",
        "errors",
        "files",
        "conversion",
        "backend",
        "sharing",
        "webgpu",
    )
)
"""What loads and runs a saved program: needs no compiler, so no xDSL."""

SHARED_WITH_PASSES = tuple(f"tensorgrad.runtime.{name}" for name in ("program", "target", "formula", "errors"))

MAY_IMPORT = {
    "dialects": ("tensorgrad.dialects",),
    "passes": ("tensorgrad.dialects", "tensorgrad.passes", *SHARED_WITH_PASSES),
    "runtime": ("tensorgrad.dialects", "tensorgrad.runtime"),
    "frontend": ("tensorgrad",),
    "tools": ("tensorgrad",),
}
"""What of ours each folder may import; a name allows everything below it."""

MUST_NOT_IMPORT = {"frontend": ("tensorgrad.tools",)}

LINE_LIMIT = 700
TEXT_SUFFIXES = {".py", ".pyi", ".md", ".mlir", ".sh", ".toml", ".yaml", ".yml", ".cfg", ".html", ".js", ".wgsl"}
GENERATED = {"build", "dist", "out", "__pycache__"}


def module_files() -> Iterator[tuple[str, str, Path]]:
    """Yields (folder, module name, path) of every module that is ours."""
    for folder, package in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            yield folder, ".".join([package, *(part for part in parts if part != "__init__")]), path


MODULES = {name: (folder, path) for folder, name, path in module_files()}


def below(name: str, packages: tuple[str, ...]) -> bool:
    """Whether `name` is one of `packages` or lies below one."""
    return any(name == package or name.startswith(package + ".") for package in packages)


def imports(name: str, path: Path) -> Iterator[tuple[int, str]]:
    """Yields (line, module) for every import statement at any depth of a file."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            source = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                submodule = f"{source}.{alias.name}"
                yield node.lineno, submodule if submodule in MODULES else source


def is_violation(importer: str, imported: str) -> bool:
    """Whether the layering forbids that `importer` imports `imported`."""
    folder, _ = MODULES[importer]
    if imported == "wgpu" or imported.startswith("wgpu."):
        return not below(importer, ("tensorgrad.runtime.webgpu",))
    if below(imported, ("xdsl",)):
        return below(importer, DEVICE_SIDE) or importer == "tensorgrad.runtime"
    if not below(imported, ("tensorgrad",)):
        return False
    if below(importer, DEVICE_SIDE) and not (imported == "tensorgrad.runtime" or below(imported, DEVICE_SIDE)):
        return True
    return not below(imported, MAY_IMPORT[folder]) or below(imported, MUST_NOT_IMPORT.get(folder, ()))


def test_layers() -> None:
    violations = [
        f"{path.relative_to(ROOT)}:{line}: {name} must not import {imported}"
        for name, (_, path) in MODULES.items()
        for line, imported in imports(name, path)
        if is_violation(name, imported)
    ]
    assert not violations, "\n".join(violations)


@pytest.mark.parametrize(
    ("importer", "imported", "expected"),
    [
        ("tensorgrad.dialects", "tensorgrad.passes.tensors.grad", True),
        ("tensorgrad.dialects", "tensorgrad.dialects.tg", False),
        ("tensorgrad.passes", "tensorgrad.runtime.program", False),
        ("tensorgrad.passes", "tensorgrad.runtime.webgpu", True),
        ("tensorgrad.passes", "tensorgrad.runtime", True),
        ("tensorgrad.passes", "tensorgrad", True),
        ("tensorgrad.passes", "wgpu.backends", True),
        ("tensorgrad.runtime", "tensorgrad.passes", True),
        ("tensorgrad.runtime", "xdsl.ir", True),
        ("tensorgrad", "tensorgrad.passes.tensors.grad", False),
        ("tensorgrad", "tensorgrad.tools", True),
        ("tensorgrad.tools", "tensorgrad.passes", False),
        ("tensorgrad.dialects", "numpy", False),
    ],
)
def test_the_rule_itself(importer: str, imported: str, expected: bool) -> None:
    assert is_violation(importer, imported) is expected


@pytest.mark.parametrize("module", DEVICE_SIDE)
def test_device_side_needs_no_compiler(module: str) -> None:
    barred = ["xdsl"] if module == "tensorgrad.runtime.webgpu" else ["xdsl", "wgpu"]
    bar = f"import sys; sys.modules.update(dict.fromkeys({barred!r})); import {module}"
    result = subprocess.run([sys.executable, "-W", "error", "-c", bar], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


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
    """Type checkers and the loading of public names read them where the package is installed."""
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
    """Yields every text file of the repository, without what is generated or hidden."""
    for path in sorted(ROOT.rglob("*")):
        parts = path.relative_to(ROOT).parts
        hidden = any(part in GENERATED or part.startswith(".") for part in parts)
        if not hidden and path.suffix in TEXT_SUFFIXES and path.is_file():
            yield path


def test_files_are_short() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in text_files()}
    assert lengths
    long = [f"{path.relative_to(ROOT)}: {lines} lines" for path, lines in lengths.items() if lines > LINE_LIMIT]
    assert not long, "\n".join(long)
