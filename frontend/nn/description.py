"""Human-readable descriptions of models: a tree of modules with shapes and counts, as text and as HTML."""

from __future__ import annotations

import html
from dataclasses import dataclass, field


@dataclass
class Entry:
    """A module, a container or a parameter.

    Attributes:
        label: Its name and kind.
        is_module: Whether it is a module.
        shared: The path under which it was found before, if it was.
        count: The number of elements of its parameters, excluding those found before.
        children: The entries in it.
    """

    label: str
    is_module: bool = False
    shared: str | None = None
    count: int = 0
    children: list[Entry] = field(default_factory=list)

    @property
    def line(self) -> str:
        """The entry's label with its size, or with the path it is shared with."""
        if self.shared is not None:
            return f"{self.label} (shared with {self.shared or 'the model itself'})"
        return f"{self.label} ({self.count:,})" if self.is_module and self.count else self.label

    def text(self) -> str:
        """Returns the tree with one line per entry."""
        return "\n".join([self.line, *("  " + line for child in self.children for line in child.text().split("\n"))])

    def html(self) -> str:
        """Returns the tree as nested collapsible elements."""
        line = html.escape(self.line)
        if not self.children:
            return f"<div>{line}</div>"
        inner = "".join(child.html() for child in self.children)
        return f'<details open=""><summary>{line}</summary><div style="margin-left: 1.5em">{inner}</div></details>'
