"""Diffs of IR."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from io import StringIO

from xdsl.dialects.builtin import ModuleOp
from xdsl.printer import Printer


class NamedText:
    """The text of a module that passes rewrite, in which a value keeps its name after every pass."""

    def __init__(self) -> None:
        self._names = 0

    def lines(self, module: ModuleOp) -> list[str]:
        """Names the values of a module that have no name yet; returns its lines, without locations."""
        for op in module.walk():
            blocks = (block for region in op.regions for block in region.blocks)
            for value in (*op.results, *(argument for block in blocks for argument in block.args)):
                if value.name_hint is None:
                    value.name_hint = f"v{self._names}"
                    self._names += 1
        stream = StringIO()
        Printer(stream=stream).print_op(module)
        return stream.getvalue().splitlines()


def difference(before: Sequence[str], after: Sequence[str], most: int) -> str:
    """Returns a unified diff of lines, empty if they are equal, truncated if it is too long to read.

    Args:
        before: The old lines.
        after: The new lines.
        most: The most lines of the diff.
    """
    if before == after:
        return ""
    lines = list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]
    if len(lines) > most:
        lines = [*lines[:most], f"@@ {len(lines) - most} lines more @@"]
    return "\n".join(lines)
