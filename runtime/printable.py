"""Names in messages: escapes what a terminal would obey rather than show, if they are from files; shortens lists."""

from __future__ import annotations

import re
from collections.abc import Sequence

CONTROLS = r"\x00-\x1f\x7f-\x9f"
BIDIRECTIONAL = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""The characters that change the order in which others are shown; see Unicode's annex 9."""
OTHERS = r"\u2028\u2029\ufeff\ud800-\udfff"
"""Separators of lines and paragraphs, byte order marks, and halves of characters."""

_ALL = re.compile(f"[{CONTROLS}{BIDIRECTIONAL}{OTHERS}]")
_IN_LINES = re.compile(rf"(?![\n\t])[{CONTROLS}{BIDIRECTIONAL}{OTHERS}]")


def printable(text: str, lines: bool = False) -> str:
    r"""Returns a text with its control characters and marks of direction as Python writes them, such as `\x1b`.

    Args:
        text: The text.
        lines: Whether it may have several lines, and tabs.
    """
    return (_IN_LINES if lines else _ALL).sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


MOST_NAMES = 10
"""How many names of a kind an error lists."""


def listed(names: Sequence[str]) -> str:
    """Returns names as text for a message: ten of them, and the number of all if there are more."""
    first = ", ".join(map(str, names[:MOST_NAMES]))
    return first if len(names) <= MOST_NAMES else f"{first} and {len(names) - MOST_NAMES} more, {len(names)} in all"
