"""What compiled programs are kept by: one hash of everything that the passes read."""

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
"""What makes programs of traced functions, within the package; the rest of the frontend shows in what it traces."""


def key_of(module: ModuleOp, options: Mapping[str, object]) -> str:
    """Returns the hash that a module's program is kept by.

    Args:
        module: What was traced. Its lines count as programs name them, so that a process may have another folder.
        options: Whatever else the passes and their order depend on, as JSON.
    """
    text = json.dumps([environment(), options, fingerprint(module)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


@functools.cache
def environment() -> Mapping[str, object]:
    """Returns the versions of what compiles, and the state of the compiler's own source."""
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
    except PackageNotFoundError:  # In an application that was packed into one file, and never changes.
        return ""


def sources(folder: str, within: str = "") -> list[str]:
    """Returns the files of `SOURCES` with their sizes and times, sorted.

    Their contents would do as well, but reading them takes eight times as long.

    Args:
        folder: The package's.
        within: A folder in it, all of whose files count, with a slash.
    """
    found: list[str] = []
    for entry in os.scandir(folder):
        if not within and entry.name not in SOURCES:
            continue
        if entry.name.endswith(".py"):
            with suppress(FileNotFoundError):  # A link of an editable install, whose file has gone.
                status = entry.stat()
                found.append(f"{within}{entry.name} {status.st_size} {status.st_mtime_ns}")
        elif entry.is_dir():
            found += sources(entry.path, f"{within}{entry.name}/")
    return sorted(found)


def fingerprint(module: ModuleOp) -> str:
    """Returns a hash of everything in a module: ops, values by number, attributes, name hints and lines.

    The printed text does not do: it drops signs of zeros and payloads of NaN in arrays, and takes twice the time.
    """
    walk = _Walk()
    walk.operation(module)
    return hashlib.sha256("\n".join(walk.lines).encode()).hexdigest()


class _Walk:
    """Writes down ops in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._numbers: dict[SSAValue, int] = {}
        self._texts: dict[int, str] = {}
        self._here = working_folder()

    def operation(self, op: Operation) -> None:
        """An op and all that is in it."""
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
        """Returns the text of an attribute that the module holds, so that no other one gets its identity meanwhile."""
        found = self._texts.get(id(attribute))
        if found is None:
            line = line_in(attribute)
            if line is not None and line is not attribute:
                found = self._text(line)  # which calls of modules it is in is not in programs
            else:
                found = label_of(attribute, self._here) if isinstance(attribute, LocationAttr) else _text_of(attribute)
            self._texts[id(attribute)] = found
        return found


def _text_of(attribute: Attribute) -> str:
    stream = StringIO()
    _AttributePrinter(stream).print_attribute(attribute)
    return stream.getvalue()


class _AttributePrinter(Printer):
    """Prints attributes as text, and the elements of arrays by the hash of their bytes."""

    def print_attribute(self, attribute: Attribute) -> None:
        """Prints one; arrays may be within others."""
        if isinstance(attribute, DenseIntOrFPElementsAttr):
            array = cast("DenseIntOrFPElementsAttr[Any]", attribute)
            super().print_attribute(array.type)
            self.print_string(hashlib.sha256(array.data.data).hexdigest())
        else:
            super().print_attribute(attribute)
