"""The modules of the project, and what each imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

FOLDERS = {
    "frontend": "tensorgrad",
    "dialects": "tensorgrad.dialects",
    "passes": "tensorgrad.passes",
    "interpreters": "tensorgrad.interpreters",
    "checks": "tensorgrad.checks",
    "runtime": "tensorgrad.runtime",
    "tools": "tensorgrad.tools",
    "lab": "tensorgrad.lab",
    "web": "tensorgrad.web",
}
"""The folders that are packages, and what they import as."""


def module_files() -> Iterator[tuple[str, str, Path]]:
    """Yields (folder, module name, path) of every module of the project."""
    for folder, package in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            yield folder, ".".join([package, *(part for part in parts if part != "__init__")]), path


MODULES = {name: (folder, path) for folder, name, path in module_files()}


@dataclass(frozen=True)
class Import:
    """An imported module.

    Attributes:
        line: Its line.
        name: The module.
        in_function: Whether it runs when a function does.
        for_types: Whether only type checkers see it.
    """

    line: int
    name: str
    in_function: bool
    for_types: bool


@cache
def imports(name: str, path: Path) -> Sequence[Import]:
    """Returns the imports of a module, at any depth."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    return tuple(_imports(ast.parse(path.read_text(encoding="utf-8")), package, False, False))


def _imports(node: ast.AST, package: str, in_function: bool, for_types: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(child.lineno, alias.name, in_function, for_types)
        elif isinstance(child, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - child.level + 1] if child.level else []
            source = ".".join([*above, *([child.module] if child.module else [])])
            for alias in child.names:
                submodule = f"{source}.{alias.name}"
                yield Import(child.lineno, submodule if submodule in MODULES else source, in_function, for_types)
        else:
            inside = in_function or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            types = for_types or (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING")
            yield from _imports(child, package, inside, types)
