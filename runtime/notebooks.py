"""HTML tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

MOST_ROWS = 50
"""The maximum number of rows in a table."""


def html_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table that expands when its title is clicked.

    Args:
        title: The title.
        columns: The column names.
        rows: The cells; rows beyond `MOST_ROWS` are omitted, and the table says how many.
    """
    pairs = list(rows)
    lines = [_row("th", columns), *(_row("td", row) for row in pairs[:MOST_ROWS])]
    if len(pairs) > MOST_ROWS:
        lines.append(_row("td", [f"{len(pairs) - MOST_ROWS} more"]))
    return f"<details><summary><code>{escape(title)}</code></summary><table>{''.join(lines)}</table></details>"


def _row(tag: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"
