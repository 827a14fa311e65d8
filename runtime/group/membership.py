"""The group that this process, or this thread of a simulated group, is in."""

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
    """Returns the group of the processes that this one was launched with, or that of one; it is made once.

    Args:
        timeout: Seconds to wait for the others from now on, if given.

    Raises:
        GroupError: MPI can't be used, or the time-out is no positive number.
    """
    found = own_group()
    with _lock:
        if found is None and not _of_process:
            _of_process.append(MPIGroup(timeout) if is_launched() else Alone(timeout))
        group = found or _of_process[0]
    if timeout is not None:
        group.timeout = timeout_seconds(timeout)
    return group
