"""Cases of every op as StableHLO: written, read, and run by the reference; each night also as XLA compiles them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from case import Case
from case_programs import alone_where_it_fails, check_values, programs
from cases import CASES, spread
from elsewhere import by_xla
from harness import NumpyArray, apply, reference
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from tensorgrad.passes.stablehlo.stablehlo_to_tg import StablehloToTgPass
from tensorgrad.passes.stablehlo.tg_to_stablehlo import TgToStablehloPass
from tensorgrad.tools.parsing import parse_module

OTHERS_DIFFER = {
    "conv-an_infinite_weight_over_padding": "for XLA, what lies in the padding is no factor",
    "floor_divide-f32_table": "XLA's code for CPUs takes subnormal numbers for zeros",
    "lgamma-near": "XLA's code for CPUs takes subnormal numbers for zeros",
    "remainder-f32_table": "XLA's code for CPUs takes subnormal numbers for zeros",
}
"""The cases of which XLA computes something else, and why."""

ROUNDING = 20.0
"""How many times our bounds XLA's functions may be off."""


def exportable(cases: Sequence[Case]) -> list[Case]:
    """Returns the cases of ops that StableHLO has: those between processes have no counterpart."""
    return [case for case in cases if case.op.__module__.rpartition(".")[2] != "collective"]


ONE_OF_EACH = programs(exportable(spread(CASES, len(CASES))))
ALL = programs(exportable(CASES))


def written(module: ModuleOp) -> str:
    """Returns a `tg` module as the text of StableHLO."""
    apply(TgToStablehloPass(), module)
    return str(module)


def read_again(module: ModuleOp, inputs: Sequence[NumpyArray]) -> list[NumpyArray]:
    """Runs a `tg` module after it has been written as StableHLO, and read."""
    again = parse_module(written(module), "main.mlir")
    again.verify()
    StablehloToTgPass().apply(Context(), again)
    again.verify()
    return reference(again, inputs)


def as_xla_compiles_it(module: ModuleOp, inputs: Sequence[NumpyArray]) -> list[NumpyArray]:
    return by_xla(written(module))(inputs)


@pytest.mark.check
@pytest.mark.parametrize("program", ONE_OF_EACH)
def test_each_op_is_written_and_read(program: str) -> None:
    alone_where_it_fails(check_values, ONE_OF_EACH[program], read_again)


@pytest.mark.nightly
@pytest.mark.parametrize("program", ALL)
def test_all_cases_are_written_and_read(program: str) -> None:
    alone_where_it_fails(check_values, ALL[program], read_again)


@pytest.mark.nightly
@pytest.mark.parametrize("program", ALL)
def test_xla_computes_the_same(program: str) -> None:
    cases = [
        replace(case, rtol=max(ROUNDING * case.tolerance, 2e-5) if _has_floats(case) else 0)
        for case in ALL[program]
        if case.id not in OTHERS_DIFFER
    ]
    alone_where_it_fails(check_values, cases, as_xla_compiles_it)


def _has_floats(case: Case) -> bool:
    return np.issubdtype(case.value().dtype, np.floating)
