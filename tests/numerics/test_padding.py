"""What `checks.padding` says of the elements of every case's result, compared with what the reference computes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from case import Case
from cases import CASES, by_turns
from harness import NumpyArray, reference, traced
from xdsl.ir import BlockArgument

from tensorgrad.checks.padding import ElementFacts, interpreted, padded_input
from tensorgrad.dialects.functions import find_function
from tensorgrad.dialects.tg.base import int_value
from tensorgrad.dialects.tg.index import TakeAlongAxisOp, TakeOp


def padded_axes(case: Case) -> dict[int, int]:
    """Returns an axis of each input that can be padded: the last one of several elements."""
    axes: dict[int, int] = {}
    for place, x in enumerate(case.inputs):
        read = read_axes(case) if not place and case.op in (TakeOp, TakeAlongAxisOp) else []
        long = [axis for axis, extent in enumerate(x.shape) if extent > 1 and axis not in read]
        if long and x.size:
            axes[place] = long[-1]
    return axes


def read_axes(case: Case) -> list[int]:
    """Returns axes of the first input that a case reads along, where positions that aren't padded are assumed.

    If it is rearranged first, these may be all.
    """
    read = next(op for op in traced(case.function, case.inputs).walk() if isinstance(op, TakeOp | TakeAlongAxisOp))
    is_whole = isinstance(read.operand, BlockArgument)
    return [int_value(read.properties, "axis")] if is_whole else list(range(case.inputs[0].ndim))


def real_of(extent: int) -> dict[int, int]:
    """Returns how many positions of an extent aren't padded: somewhat more than half."""
    return {extent: (extent + 1) // 2}


def overwritten(x: NumpyArray, axis: int, values: NumpyArray) -> NumpyArray:
    """Returns an input with other values at its padded positions."""
    padded = padded_input(x.shape, x.dtype, {axis: 0}, real_of(x.shape[axis])).padded
    return np.where(padded, values, x).astype(x.dtype)


def equal(x: NumpyArray, y: NumpyArray) -> NumpyArray:
    return (x == y) | ((x != x) & (y != y))


@pytest.mark.parametrize("case", by_turns([case for case in CASES if padded_axes(case)], 16, 5))
def test_what_is_said_of_elements_holds(case: Case) -> None:
    axes = padded_axes(case)
    module = traced(case.function, case.inputs)
    function = find_function(module, None)

    def said(values: dict[int, float], is_known: bool) -> ElementFacts:
        inputs: dict[int, ElementFacts] = {}
        for place, axis in axes.items():
            x = case.inputs[place]
            elements = padded_input(x.shape, x.dtype, {axis: values.get(place, 0)}, real_of(x.shape[axis]))
            nothing = np.zeros_like(elements.padded)
            inputs[place] = replace(elements, unequal=nothing, known=elements.padded if is_known else nothing)
        return interpreted(function, inputs, {})[0]

    def run(values: dict[int, NumpyArray]) -> NumpyArray:
        inputs = [
            overwritten(x, axes[place], values[place]) if place in values else x for place, x in enumerate(case.inputs)
        ]
        return reference(module, inputs)[0]

    first, other = run({}), run({place: np.flip(case.inputs[place]) for place in axes})
    elements = said({}, is_known=False)
    assert not (~elements.padded & ~elements.reached & ~equal(first, other)).any(), "padding reaches it"
    numbers = {place: case.inputs[place].flat[0].item() for place in axes}
    elements = said(numbers, is_known=True)
    result = run({place: np.full_like(case.inputs[place], number) for place, number in numbers.items()})
    assert not (elements.known & ~equal(result, elements.value)).any(), "it is no constant"
