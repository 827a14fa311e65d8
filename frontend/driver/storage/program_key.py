"""Cache keys of compiled programs: one hash of everything that the passes read."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from io import StringIO
from pathlib import Path
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.printer import Printer

from tensorgrad.passes.labels import label_of, working_folder
from tensorgrad.passes.running import PACKAGE
from tensorgrad.tracing.tracer import LAMBDA

SOURCES = ("dialects", "driver", "passes", "runtime")
"""The parts of the package that determine a traced function's program; the rest only affects what is traced."""


@dataclass(frozen=True)
class ProgramKey:
    """The cache key of a program.

    Attributes:
        digest: A hash of everything that the passes depend on. Source lines are not a part of it, so that an edit
            which only moves lines compiles nothing.
        lines: The source line of each op of the traced module, in order.
    """

    digest: str
    lines: tuple[str, ...]


def key_of(module: ModuleOp, options: Mapping[str, object]) -> ProgramKey:
    """Returns the cache key of a module's program.

    Args:
        module: The traced module.
        options: Everything else that the passes and their order depend on, as JSON.
    """
    walk = _Walk()
    walk.operation(module)
    text = walk.without_lines(json.dumps([environment(), options, walk.digest()], sort_keys=True))
    return ProgramKey(hashlib.sha256(text.encode()).hexdigest(), tuple(walk.lines))


@functools.cache
def environment() -> Mapping[str, object]:
    """Returns the versions of the compiler's dependencies, and the state of its own source."""
    return {
        PACKAGE: _version(PACKAGE),
        "xdsl": _version("xdsl"),
        "numpy": np.__version__,
        "python": sys.version,
        "sources": sources(str(Path(__file__).parents[2])),
    }


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:  # in an application bundled into one file, which never changes
        return ""


def sources(folder: str, within: str = "") -> list[str]:
    """Returns the files of `SOURCES` with their sizes and modification times, sorted.

    Hashing their contents would also work, but takes eight times as long.

    Args:
        folder: The package's directory.
        within: A subdirectory, with a trailing slash, all of whose files count.
    """
    entries: list[str] = []
    for entry in os.scandir(folder):
        if not within and entry.name not in SOURCES:
            continue
        if entry.name.endswith(".py"):
            with suppress(FileNotFoundError):  # a dangling link of an editable install
                status = entry.stat()
                entries.append(f"{within}{entry.name} {status.st_size} {status.st_mtime_ns}")
        elif entry.is_dir():
            entries += sources(entry.path, f"{within}{entry.name}/")
    return sorted(entries)


def fingerprint(module: ModuleOp) -> str:
    """Returns a hash of everything in a module but source lines: ops, numbered values, attributes and name hints.

    The printed text is not enough: it drops signs of zeros and NaN payloads in arrays, and takes twice the time.
    """
    walk = _Walk()
    walk.operation(module)
    return walk.digest()


class _Walk:
    """Serializes ops in order, and their source lines beside them, as programs name them."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._parts: list[str] = []
        self._numbers: dict[SSAValue, int] = {}
        self._texts: dict[int, str] = {}
        self._labels: dict[int, str] = {}
        self._lambdas: dict[str, int] = {}
        self._here = working_folder()

    def digest(self) -> str:
        """Returns the hash of the ops so far."""
        return hashlib.sha256("\n".join(self._parts).encode()).hexdigest()

    def operation(self, op: Operation) -> None:
        """Serializes an op and everything nested in it."""
        attributes = (f"{name}={self._text(value)}" for name, value in sorted(op.attributes.items()))
        properties = (f"{name}={self._text(value)}" for name, value in sorted(op.properties.items()))
        operands = ",".join(str(self._numbers[value]) for value in op.operands)
        self._parts += [f"{op.name}({operands})", *properties, "-", *attributes]
        self._line(op.location)
        for region in op.regions:
            self._parts.append("{")
            for block in region.blocks:
                self._block(block)
            self._parts.append("}")
        self._values(op.results)

    def _block(self, block: Block) -> None:
        self._parts.append("^")
        self._values(block.args)
        for value in block.args:
            self._line(value.location)
        for op in block.ops:
            self.operation(op)

    def _values(self, values: Iterable[SSAValue]) -> None:
        for value in values:
            self._numbers[value] = len(self._numbers)
            self._parts.append(f"{value.name_hint}: {self._text(value.type)}")

    def _line(self, location: Attribute) -> None:
        """Notes a source line, without the modules' calls that it ran in: programs don't record them."""
        label = self._labels.get(id(location))
        if label is None:
            label = self._labels[id(location)] = label_of(location, self._here)
        self.lines.append(label)

    def _text(self, attribute: Attribute) -> str:
        """Returns the text of an attribute that the module keeps alive, so its id is not reused meanwhile."""
        text = self._texts.get(id(attribute))
        if text is None:
            text = self._texts[id(attribute)] = self.without_lines(_text_of(attribute))
        return text

    def without_lines(self, text: str) -> str:
        """Returns a text in which lambdas are named by their numbers in the module, rather than by their lines."""
        return _LAMBDA_LINE.sub(lambda name: f"{LAMBDA}{self._lambdas.setdefault(name[0], len(self._lambdas))}", text)


_LAMBDA_LINE = re.compile(rf"{LAMBDA}\d+")


def _text_of(attribute: Attribute) -> str:
    stream = StringIO()
    _AttributePrinter(stream).print_attribute(attribute)
    return stream.getvalue()


class _AttributePrinter(Printer):
    """Prints attributes as text, with the elements of arrays replaced by the hash of their bytes."""

    def print_attribute(self, attribute: Attribute) -> None:
        """Prints an attribute; arrays may be nested in it."""
        if isinstance(attribute, DenseIntOrFPElementsAttr):
            array = cast("DenseIntOrFPElementsAttr[Any]", attribute)
            super().print_attribute(array.type)
            self.print_string(hashlib.sha256(array.data.data).hexdigest())
        else:
            super().print_attribute(attribute)
