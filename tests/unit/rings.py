"""The rings of the tests: what runs for every change, and what is left to `make nightly`.

A table of cases is checked for many properties, and most faults in an op show in several of them. So `make test` takes
each case for some properties and each property for some cases of every op, in turns; `make nightly` takes all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import pytest


def parameters(values: Iterable[Any], chosen: Collection[str], name: Callable[[Any], str] = str) -> list[Any]:
    """Returns values as test parameters; all but those with a chosen name are nightly."""
    marks = {False: [pytest.mark.nightly], True: []}
    return [pytest.param(value, id=name(value), marks=marks[name(value) in chosen]) for value in values]


def in_turns(names: Iterable[str], each: int, turn: int = 0) -> list[Any]:
    """Returns names as test parameters; all but every `each`-th, from the one numbered `turn` on, are nightly."""
    names = list(names)
    return parameters(names, names[turn::each])
