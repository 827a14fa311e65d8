"""The collectives of a program's plan, on host arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorgrad.runtime.errors import GroupError
from tensorgrad.runtime.group.group import Group
from tensorgrad.runtime.group.reductions import Array
from tensorgrad.runtime.plan import Collective


def check_size(group: Group, size: int) -> None:
    """Checks that a group has the size that a program was compiled for.

    Raises:
        GroupError: It has another size.
    """
    if group.size != size:
        raise GroupError(
            f"the program is for a group of {size} processes, this one is in a group of {group.size}; compile it again"
        )


def exchange(group: Group, step: Collective, sources: Sequence[Array], results: Sequence[Array]) -> None:
    """Runs a collective. Its tensors are packed into one message, as groups of many processes are fastest with few.

    Args:
        group: The group.
        step: The collective.
        sources: This process's part of each tensor, flat.
        results: Receives each result; flat and contiguous.

    Raises:
        GroupError: Another process did not join, or ended.
    """
    if len(sources) == 1:
        _run(group, step, sources[0], results[0])
        return
    # In the message, the data of one rank is contiguous.
    rows = step.size if step.kind == "reduce_scatter" else 1
    message = np.concatenate([source.reshape(rows, -1) for source in sources], axis=1).reshape(-1)
    rows = step.size if step.kind == "all_gather" else 1
    answer = np.empty(sum(result.size for result in results), message.dtype)
    _run(group, step, message, answer)
    columns, start = answer.reshape(rows, -1), 0
    for result in results:
        width = result.size // rows
        result.reshape(rows, -1)[...] = columns[:, start : start + width]
        start += width


def _run(group: Group, step: Collective, source: Array, result: Array) -> None:
    match step.kind:
        case "all_reduce":
            group.all_reduce(source, step.reduction, result, label=step.label)
        case "reduce_scatter":
            group.reduce_scatter(source, step.reduction, result, label=step.label)
        case "all_gather":
            group.all_gather(source, result, label=step.label)
        case _:
            result[...] = source
            group.broadcast(result, step.root, label=step.label)
