"""Runs a collective of `tg` by numpy: the values of the other processes come from the group that this one is in."""

from __future__ import annotations

import numpy as np

from tensorgrad.dialects.tg.base import Evaluate, NumpyArray, int_value
from tensorgrad.dialects.tg.collective import (
    AllGatherOp,
    AllReduceOp,
    CollectiveBroadcastOp,
    CollectiveOp,
    ReduceScatterOp,
)
from tensorgrad.runtime.group.collective import check_size
from tensorgrad.runtime.group.membership import current_group


def prepare_collective(op: CollectiveOp) -> Evaluate:
    """Returns the function of an op, which exchanges arrays with the group that the calling thread is in then.

    Raises:
        GroupError: When it runs, if the group has another size, or another process did not come.
    """
    size = op.size
    axis = int_value(op.properties, "axis") if isinstance(op, ReduceScatterOp | AllGatherOp) else 0

    def exchange(x: NumpyArray) -> NumpyArray:
        group = current_group()
        check_size(group, size)
        match op:
            case AllReduceOp():
                return group.all_reduce(np.ascontiguousarray(x), op.reduction.data).reshape(x.shape)
            case ReduceScatterOp():
                return np.moveaxis(group.reduce_scatter(np.ascontiguousarray(np.moveaxis(x, axis, 0))), 0, axis)
            case AllGatherOp():
                return np.moveaxis(group.all_gather(np.ascontiguousarray(np.moveaxis(x, axis, 0))), 0, axis)
            case CollectiveBroadcastOp():
                return group.broadcast(np.array(x, order="C"), int_value(op.properties, "root"))
            case _:
                raise NotImplementedError(op.name)

    return exchange
