"""Every case divided among processes has the results of a single process with the whole inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from case import Case
from cases import CASES, by_turns
from differences import float_positions, in_f64, mid_graph, mid_graph_inputs
from harness import Function, NumpyArray, apply, assert_same, reference, traced, with_gradient
from xdsl.dialects.builtin import ModuleOp

import tensorgrad as tg
from tensorgrad.dialects.functions import find_function
from tensorgrad.dialects.signature import arguments_of
from tensorgrad.dialects.tg.collective import CollectiveOp
from tensorgrad.dialects.tg.elementwise.arithmetic import BitcastOp
from tensorgrad.passes.tensors.distribute import DistributePass
from tensorgrad.runtime.group.group import Group
from tensorgrad.runtime.group.simulated import simulate

TIMEOUT = 60.0
SIZES = (2, 3)
CLOSE = {np.dtype(np.float64): 1e-11, np.dtype(np.float32): 2e-6}
"""How far floats may be off, by what they are computed in, relative to the largest: sums have another order."""

WHOLE = [case for case in CASES if not issubclass(case.op, CollectiveOp)]
"""The cases of whole programs: in those, no process does what others don't."""


def divided(inputs: Sequence[NumpyArray]) -> Iterator[tuple[int, int]]:
    """Yields group sizes, and axes along which some inputs can be divided equally."""
    for axis in range(max((value.ndim for value in inputs), default=0)):
        for size in SIZES:
            if any(_is_cut(value, axis, size) for value in inputs):
                yield size, axis


def _is_cut(value: NumpyArray, axis: int, size: int) -> bool:
    return value.ndim > axis and value.shape[axis] > 0 and value.shape[axis] % size == 0


def moved(function: Function, axis: int) -> Function:
    """Returns a function that takes its inputs with `axis` moved to the front."""

    def of_moved(*inputs: Any) -> Any:
        return function(*(tg.moveaxis(x, 0, axis) if x.ndim > axis else x for x in inputs))

    return of_moved


def check(module: ModuleOp, inputs: Sequence[NumpyArray], size: int, expected: Sequence[NumpyArray]) -> None:
    """Runs a module in a group, with inputs cut along their first axis if possible."""
    names = [slot.name for slot in arguments_of(find_function(module, None))]
    cut = [_is_cut(value, 0, size) for value in inputs]
    whole = tuple(name for name, is_cut in zip(names, cut, strict=True) if not is_cut)

    def run(group: Group) -> list[NumpyArray]:
        own = module.clone()
        apply(DistributePass(size, group.rank, None, whole), own)
        parts = [np.split(v, size)[group.rank] if is_cut else v for v, is_cut in zip(inputs, cut, strict=True)]
        return [np.asarray(value) for value in reference(own, parts)]

    for results in simulate(size, run, timeout=TIMEOUT):
        for result, correct in zip(results, expected, strict=True):
            assert_same(result, correct, CLOSE.get(correct.dtype, 0.0), f"{size} processes")


def check_case(case: Case, ways: Sequence[tuple[int, int]]) -> None:
    """Checks a case, or its gradient if it has one, for several group sizes and axes."""
    smooth = case.derivative
    inputs = mid_graph_inputs(case) if smooth else inputs_of(case)
    for size, axis in ways:
        arguments = [np.moveaxis(value, axis, 0) if value.ndim > axis else value for value in inputs]
        module = traced(moved(mid_graph(case.function) if smooth else case.function, axis), arguments)
        if smooth:
            module = with_gradient(module, float_positions(arguments))
        check(module, arguments, size, reference(module, arguments))


def inputs_of(case: Case) -> list[NumpyArray]:
    return list(case.inputs) if case.op is BitcastOp else in_f64(case.inputs)


def ways_of(case: Case) -> list[tuple[int, int]]:
    return list(divided(mid_graph_inputs(case) if case.derivative else inputs_of(case)))


@pytest.mark.parametrize("case", by_turns(WHOLE, 30, 2))
def test_a_case(case: Case) -> None:
    """One size and axis per case, in rotation; `make nightly` runs all."""
    ways = ways_of(case)
    place = WHOLE.index(case)
    check_case(case, ways[place % len(ways) :][:1] if ways else [])


@pytest.mark.nightly
@pytest.mark.parametrize("case", WHOLE, ids=lambda case: case.id)
def test_every_way(case: Case) -> None:
    check_case(case, ways_of(case))
