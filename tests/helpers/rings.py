"""The rings of the tests: what runs for every change, and what is left to `make nightly`.

A table of cases is checked for many properties, and most faults in an op show in several of them. So `make test` takes
each case for some properties and each property for some cases of every op, in turns; `make nightly` takes all.
"""

from __future__ import annotations

import zlib
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


def parts_of(tests: Iterable[str], parts: int) -> list[int]:
    """Returns the part, from 1 on, that each test is in, for `--slice`.

    Cases of a test take turns from a part on that its name determines, so no other test moves them.

    Args:
        tests: The names of tests, with those of their cases.
        parts: How many parts there are.
    """
    turns: dict[str, int] = {}
    numbers: list[int] = []
    for test in tests:
        name = test.partition("[")[0]
        turns[name] = turns.get(name, zlib.crc32(name.encode())) + 1
        numbers.append(turns[name] % parts + 1)
    return numbers


def leaves_out_nightly(expression: str) -> bool:
    """Returns whether a marker expression leaves out all nightly tests, told by a plain `and` of `not nightly`."""
    terms = expression.split(" and ")
    return "not nightly" in terms and not any(" or " in term or "(" in term for term in terms)


def without_nightly(mark: pytest.Mark) -> pytest.Mark:
    """Returns a mark, if it is a `parametrize` then without the nightly cases, unless all of them are.

    A night has four times the cases of other runs, and making an item of each takes longer than many tests.
    """
    if mark.name != "parametrize" or isinstance(mark.kwargs.get("ids"), list | tuple):
        return mark
    names, values, *others = mark.args
    cases = [*values]
    kept = [case for case in cases if not any(one.name == "nightly" for one in getattr(case, "marks", ()))]
    return pytest.mark.parametrize(names, kept, *others, **mark.kwargs).mark if kept else mark
