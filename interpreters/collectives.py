"""Interprets collectives with NumPy, by exchanging values with the current group."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from xdsl.ir import SSAValue

from tensorgrad.dialects import collective as buffers
from tensorgrad.dialects.tg.base import Evaluate, NumpyArray
from tensorgrad.dialects.tg.collective import (
    AllGatherOp,
    AllReduceOp,
    CollectiveBroadcastOp,
    CollectiveOp,
    ReduceScatterOp,
)
from tensorgrad.runtime.group.collective import check_size, exchange
from tensorgrad.runtime.group.group import Group
from tensorgrad.runtime.group.membership import current_group
from tensorgrad.runtime.plan import HOST_DTYPES, Collective, Exchange


def prepare_collective(op: CollectiveOp) -> Evaluate:
    """Returns an op's function, which exchanges arrays with the group of the thread that calls it.

    Raises:
        GroupError: Raised by the function: the group has another size, or another process did not join.
    """
    size, run = op.size, _run(op)

    def exchanged(x: NumpyArray) -> NumpyArray:
        group = current_group()
        check_size(group, size)
        return run(group, x)

    return exchanged


def _run(op: CollectiveOp) -> Callable[[Group, NumpyArray], NumpyArray]:
    """Returns a function of a group and of this process's value, with the op's attributes bound."""
    match op:
        case AllReduceOp():
            reduction = op.reduction.data
            return lambda group, x: group.all_reduce(np.ascontiguousarray(x), reduction).reshape(x.shape)
        case ReduceScatterOp() | AllGatherOp():
            axis, gathers = op.axis.value.data, isinstance(op, AllGatherOp)

            def along(group: Group, x: NumpyArray) -> NumpyArray:
                rows = np.ascontiguousarray(np.moveaxis(x, axis, 0))
                moved = group.all_gather(rows) if gathers else group.reduce_scatter(rows)
                return np.ascontiguousarray(np.moveaxis(moved, 0, axis))

            return along
        case _:
            assert isinstance(op, CollectiveBroadcastOp), f"no function runs {op.name}"
            root = op.root.value.data
            return lambda group, x: group.broadcast(np.array(x, order="C"), root)


def run_collective(stage: buffers.CollectiveOp, arrays: Mapping[SSAValue, NumpyArray]) -> None:
    """Runs a collective on buffers; an asynchronous one exchanges in its second phase, the wait.

    Args:
        stage: The collective.
        arrays: The storage of its buffers; the result is written in place.

    Raises:
        GroupError: The group has another size, or another process did not join.
    """
    group = current_group()
    check_size(group, stage.size)
    if stage.is_start:
        arrays[stage.outputs[0]][...] = 0
        return
    element = arrays[stage.sources[0]].dtype
    dtype = np.dtype(f"u{element.itemsize}") if stage.is_unsigned else element
    sources = [np.ascontiguousarray(arrays[value]).reshape(-1).view(dtype) for value in stage.sources]
    results = [arrays[value] for value in stage.outputs]
    received = [np.empty(result.size, dtype) for result in results]
    parts = tuple(
        Exchange(0, 0, source.size, 0, 0, result.size) for source, result in zip(sources, received, strict=True)
    )
    kind = stage.kind.data
    step = Collective(kind, stage.combiner, stage.rank_of_root, stage.size, _NAMES[dtype], parts, kind)
    exchange(group, step, sources, received)
    for result, array in zip(results, received, strict=True):
        result[...] = array.view(result.dtype).reshape(result.shape)


_NAMES = {np.dtype(dtype): name for name, dtype in HOST_DTYPES.items()}
