"""Distributed training: the group of processes that this one was launched in, and this process's shard of a batch."""

from __future__ import annotations

from typing import Any

from tensorgrad.errors import AxisError, InputError
from tensorgrad.runtime.conversion import to_numpy
from tensorgrad.runtime.group.group import Group, Traffic
from tensorgrad.runtime.group.membership import current_group
from tensorgrad.runtime.group.simulated import simulate
from tensorgrad.surface.calls import publish
from tensorgrad.tracing.trees import flatten

__all__ = ["Group", "Traffic", "barrier", "group", "is_first", "rank", "shard", "simulate", "size"]


def group(timeout: float | None = None) -> Group:
    """Returns the group of processes that this one was launched in, or a group of one if no launcher started it.

    The first call creates the group, and initializes MPI. From then on, an exception that ends one process ends all of
    them. In a thread of `simulate`, this is the simulated group.

    Args:
        timeout: The number of seconds that a call waits for the other processes before it raises; by default
            `TG_GROUP_TIMEOUT`, or 300. A later call can change it.

    Raises:
        GroupError: An MPI launcher started this process but MPI can't be used, or the timeout is not a positive number.

    Example:
        >>> tg.distributed.group().size
        1
    """
    return current_group(timeout)


def rank() -> int:
    """Returns this process's rank in its group, from 0.

    Example:
        >>> tg.distributed.rank()
        0
    """
    return group().rank


def size() -> int:
    """Returns the number of processes in the group.

    Example:
        >>> tg.distributed.size(), tg.distributed.simulate(2, lambda group: tg.distributed.size())
        (1, [2, 2])
    """
    return group().size


def is_first() -> bool:
    """Returns whether this process has rank 0, the one that logs and saves for the whole group.

    Example:
        >>> tg.distributed.is_first()
        True
    """
    return rank() == 0


def barrier() -> None:
    """Waits until every process of the group has reached this call.

    Raises:
        GroupError: Another process did not join, or ended.

    Example:
        >>> tg.distributed.barrier()
    """
    group().barrier()


def shard(batch: Any, axis: int = 0) -> Any:
    """Returns this process's shard of a batch; shards are equal, contiguous, and in rank order.

    Args:
        batch: The whole batch: an array, or a pytree of arrays such as a dict by name.
        axis: The axis to divide. Scalars are the same in every process, and returned whole.

    Returns:
        The shards, as views, in a pytree with the structure of `batch`.

    Raises:
        InputError: The axis's extent is not divisible by the group's size.
        AxisError: An array other than a scalar lacks the axis.

    Example:
        >>> tg.distributed.simulate(2, lambda group: tg.distributed.shard({"x": np.arange(4)})["x"].tolist())
        [[0, 1], [2, 3]]
    """
    leaves, rebuild = flatten(batch)
    return rebuild([_part(leaf, axis) for leaf in leaves])


def _part(leaf: Any, axis: int) -> Any:
    array = leaf if hasattr(leaf, "shape") else to_numpy(leaf, "shard: a leaf of the batch")
    if not array.shape:
        return array
    if not -len(array.shape) <= axis < len(array.shape):
        raise AxisError(f"shard: axis {axis} is out of range for an array of {len(array.shape)} axes")
    place = axis % len(array.shape)
    extent, own = array.shape[place], group()
    part, rest = divmod(extent, own.size)
    if rest:
        raise InputError(
            f"shard: axis {axis} of an array of shape {tuple(array.shape)} has {extent} elements, which do not divide "
            f"among {own.size} ranks"
        )
    return array[(*[slice(None)] * place, slice(own.rank * part, (own.rank + 1) * part))]


publish(globals())
