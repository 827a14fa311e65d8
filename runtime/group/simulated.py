"""Groups whose ranks are threads of one process, for tests and for trying a distributed program in one process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tensorgrad.runtime.errors import GroupError, InputError
from tensorgrad.runtime.group.group import Group, timeout_seconds
from tensorgrad.runtime.group.reductions import Array

Result = TypeVar("Result")

_own = threading.local()


class _Meeting:
    """A rendezvous of the ranks of a simulated group: each passes a value, and all receive everyone's values."""

    def __init__(self, size: int, timeout: float):
        self.size = size
        self.timeout = timeout
        self.changed = threading.Condition()
        self.brought: dict[int, tuple[str, Any]] = {}
        self.met: list[tuple[str, Any]] = []
        self.round = 0
        self.ended: dict[int, str] = {}
        self.abandoned: dict[int, str] = {}
        self.failed: tuple[int, BaseException] | None = None

    def meet(self, rank: int, what: str, value: Any) -> list[Any]:
        """Returns the values of all ranks, in rank order.

        Raises:
            GroupError: Another rank ended, is in another call, or did not arrive in time.
        """
        with self.changed:
            present = self.round
            self.brought[rank] = (what, value)
            if len(self.brought) == self.size:
                self.met = [self.brought[rank] for rank in range(self.size)]
                self.brought = {}
                self.round += 1
                self.changed.notify_all()
            start = time.monotonic()
            self.changed.wait_for(lambda: self.round > present or bool(self.ended or self.abandoned), self.timeout)
            if self.round == present:
                self._give_up(rank, what, time.monotonic() - start)
            others = [(rank, text) for rank, (text, _) in enumerate(self.met) if text != what]
            if others:
                raise GroupError(f"rank {rank} of {self.size} is in {what}, but rank {others[0][0]} in {others[0][1]}")
            return [value for _, value in self.met]

    def _give_up(self, rank: int, what: str, waited: float) -> None:
        gone = {**self.abandoned, **self.ended}
        if rank in gone:
            raise GroupError(f"rank {rank} of {self.size}: {what}: {gone[rank]}")
        if gone:
            other, reason = next(iter(gone.items()))
            raise GroupError(f"rank {rank} of {self.size} waited in {what}, but rank {other} {reason}")
        missing = ", ".join(str(rank) for rank in range(self.size) if rank not in self.brought)
        raise GroupError(f"rank {rank} of {self.size} waited {waited:g} s in {what}; did not join: {missing}")

    def abandon(self, rank: int, reason: str) -> None:
        """Marks a rank as joining no further call."""
        with self.changed:
            self.abandoned[rank] = f"gave up: {reason}"
            self.changed.notify_all()

    def leave(self, rank: int, error: BaseException | None) -> None:
        """Marks a rank as ended, so that nobody waits for it."""
        with self.changed:
            if error is not None and self.failed is None:
                self.failed = (rank, error)
            self.ended[rank] = "returned" if error is None else f"ended by {type(error).__name__}: {error}"
            self.changed.notify_all()


class Simulated(Group):
    """One rank of a group of threads, created by `simulate`."""

    def __init__(self, rank: int, meeting: _Meeting):
        super().__init__(rank, meeting.size, meeting.timeout)
        self._meeting = meeting

    def abandon(self, reason: str) -> None:
        """See `Group`; the other ranks are notified."""
        super().abandon(reason)
        self._meeting.abandon(self.rank, reason)

    def _all_to_all(
        self, send: Array, send_counts: Sequence[int], receive: Array, receive_counts: Sequence[int], what: str
    ) -> None:
        start = 0
        for (sent, counts), count in zip(self._meet(what, (send, send_counts)), receive_counts, strict=True):
            first = sum(counts[: self.rank])
            receive[start : start + count] = sent[first : first + count]
            start += count
        self._meet(what, None)

    def _all_gather(self, array: Array, counts: Sequence[int], what: str) -> None:
        start = 0
        for rank, (sent, count) in enumerate(zip(self._meet(what, array), counts, strict=True)):
            if rank != self.rank:
                array[start : start + count] = sent[start : start + count]
            start += count
        self._meet(what, None)

    def _broadcast(self, array: Array, root: int, what: str) -> None:
        sent = self._meet(what, array)[root]
        if self.rank != root:
            array[:] = sent
        self._meet(what, None)

    def _meet(self, what: str, value: Any) -> list[Any]:
        return self._meeting.meet(self.rank, what, value)


def simulate(size: int, function: Callable[[Group], Result], timeout: float | None = None) -> list[Result]:
    """Runs a function as every rank of a group simultaneously, one thread each; returns the results in rank order.

    Args:
        size: The number of ranks.
        function: A function of its rank's group. `tg.distributed` finds the same group in its thread.
        timeout: How long a rank waits for the others, in seconds; by default `TG_GROUP_TIMEOUT`, or 300.

    Raises:
        InputError: The size is not a positive integer.
        Exception: The exception of the first rank that failed; the others got a `GroupError` because of it.

    Example:
        >>> tg.distributed.simulate(3, lambda group: (group.rank, group.size))
        [(0, 3), (1, 3), (2, 3)]
    """
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise InputError(f"size must be a positive integer, got {size!r}")
    meeting = _Meeting(size, timeout_seconds(timeout))
    results: dict[int, Result] = {}

    def run(rank: int) -> None:
        _own.group = Simulated(rank, meeting)
        try:
            results[rank] = function(_own.group)
        except BaseException as error:  # reported to the other ranks, and raised below
            meeting.leave(rank, error)
        else:
            meeting.leave(rank, None)

    # Daemon threads: a rank that hangs must not block the process once another has failed.
    threads = [threading.Thread(target=run, args=(rank,), name=f"rank {rank}", daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    with meeting.changed:
        meeting.changed.wait_for(lambda: len(meeting.ended) == size or meeting.failed is not None)
        meeting.changed.wait_for(lambda: len(meeting.ended) == size, meeting.timeout)
    if meeting.failed is not None:
        raise meeting.failed[1]
    return [results[rank] for rank in range(size)]


def own_group() -> Group | None:
    """Returns the simulated group that the calling thread is a rank of, or None."""
    return getattr(_own, "group", None)
