"""Tables on the console, which stay readable where it is narrow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich import box
from rich.console import Console
from rich.table import Table

from tensorgrad.tools.printing import plain

WORD = 12
"""The most columns of the console that a word must have; longer ones, such as paths, are folded."""


@dataclass
class Listing:
    """Rows of cells: printed as a table, or as a block of lines for each row where a table would cut words.

    Attributes:
        columns: The names of the columns with text.
        numbers: The names of those after them, whose cells are aligned right and never folded.
        title: What stands above the table.
        light: Whether to draw a line below the names only.
    """

    columns: Sequence[str]
    numbers: Sequence[str] = ()
    title: str = ""
    light: bool = False
    _rows: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])
    _ends: set[int] = field(default_factory=set[int])

    def add(self, *cells: str) -> None:
        """Adds a row; cells that are left out at its end are empty."""
        self._rows.append(cells)

    def end_section(self) -> None:
        """Draws a line below the last row."""
        self._ends.add(len(self._rows) - 1)

    def print(self, console: Console) -> None:
        """Prints it to fit the width of the console."""
        names = (*self.columns, *self.numbers)
        widths = self._widths()
        if sum(widths) + 3 * len(widths) + 1 <= console.width:
            console.print(self._table(widths))
            return
        if self.title:
            console.print(plain(self.title))
        for number, row in enumerate(self._rows):
            block = Table.grid(padding=(0, 2, 0, 0))
            block.add_column(no_wrap=True, style="bold")
            block.add_column(overflow="fold")
            for name, cell in zip(names, row, strict=False):
                if cell:
                    block.add_row(plain(name), plain(cell))
            if number:
                console.print()
            console.print(block)

    def _widths(self) -> list[int]:
        """Returns the width of each column below which words would be cut."""
        widths: list[int] = []
        for number, name in enumerate((*self.columns, *self.numbers)):
            cells = [name, *(row[number] for row in self._rows if number < len(row))]
            if number < len(self.columns):
                widths.append(max(min(len(word), WORD) for cell in cells for word in (cell.split() or [""])))
            else:
                widths.append(max(map(len, cells)))
        return widths

    def _table(self, widths: Sequence[int]) -> Table:
        style = {"box": box.SIMPLE_HEAD, "pad_edge": False} if self.light else {}
        table = Table(title=plain(self.title) if self.title else None, **style)
        for name, width in zip(self.columns, widths, strict=False):
            table.add_column(name, overflow="fold", min_width=width)
        for name in self.numbers:
            table.add_column(name, justify="right", no_wrap=True)
        for number, row in enumerate(self._rows):
            table.add_row(*map(plain, row), end_section=number in self._ends)
        return table
