"""Lists of what a table of rules has, by the module that each rule stands in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any


def by_family(
    families: Sequence[ModuleType], functions: Mapping[str, Callable[..., Any]]
) -> dict[str, tuple[str, ...]]:
    """Returns the names of functions, sorted, by the first line of the docstring of their module."""
    return {
        (family.__doc__ or "").partition("\n")[0].rstrip("."): tuple(
            sorted(name for name, function in functions.items() if function.__module__ == family.__name__)
        )
        for family in families
    }
