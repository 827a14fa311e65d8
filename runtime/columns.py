"""Rows of text in columns."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tensorgrad.runtime.printable import printable


def aligned(rows: Sequence[Sequence[str]], numbers: Collection[int] = ()) -> list[str]:
    """Returns a line for each row, with columns as wide as their widest cell.

    Args:
        rows: The cells, the same number in each.
        numbers: The columns that are aligned to the right.
    """
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if column in numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
