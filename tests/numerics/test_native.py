"""Every case and its gradient alone as native code, compared with numpy; f16 and f64 too.

For every change, test_families does so in programs of several cases.
"""

from __future__ import annotations

import pytest
from case import Case
from case_programs import check_gradients, check_values, check_wide_gradients
from cases import CASES, SMOOTH
from harness import as_native_code

pytestmark = pytest.mark.nightly


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_value(case: Case) -> None:
    check_values([case], as_native_code)


@pytest.mark.parametrize("case", SMOOTH, ids=lambda case: case.id)
def test_gradient(case: Case) -> None:
    """In f32 half of the cases, as in training; in f64 the others."""
    check = (check_wide_gradients, check_gradients)[SMOOTH.index(case) // 2 % 2]
    check([case], as_native_code)
