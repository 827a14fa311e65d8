"""Helpers for the output of commands."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.text import Text

from tensorgrad.runtime.printable import printable


def print_json(console: Console, value: Any) -> None:
    """Prints a value as JSON, on a terminal or to a pipe alike."""
    console.out(json.dumps(value, indent=1), highlight=False)


def plain(text: str) -> Text:
    """Returns a line of text, with names from files, as it is shown: neither rich nor the terminal obeys it."""
    return Text(printable(text))


def size(count: int) -> str:
    """Returns a human-readable number of bytes."""
    for unit, bytes_each in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= bytes_each:
            return f"{count / bytes_each:.3g} {unit}"
    return f"{count} B"
