"""Random programs and their gradients, divided among processes, have the results of a single process."""

from __future__ import annotations

import numpy as np
import pytest
from harness import NumpyArray, apply
from hypothesis import given
from hypothesis import strategies as st
from programs import Program, programs
from replay import LEVELS_AGREE, samples
from rounding import rounding, widened
from test_programs import differentiated, some
from xdsl.dialects.builtin import ModuleOp

from tensorgrad.dialects.functions import find_function
from tensorgrad.dialects.signature import arguments_of
from tensorgrad.interpreters.tensors import TensorExecutor
from tensorgrad.passes.tensors.distribute import DistributePass
from tensorgrad.runtime.group.group import Group
from tensorgrad.runtime.group.simulated import simulate

CHANGE, NIGHTLY = 5, 2000
"""The number of programs for every change, and for `make nightly`."""

FEWEST_DIVIDED = 0.4
"""The minimum fraction of programs that have a divided input, and are far enough from discontinuities to compare."""

TIMEOUT = 60.0


SIZES = (2, 3, 4, 5)


def is_cut(value: NumpyArray, size: int) -> bool:
    return value.ndim > 0 and len(value) > 0 and len(value) % size == 0


def divided(module: ModuleOp, inputs: list[NumpyArray], draw: int) -> bool:
    """Returns whether a program can be divided and compared; if so, a group must agree with a single process.

    Args:
        module: The program.
        inputs: Its inputs.
        draw: Which of the sizes that divide an input the group has.
    """
    sizes = [size for size in SIZES if any(is_cut(value, size) for value in inputs)]
    rounded = rounding(module, inputs) if sizes else None
    if rounded is None or not rounded.settled:
        return False
    size = sizes[draw % len(sizes)]
    names = [slot.name for slot in arguments_of(find_function(module, None))]
    cut = [is_cut(value, size) for value in inputs]
    whole = tuple(name for name, has_parts in zip(names, cut, strict=True) if not has_parts)
    wide = [value.astype(np.float64) if value.dtype == np.float32 else value for value in inputs]

    def run(group: Group) -> list[NumpyArray]:
        own = widened(module)
        apply(DistributePass(size, group.rank, None, whole), own)
        parts = [np.split(v, size)[group.rank] if has_parts else v for v, has_parts in zip(wide, cut, strict=True)]
        return TensorExecutor(own).call(parts)

    for results in simulate(size, run, timeout=TIMEOUT):
        for result, correct in zip(results, rounded.expected, strict=True):
            scale = float(np.abs(correct).max(initial=0.0)) if correct.dtype.kind == "f" else 0.0
            np.testing.assert_allclose(result, correct, rtol=0, atol=LEVELS_AGREE * max(1.0, scale))
    return True


def check_random_programs(count: int) -> None:
    compared: list[bool] = []

    @given(programs(), st.integers(0, 3), st.integers(0, 3))
    @some(count)
    def check(program: Program, draw: int, seed: int) -> None:
        module = differentiated(program)
        compared.append(divided(module, samples(module, seed), draw))

    check()
    print(f"{len(compared)} programs, {sum(compared)} of them divided")
    assert sum(compared) >= FEWEST_DIVIDED * len(compared)


@pytest.mark.nightly
def test_programs_agree() -> None:
    check_random_programs(CHANGE)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_many_programs_agree() -> None:
    check_random_programs(NIGHTLY)
