"""Finds the group of this process, or of this thread of a simulated group."""

from __future__ import annotations

import threading

from tensorgrad.runtime.group.alone import Alone
from tensorgrad.runtime.group.group import Group, timeout_seconds
from tensorgrad.runtime.group.launched import is_launched
from tensorgrad.runtime.group.mpi import MPIGroup
from tensorgrad.runtime.group.simulated import own_group

_lock = threading.Lock()
_of_process: list[Group] = []


def current_group(timeout: float | None = None) -> Group:
    """Returns the group of the processes launched with this one, or a group of one; it is created once.

    Args:
        timeout: The new number of seconds to wait for the others, if given.

    Raises:
        GroupError: MPI can't be used, or the timeout is not a positive number.
    """
    own = own_group()
    with _lock:
        if own is None and not _of_process:
            _of_process.append(MPIGroup(timeout) if is_launched() else Alone(timeout))
        group = own or _of_process[0]
    if timeout is not None:
        group.timeout = timeout_seconds(timeout)
    return group
