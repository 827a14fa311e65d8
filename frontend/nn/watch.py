"""Notices whether a module tree holds other objects than before, so that a step need not look for its parameters."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any

from tensorgrad.nn.module import Module, is_container


class Watch:
    """What a module tree held when it was last looked at."""

    def __init__(self, root: Module):
        self._root = root
        self.renew()

    def renew(self) -> None:
        """Takes what the tree holds now for unchanged."""
        self._held = [(node, *_contents(node)) for node in _containers(self._root)]

    def is_unchanged(self) -> bool:
        """Returns whether every module and container of the tree has the same names for the same objects."""
        for node, names, values in self._held:
            now_names, now_values = _contents(node)
            if len(now_values) != len(values) or not all(map(operator.is_, now_values, values)) or now_names != names:
                return False
        return True


def _contents(node: Any) -> tuple[tuple[str, ...], Sequence[Any]]:
    held = vars(node) if isinstance(node, Module) else node
    return (tuple(held), tuple(held.values())) if isinstance(held, dict) else ((), tuple(held))


def _containers(root: Module) -> Iterator[Any]:
    seen: set[int] = set()
    pending: list[Any] = [root]
    while pending:
        node = pending.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            pending += filter(is_container, _contents(node)[1])
