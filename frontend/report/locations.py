"""Prints IR, with the source location of each of its lines."""

from __future__ import annotations

import linecache
import re
from bisect import bisect_left
from collections.abc import Iterable
from io import StringIO
from pathlib import Path

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.printer import Printer

from tensorgrad.dialects.locations import line_in
from tensorgrad.passes.labels import label_of, working_folder
from tensorgrad.report.facts import NOWHERE, SourceFile, SourceLine

MOST_SOURCE = 1 << 20
"""The longest source that a report includes, in characters."""


class Sources:
    """The files of the user's program, each with a number.

    Args:
        folder: What relative paths are relative to, before the current folder.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._numbers: dict[str, int] = {}
        self._here = working_folder()
        self._folders = [Path.cwd()] if folder is None else [folder.resolve(), Path.cwd()]

    def place(self, file: str, line: int) -> SourceLine:
        """Returns a line's location."""
        if line < 1:
            return NOWHERE
        return self._numbers.setdefault(file, len(self._numbers)), line

    def places(self, root: Operation) -> tuple[SourceLine, ...]:
        """Returns the source lines of an op and its nested ops, in order."""
        return tuple(sorted(self.places_of(root.walk())))

    def places_of(self, ops: Iterable[Operation]) -> tuple[SourceLine, ...]:
        """Returns the source lines of ops, without duplicates."""
        lines = (line for op in ops if (line := line_in(op.location)) is not None)
        places = dict.fromkeys(self.place(line.filename.data, line.line.data) for line in lines)
        places.pop(NOWHERE, None)
        return tuple(places)

    def labels(self, root: Operation) -> list[str]:
        """Returns the source lines of an op and its nested ops as labels, by file and line."""
        places = self.places(root)
        files = list(self._numbers)
        lines = sorted((files[file], line) for file, line in places)
        return list(dict.fromkeys(self._label(file, line) for file, line in lines))

    def files(self) -> tuple[SourceFile, ...]:
        """Returns the files by their numbers; of those that can't be read the text is empty."""
        return tuple(SourceFile(self.path(file), self._text(file)) for file in self._numbers)

    def path(self, file: str) -> str:
        """Returns a file's path as in labels, without the folders above the working directory."""
        return self._label(file, 1).rpartition(":")[0]

    def _text(self, file: str) -> str:
        """Returns a file's text, that of a notebook's cell too; nothing if it can't be read, or is too long.

        Python would look for a relative path along `sys.path` too, and find another file of that name there.
        """
        if file not in linecache.cache and not Path(file).is_absolute():
            folders = (folder / file for folder in self._folders)
            file = next((str(path) for path in folders if path.is_file()), "")
        text = "".join(linecache.getlines(file)) if file else ""
        return text if len(text) <= MOST_SOURCE else ""

    def _label(self, file: str, line: int) -> str:
        return label_of(FileLineColLoc(StringAttr(file), IntAttr(line), IntAttr(0)), self._here)


def printed(module: ModuleOp, sources: Sources) -> tuple[str, tuple[SourceLine, ...]]:
    """Returns a module as text, without locations, and the source location of each line.

    An op with regions has its location on its first and last line, and on those between its blocks.
    """
    stream = StringIO()
    printer = _OpPrinter(stream)
    printer.print_op(module)
    text = stream.getvalue()
    ends = [newline.start() for newline in re.finditer("\n", text)]
    places = [NOWHERE] * (len(ends) + 1)
    for op, (start, end) in printer.spans.items():  # ops before those within them
        line = line_in(op.location)
        place = NOWHERE if line is None else sources.place(line.filename.data, line.line.data)
        first, last = bisect_left(ends, start), bisect_left(ends, end)
        places[first : last + 1] = [place] * (last + 1 - first)
    return text, tuple(places)


class _OpPrinter(Printer):
    """Prints ops, and knows where in the text each begins and ends."""

    def __init__(self, stream: StringIO):
        super().__init__(stream=stream)
        self._text = stream
        self.spans: dict[Operation, tuple[int, int]] = {}

    def print_op(self, op: Operation) -> None:
        """Prints an op."""
        start = self._text.tell()
        self.spans[op] = start, start
        super().print_op(op)
        self.spans[op] = start, self._text.tell()
