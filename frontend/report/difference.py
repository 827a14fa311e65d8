"""Diffs of IR."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


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
