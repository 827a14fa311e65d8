"""Finds losses that depend on padded positions of their inputs."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from xdsl.dialects.func import FuncOp

from tensorgrad.checks.padding import origins, padded_input
from tensorgrad.dialects.locations import line_of
from tensorgrad.dialects.signature import arguments_of
from tensorgrad.errors import PaddingWarning
from tensorgrad.tracing.dims import paddings
from tensorgrad.tracing.dtypes import Spec

MOST_LISTED = 3
"""How many ops a warning names."""


def warn_of_padding(function: FuncOp, specs: Mapping[str, Spec], losses: int, name: str, stacklevel: int) -> None:
    """Warns if a loss depends on padded positions.

    Args:
        function: A traced function, whose first results are losses.
        specs: Its inputs, some of whose extents may be padded.
        losses: The number of losses.
        name: Its name in the message.
        stacklevel: As for `warnings.warn`, from the caller of this.
    """
    padding = {key: paddings(key, spec) for key, spec in specs.items()}
    inputs = {
        place: padded_input(specs[slot.name].fixed().shape, specs[slot.name].dtype, padding[slot.name])
        for place, slot in enumerate(arguments_of(function))
        if padding.get(slot.name)
    }
    if not inputs:
        return
    through = {op for loss in range(losses) for op in origins(function, inputs, loss)}
    places = list(dict.fromkeys((op.name, line_of(op.location)) for op in function.walk() if op in through))
    if not places:
        return
    (first, line), *others = places
    listed = "".join(f", {kind} at {other}" for kind, other in others[: MOST_LISTED - 1])
    more = f" and {len(places) - MOST_LISTED} more" if len(places) > MOST_LISTED else ""
    warnings.warn(
        f"{line}: padded positions reach the loss of {name}() through {first}{listed}{more}: they have no effect where "
        "a mask multiplies them by 0, or selects something else",
        PaddingWarning,
        stacklevel=stacklevel + 1,
    )
