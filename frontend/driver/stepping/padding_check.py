"""Finds losses that depend on padded positions of their inputs."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from tensorgrad.checks.padding import ElementFacts, interpreted, padded_input
from tensorgrad.dialects.locations import line_of
from tensorgrad.dialects.signature import Role, arguments_of, results_of
from tensorgrad.dialects.tg.build import type_of
from tensorgrad.errors import PaddingWarning
from tensorgrad.passes.functions import return_of
from tensorgrad.tracing.dims import paddings
from tensorgrad.tracing.dtypes import Spec

LOSS = "loss"
"""The name of the result that is a loss, if there is one."""

MOST_LISTED = 3
"""How many ops a warning names."""


def warn_of_padding(function: FuncOp, specs: Mapping[str, Spec], name: str) -> None:
    """Warns if losses, other results without an axis of positions, or buffers, depend on padded positions.

    Args:
        function: A traced function.
        specs: Its inputs, some of whose extents may be padded.
        name: Its name in the message.
    """
    slots = enumerate(arguments_of(function))
    padded = {
        place: slot.name for place, slot in slots if slot.role == Role.INPUT and paddings(slot.name, specs[slot.name])
    }
    if not padded:
        return
    extents = {int(spec.shape[axis]) for key, spec in specs.items() for axis in paddings(key, spec)}
    outcomes, reached, through = _outcomes(function, extents), dict[str, None](), set[Operation]()
    for real in _splits(extents):
        inputs: dict[int, ElementFacts] = {}
        for place, key in padded.items():
            spec = specs[key].fixed()
            inputs[place] = padded_input(spec.shape, spec.dtype, paddings(key, specs[key]), real)
        for place, facts in enumerate(interpreted(function, inputs, real)):
            if place in outcomes and facts.reached.any():
                reached[outcomes[place]] = None
                through |= facts.origins
    places = list(dict.fromkeys((op.name, line_of(op.location)) for op in function.walk() if op in through))
    if places:
        _warn(f"padded positions reach {', '.join(reached)} of {name}()", places)


def _splits(extents: Collection[int]) -> list[dict[int, int]]:
    """Returns two numbers of positions that aren't padded, for each padded extent: one, and about half of them.

    The latter is odd, so that windows of two lie over the end too.
    """
    return [dict.fromkeys(extents, 1), {extent: extent // 2 | 1 for extent in extents}]


def _outcomes(function: FuncOp, extents: Collection[int]) -> dict[int, str]:
    """Returns results without an axis of the given extents, and buffers that a function sets, in words, by place."""
    outcomes: dict[int, str] = {}
    for place, (value, slot) in enumerate(zip(return_of(function).operands, results_of(function), strict=True)):
        if slot.role == Role.UPDATE:
            outcomes[place] = f"the buffer {slot.name!r}"
        elif not {*extents} & {*type_of(value).get_shape()}:
            outcomes[place] = "the loss" if slot.name == LOSS else f"the result {slot.name!r}"
    return outcomes


def _warn(what: str, places: Sequence[tuple[str, str]]) -> None:
    """Warns with the ops through which something happens, at the line of the first."""
    (first, line), *others = places
    listed = "".join(f", {kind} at {other}" for kind, other in others[: MOST_LISTED - 1])
    more = f" and {len(places) - MOST_LISTED} more" if len(places) > MOST_LISTED else ""
    message = (
        f"{line}: {what} through {first}{listed}{more}: they have no effect where a mask multiplies them by 0, or "
        "selects something else, and a mean divides by what the mask sums to"
    )
    file, _, number = line.rpartition(":")
    warnings.warn_explicit(message, PaddingWarning, file, int(number))
