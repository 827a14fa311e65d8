"""The table of cases: for each op of `tg`, sample inputs and numpy's results for them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from case import Case
from cases_arithmetic import arithmetic_cases
from cases_arrays import array_cases
from cases_collective import collective_cases
from cases_composed import composed_cases, fourier_cases
from cases_convolution import convolution_cases
from cases_cumulative import cumulative_cases
from cases_functions import function_cases
from cases_gamma import gamma_cases
from cases_index import index_cases
from cases_places import place_cases
from cases_random import random_cases
from cases_scatter import scatter_cases
from cases_tensor import tensor_cases
from cases_windows import window_function_cases

CASES: tuple[Case, ...] = (
    *arithmetic_cases(),
    *function_cases(),
    *gamma_cases(),
    *tensor_cases(),
    *index_cases(),
    *convolution_cases(),
    *window_function_cases(),
    *random_cases(),
    *array_cases(),
    *cumulative_cases(),
    *place_cases(),
    *scatter_cases(),
    *collective_cases(),
    *composed_cases(),
    *fourier_cases(),
)

SMOOTH: tuple[Case, ...] = tuple(case for case in CASES if case.derivative)
"""The cases whose derivatives are checked."""


COVERING_FILE = Path(__file__).with_name("covering.txt")


def covering() -> list[Case]:
    """Returns the cases that take every branch of the passes down to each device, which covering.py has chosen."""
    by_id = {case.id: case for case in CASES}
    return [by_id[name] for name in COVERING_FILE.read_text(encoding="utf-8").split()]


def spread(cases: Sequence[Case], each: int, turn: int = 0) -> list[Case]:
    """Returns every `each`-th case of each op, from the one numbered `turn` on."""
    by_op: dict[type, list[Case]] = {}
    for case in cases:
        by_op.setdefault(case.op, []).append(case)
    return [case for some in by_op.values() for case in some[turn % min(each, len(some)) :: each]]


def by_turns(cases: Sequence[Case], each: int, turn: int = 0) -> list[object]:
    """Returns the cases as test parameters; all but those of `spread` are nightly."""
    return chosen(cases, spread(cases, each, turn))


def chosen(cases: Sequence[Case], some: Sequence[Case]) -> list[object]:
    """Returns the cases as test parameters; all but `some` are nightly."""
    ids = {case.id for case in some}
    marks = {False: [pytest.mark.nightly], True: []}
    return [pytest.param(case, id=case.id, marks=marks[case.id in ids]) for case in cases]


WIDE = frozenset({np.dtype(np.float16), np.dtype(np.float64)})
"""The dtypes that not every device has."""


def fits_devices(case: Case) -> bool:
    """Returns whether every value of a case has a dtype that devices support."""
    return not (case.wide or WIDE & {case.value().dtype, *(x.dtype for x in case.inputs)})


ON_DEVICE: tuple[Case, ...] = tuple(case for case in CASES if fits_devices(case))
"""The cases that run on devices."""
