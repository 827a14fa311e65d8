"""Detects changes of the objects in a module tree, so that a step need not collect its parameters again."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator
from itertools import chain
from typing import Any

from tensorgrad.nn.module import Module, is_container


class Watch:
    """A snapshot of the objects in a module tree."""

    def __init__(self, root: Module):
        self._root = root
        self.renew()

    def renew(self) -> None:
        """Takes a new snapshot."""
        nodes = list(_containers(self._root))
        self._modules = [node for node in nodes if isinstance(node, Module)]
        self._attributes = [vars(module) for module in self._modules]
        named = [*self._attributes, *(node for node in nodes if isinstance(node, dict))]
        self._named: list[dict[str, Any]] = named
        # A dict's view of its values always reflects the current ones.
        self._held: list[Collection[Any]] = [attributes.values() for attributes in named]
        self._held += [node for node in nodes if not isinstance(node, Module | dict)]
        self._lengths = list(map(len, self._held))
        self._names = list(chain.from_iterable(named))
        self._values = list(chain.from_iterable(self._held))

    def is_unchanged(self) -> bool:
        """Returns whether every module and container of the tree has the same names for the same objects.

        Called on each step, so all loops are in C.
        """
        return (
            list(map(len, self._held)) == self._lengths
            and all(map(operator.is_, chain.from_iterable(self._held), self._values))
            and list(chain.from_iterable(self._named)) == self._names
            and all(map(operator.is_, map(vars, self._modules), self._attributes))
        )


def _containers(root: Module) -> Iterator[Any]:
    """Yields every module and container of a tree, each once."""
    seen: set[int] = set()
    pending: list[Any] = [root]
    while pending:
        node = pending.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            held = vars(node) if isinstance(node, Module) else node
            pending += filter(is_container, held.values() if isinstance(held, dict) else held)
