"""Processes that train together: the group that this one was launched in, and its part of a batch."""

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
    """Returns the group of processes that this one was launched in; the group of one if no launcher started it.

    It is made at the first call, which begins this process's part in MPI. From then on an exception that ends a process
    ends all. In a thread of `simulate` it is the simulated group.

    Args:
        timeout: Seconds that a call waits for the other processes before it raises; by default those of the variable
            `TG_GROUP_TIMEOUT`, or 300. It can be changed by calling again.

    Raises:
        GroupError: A launcher of MPI started this process and MPI can't be used; or the time-out is no positive number.
    """
    return current_group(timeout)


def rank() -> int:
    """Returns this process's place in its group, from 0."""
    return group().rank


def size() -> int:
    """Returns how many processes this one's group has."""
    return group().size


def is_first() -> bool:
    """Returns whether this process is the first of its group, rank 0: the one that logs and saves for all."""
    return rank() == 0


def barrier() -> None:
    """Waits until every process of the group is here.

    Raises:
        GroupError: One did not come, or ended.
    """
    group().barrier()


def shard(batch: Any, axis: int = 0) -> Any:
    """Returns this process's part of a batch: equal, contiguous parts in the order of ranks.

    Args:
        batch: An array, or a tree of arrays such as a dict by name, that every process has whole.
        axis: The axis that is divided. Arrays without axes are the same for all, and stay.

    Returns:
        The parts, as views, in a tree like that of `batch`.

    Raises:
        InputError: An extent does not divide by the size of the group.
        AxisError: An array has axes, but not this one.
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
