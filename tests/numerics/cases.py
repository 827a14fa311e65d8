"""One table: for each op of `tg`, sample inputs and what numpy gives for them."""

from __future__ import annotations

from case import Case
from cases_arithmetic import arithmetic_cases
from cases_arrays import array_cases
from cases_collective import collective_cases
from cases_composed import composed_cases
from cases_convolution import convolution_cases
from cases_cumulative import cumulative_cases
from cases_functions import function_cases
from cases_index import index_cases
from cases_places import place_cases
from cases_random import random_cases
from cases_scatter import scatter_cases
from cases_tensor import tensor_cases
from cases_windows import window_function_cases

CASES: tuple[Case, ...] = (
    *arithmetic_cases(),
    *function_cases(),
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
)

SMOOTH: tuple[Case, ...] = tuple(case for case in CASES if case.derivative)
"""The cases whose derivatives are checked."""
