"""Notices whether a module tree holds other objects than before, so that a step need not look for its parameters."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

from tensorgrad.nn.module import Module, is_container


class Watch:
    """What a module tree held when it was last looked at."""

    def __init__(self, root: Module):
        self._root = root
        self.renew()

    def renew(self) -> None:
        """Takes what the tree holds now for unchanged."""
        self._held = [(node, isinstance(node, Module), *_contents(node)) for node in _containers(self._root)]

    def is_unchanged(self) -> bool:
        """Returns whether every module and container of the tree has the same names for the same objects."""
        for node, is_module, names, values in self._held:  # as little work as possible: each step does it
            held = node.__dict__ if is_module else node
            if len(held) != len(values):
                return False
            if names is None:
                if not all(map(operator.is_, held, values)):
                    return False
            elif not all(map(operator.is_, held.values(), values)) or tuple(held) != names:
                return False
        return True


def _contents(node: Any) -> tuple[tuple[str, ...] | None, tuple[Any, ...]]:
    """Returns the names that a node has for what it holds, if it has names, and what it holds."""
    held = vars(node) if isinstance(node, Module) else node
    return (tuple(held), tuple(held.values())) if isinstance(held, dict) else (None, tuple(held))


def _containers(root: Module) -> Iterator[Any]:
    seen: set[int] = set()
    pending: list[Any] = [root]
    while pending:
        node = pending.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            pending += filter(is_container, _contents(node)[1])
