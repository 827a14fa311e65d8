"""Tables for notebooks, as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

MOST_ROWS = 50
"""How many rows a table has."""


def html_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table that opens when its title is chosen.

    Args:
        title: What it is about.
        columns: Their names.
        rows: The cells; only the first of many rows are there, and how many are missing.
    """
    found = list(rows)
    lines = [_row("th", columns), *(_row("td", row) for row in found[:MOST_ROWS])]
    if len(found) > MOST_ROWS:
        lines.append(_row("td", [f"{len(found) - MOST_ROWS} more"]))
    return f"<details><summary><code>{escape(title)}</code></summary><table>{''.join(lines)}</table></details>"


def _row(tag: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"
