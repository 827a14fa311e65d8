"""Models as people read them: a tree of modules with shapes and counts, as text and as HTML."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorgrad.nn.module import Module


@dataclass
class Entry:
    """A module, a container or a parameter.

    Attributes:
        label: Its name, and what it is.
        is_module: Whether it is a module.
        shared: The path that it was found at before, if it was.
        count: How many numbers its parameters have, without those found before.
        children: What is in it.
    """

    label: str
    is_module: bool = False
    shared: str | None = None
    count: int = 0
    children: list[Entry] = field(default_factory=list)

    @property
    def line(self) -> str:
        """What it is called, how large it is, and where else it is."""
        if self.shared is not None:
            return f"{self.label} (shared with {self.shared or 'the model itself'})"
        return f"{self.label} ({self.count:,})" if self.is_module and self.count else self.label

    def text(self) -> str:
        """The tree, a line for each entry."""
        return "\n".join([self.line, *("  " + line for child in self.children for line in child.text().split("\n"))])

    def html(self) -> str:
        """The tree as nested elements that fold."""
        line = html.escape(self.line)
        if not self.children:
            return f"<div>{line}</div>"
        inner = "".join(child.html() for child in self.children)
        return f'<details open=""><summary>{line}</summary><div style="margin-left: 1.5em">{inner}</div></details>'


def described(model: Module) -> Entry:
    """The tree of a model."""
    from tensorgrad.nn.module import Buffer, Module, Parameter, entries, is_container

    seen: dict[int, str] = {}

    def visit(name: str, path: str, node: Any) -> Entry | None:
        is_leaf = isinstance(node, Parameter | Buffer)
        kind = type(node).__name__ if isinstance(node, Module) else repr(node) if is_leaf else ""
        entry = Entry(": ".join(part for part in (name, kind) if part), isinstance(node, Module))
        if id(node) in seen:
            entry.shared = seen[id(node)]
            return entry
        seen[id(node)] = path
        if is_leaf:
            entry.count = math.prod(node.shape) if isinstance(node, Parameter) else 0
            return entry
        for key, value in entries(node):
            if isinstance(value, Parameter | Buffer) or is_container(value):
                child = visit(key, f"{path}.{key}" if path else key, value)
                entry.children += [] if child is None else [child]
        entry.count = sum(child.count for child in entry.children)
        return entry if entry.children or entry.is_module else None

    root = visit("", "", model)
    assert root is not None
    root.label += f": {root.count:,} parameter{'' if root.count == 1 else 's'}"
    root.is_module = False  # its count is in the label
    return root
