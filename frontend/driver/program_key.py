"""Cache keys of compiled programs: one hash of everything that the passes read."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from io import StringIO
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, LocationAttr, ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.printer import Printer

from tensorgrad.dialects.locations import line_in
from tensorgrad.passes.labels import label_of, working_folder
from tensorgrad.passes.running import PACKAGE

SOURCES = ("dialects", "driver", "passes", "runtime")
"""The parts of the package that determine a traced function's program; the rest only affects what is traced."""


def key_of(module: ModuleOp, options: Mapping[str, object]) -> str:
    """Returns the cache key of a module's program.

    Args:
        module: The traced module. Its source locations are hashed as programs name them, so processes may run in
            different directories.
        options: Everything else that the passes and their order depend on, as JSON.
    """
    text = json.dumps([environment(), options, fingerprint(module)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


@functools.cache
def environment() -> Mapping[str, object]:
    """Returns the versions of the compiler's dependencies, and the state of its own source."""
    return {
        PACKAGE: _version(PACKAGE),
        "xdsl": _version("xdsl"),
        "numpy": np.__version__,
        "python": sys.version,
        "sources": sources(os.path.dirname(os.path.dirname(__file__))),
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
    found: list[str] = []
    for entry in os.scandir(folder):
        if not within and entry.name not in SOURCES:
            continue
        if entry.name.endswith(".py"):
            with suppress(FileNotFoundError):  # a dangling link of an editable install
                status = entry.stat()
                found.append(f"{within}{entry.name} {status.st_size} {status.st_mtime_ns}")
        elif entry.is_dir():
            found += sources(entry.path, f"{within}{entry.name}/")
    return sorted(found)


def fingerprint(module: ModuleOp) -> str:
    """Returns a hash of everything in a module: ops, numbered values, attributes, name hints and source lines.

    The printed text is not enough: it drops signs of zeros and NaN payloads in arrays, and takes twice the time.
    """
    walk = _Walk()
    walk.operation(module)
    return hashlib.sha256("\n".join(walk.lines).encode()).hexdigest()


class _Walk:
    """Serializes ops in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._numbers: dict[SSAValue, int] = {}
        self._texts: dict[int, str] = {}
        self._here = working_folder()

    def operation(self, op: Operation) -> None:
        """Serializes an op and everything nested in it."""
        attributes = (f"{name}={self._text(value)}" for name, value in sorted(op.attributes.items()))
        properties = (f"{name}={self._text(value)}" for name, value in sorted(op.properties.items()))
        operands = ",".join(str(self._numbers[value]) for value in op.operands)
        self.lines += [f"{op.name}({operands}) {self._text(op.location)}", *properties, "-", *attributes]
        for region in op.regions:
            self.lines.append("{")
            for block in region.blocks:
                self._block(block)
            self.lines.append("}")
        self._values(op.results)

    def _block(self, block: Block) -> None:
        self.lines.append("^")
        self._values(block.args)
        self.lines += [self._text(value.location) for value in block.args]
        for op in block.ops:
            self.operation(op)

    def _values(self, values: Iterable[SSAValue]) -> None:
        for value in values:
            self._numbers[value] = len(self._numbers)
            self.lines.append(f"{value.name_hint}: {self._text(value.type)}")

    def _text(self, attribute: Attribute) -> str:
        """Returns the text of an attribute that the module keeps alive, so its id is not reused meanwhile."""
        found = self._texts.get(id(attribute))
        if found is None:
            line = line_in(attribute)
            if line is not None and line is not attribute:
                found = self._text(line)  # programs don't record which module calls it is in
            else:
                found = label_of(attribute, self._here) if isinstance(attribute, LocationAttr) else _text_of(attribute)
            self._texts[id(attribute)] = found
        return found


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
