"""The rings of the tests: which cases are made at all."""

from __future__ import annotations

import pytest
from rings import leaves_out_nightly, parts_of, without_nightly

CASES = [1, pytest.param(2, marks=pytest.mark.nightly), pytest.param(3, marks=pytest.mark.web)]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("not nightly", True),
        ("not nightly and not mlir and not web", True),
        ("web and not nightly", True),
        ("nightly", False),
        ("check", False),
        ("", False),
        ("not nightly or web", False),
        ("not (nightly and web)", False),
    ],
)
def test_nightly_cases_are_left_out_only_where_none_is_chosen(expression: str, expected: bool) -> None:
    assert leaves_out_nightly(expression) == expected


def test_the_others_stay() -> None:
    kept = without_nightly(pytest.mark.parametrize("case", CASES, ids=str).mark)
    assert kept.args == ("case", [CASES[0], CASES[2]]) and kept.kwargs == {"ids": str}


def test_ids_stay_beside_their_cases() -> None:
    for mark in (
        pytest.mark.parametrize("case", CASES, ids=["a", "b", "c"]).mark,
        pytest.mark.parametrize("case", CASES[1:2]).mark,
        pytest.mark.in_turns(2).mark,
    ):
        assert without_nightly(mark) is mark


def test_a_new_test_moves_no_other_to_another_slice() -> None:
    tests = ["a.py::one", *(f"a.py::cases[{number}]" for number in range(6)), "b.py::two"]
    numbers = dict(zip(tests, parts_of(tests, 3), strict=True))
    more = [tests[0], "a.py::new", *tests[1:4], "b.py::new[0]", *tests[4:]]
    assert {test: number for test, number in zip(more, parts_of(more, 3), strict=True) if test in numbers} == numbers
    assert sorted(numbers[f"a.py::cases[{number}]"] for number in range(6)) == [1, 1, 2, 2, 3, 3]
