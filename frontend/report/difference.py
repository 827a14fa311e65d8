"""What differs between two texts of IR."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


def difference(before: Sequence[str], after: Sequence[str], most: int) -> str:
    """Returns a unified diff of lines, empty where they are the same, cut off where it is too long to be read.

    Args:
        before: The lines.
        after: Those in their place.
        most: How many lines the diff has at most.
    """
    if before == after:
        return ""
    lines = list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]
    if len(lines) > most:
        lines = [*lines[:most], f"@@ {len(lines) - most} lines more @@"]
    return "\n".join(lines)
