"""The rings of the tests: what runs for every change, and what is left to `make nightly`.

A table of cases is checked for many properties, and most faults in an op show in several of them. So `make test` takes
each case for some properties and each property for some cases of every op, in turns; `make nightly` takes all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest


def mark_turns(items: Iterable[pytest.Item]) -> None:
    """Marks as nightly all but every `each`-th case of a test that is marked `in_turns(each, turn)`."""
    seen: Counter[tuple[Any, str]] = Counter()
    for item in items:
        marker = item.get_closest_marker("in_turns")
        if marker is not None:
            each, turn = (*marker.args, 0)[:2]
            test = (item.path, getattr(item, "originalname", item.name))
            if seen[test] % each != turn:
                item.add_marker(pytest.mark.nightly)
            seen[test] += 1
