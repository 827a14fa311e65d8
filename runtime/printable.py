"""Escapes what a terminal would obey rather than show, in names that come from files."""

from __future__ import annotations

import re

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
