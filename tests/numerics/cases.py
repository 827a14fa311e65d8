"""One table: for each op of `tg`, sample inputs and what numpy gives for them."""

from __future__ import annotations

from case import Case
from cases_pointwise import pointwise_cases
from cases_random import random_cases
from cases_tensor import tensor_cases

CASES: tuple[Case, ...] = (*pointwise_cases(), *tensor_cases(), *random_cases())

SMOOTH: tuple[Case, ...] = tuple(case for case in CASES if case.derivative)
"""The cases whose derivatives are checked."""
