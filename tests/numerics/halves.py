"""The cases of the op table whose floats may have 16 bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from case import Case
from cases import CASES
from harness import NumpyArray

from tensorgrad.tracing.dtypes import NAMES


@dataclass(frozen=True)
class Half:
    """A float of 16 bits: its dtype, the error of rounding to it, and its smallest number."""

    dtype: np.dtype[Any]
    epsilon: float
    smallest: float


F16, BF16 = Half(NAMES["f16"], 2.0**-11, 2.0**-24), Half(NAMES["bf16"], 2.0**-8, 2.0**-133)


def halved(case: Case, half: Half) -> list[NumpyArray]:
    """Returns a case's inputs with f32 converted to 16 bits."""
    with np.errstate(over="ignore", invalid="ignore"):
        return [x.astype(half.dtype) if x.dtype == np.float32 else x for x in case.inputs]


NOT_HALF = frozenset(
    {
        "add-linspace",
        "bitcast-of_a_transpose",
        "cast-f32_f64",
        "cast-f64_to_f32_and_back",
        "cast-of_a_comparison",
        "compare-eye",
        "constant-beside_an_input",
        "constant-folded_with_another",
        "dot_general-one_hot_multiplied",
        "iota-positions",
        "select-lerp_ends",
    }
)
"""The cases, by id, that have constants of f32, or compute in another dtype or on bits."""


def has_single(case: Case) -> bool:
    """Returns whether a case has f32 inputs."""
    return any(x.dtype == np.float32 for x in case.inputs)


HALVES = [case for case in CASES if has_single(case) and case.id not in NOT_HALF]
IN_BF16 = [case for case in HALVES if case.id != "cast-f32_f16"]
