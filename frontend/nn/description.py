"""Human-readable descriptions of models: a tree of modules with shapes and counts, as text and as HTML."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorgrad.tracing.tensor import Tensor


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


EXTENTS = (
    *(("in_features", "out_features"), ("in_channels", "out_channels"), ("input_size", "hidden_size")),
    *(("num_embeddings", "embedding_dim"), ("embed_dim",), ("num_features",), ("num_channels",), ("normalized_shape",)),
)
"""The attributes that say what a layer takes and returns; error messages name those that it has."""


def named_call(module: Any, path: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Returns the text for a call in error messages, such as "`blocks.2.mlp` (Linear 9 -> 1) got (4, 8)"."""
    names = next((names for names in EXTENTS if all(hasattr(module, name) for name in names)), ())
    extents = " -> ".join(str(getattr(module, name)) for name in names)
    shapes = [str(value.shape) for value in args if isinstance(value, Tensor | np.ndarray)]
    shapes += [f"{name}={value.shape}" for name, value in kwargs.items() if isinstance(value, Tensor | np.ndarray)]
    inputs = f" got {', '.join(shapes)}" if shapes else ""
    return f"`{path}` ({' '.join(part for part in (type(module).__name__, extents) if part)}){inputs}"
