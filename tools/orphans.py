"""Ends a process when its parent ends, even by SIGKILL. `tg launch` starts the MPI launcher through this module.

On Linux the kernel does it; elsewhere a forked process polls the parent. Unlike a thread, both survive `exec`, and work
while Python runs native code.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Sequence

PR_SET_PDEATHSIG = 1
"""The option of `prctl(2)` for the signal that the kernel sends when the parent ends."""

POLLING = 0.2
"""The interval, in seconds, between checks of the parent without `prctl`."""

_PYTHON = sys.executable


def end_with_parent(parent: int, number: signal.Signals) -> None:
    """Makes this process receive a signal when its parent ends, or now if it has ended already.

    Args:
        parent: The parent's process ID, read before the parent could end unnoticed.
        number: The signal, whose default action must be to terminate.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(number), 0, 0, 0)
    elif hasattr(os, "fork"):
        poll_parent(parent, number)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def poll_parent(parent: int, number: signal.Signals) -> None:
    """Forks a process that sends this one a signal once `parent` no longer exists; both end with this one."""
    child = os.getpid()
    if os.fork():
        return
    while os.getppid() == child:
        try:
            os.kill(parent, 0)
        except ProcessLookupError:
            os.kill(child, number)
            break
        time.sleep(POLLING)
    os._exit(0)


def ending_with_this(command: Sequence[str]) -> list[str]:
    """Returns the command line that runs a command which gets SIGTERM when this process ends."""
    return [_PYTHON, "-m", __name__, str(os.getpid()), *command]


if __name__ == "__main__":
    end_with_parent(int(sys.argv[1]), signal.SIGTERM)
    os.execv(sys.argv[2], sys.argv[2:])
